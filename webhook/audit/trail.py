"""Where records go: one line each on a stream, which is standard output in a cluster."""

import logging
import threading
from typing import TextIO

from webhook.audit.record import Record

log = logging.getLogger(__name__)


class AuditTrail:
    """Writes records, whole lines only, from any thread. `lost` counts those that could not be written."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._writing = threading.Lock()
        self.lost = 0

    def write(self, record: Record) -> None:
        """Write one record. A full disk or closed pipe loses the record, not the verdict: it is counted and logged."""
        try:
            with self._writing:
                self._stream.write(record.line() + "\n")
                self._stream.flush()
        except (OSError, ValueError) as error:  # ValueError: the stream is closed
            self.lost += 1
            log.warning("The audit record of request %s could not be written: %s", record.uid, error)
