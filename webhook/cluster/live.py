"""The whole picture read now, with quorum, for the changes that must not be judged by an older one."""

import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import timedelta

from webhook.cluster.connection import Connection
from webhook.cluster.discovery import Served, find
from webhook.cluster.errors import ApiError
from webhook.cluster.listing import pages
from webhook.ownership.facts import Facts
from webhook.ownership.kinds import FactKind, fact_kinds
from webhook.ownership.objects import Record
from webhook.ownership.reading import read
from webhook.ownership.settings import Settings

PAGE = 500
BUSY_SECONDS = 0.25


class LiveReader:
    """Reads every kind in parallel. Thread-safe; keeps nothing but where each kind was served last."""

    def __init__(self, connection: Connection, settings: Settings) -> None:
        self._connection = connection
        self._settings = settings
        self._wanted = tuple((kind, group) for kind in fact_kinds(settings) for group in kind.groups)
        self._pool = ThreadPoolExecutor(max_workers=2 * len(self._wanted), thread_name_prefix="live")
        self._served: dict[tuple[str, str], Served] = {}

    def stop(self) -> None:
        """End the threads; readings under way end with their deadline."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def facts(self, deadline_seconds: float) -> Facts:
        """Return the picture as it is between now and `deadline_seconds` from now.

        Essential kinds that fail, or are not there in time, are in `missing` with the reason.
        """
        began = time.monotonic()
        # Ages of claims are judged by the time before the reading: what lands during it is not in the picture.
        now = self._connection.now()
        end = began + deadline_seconds
        reading = {self._pool.submit(self._read, kind, group, end): kind for kind, group in self._wanted}
        wait(reading, timeout=deadline_seconds)
        records: list[Record] = []
        missing: dict[str, str] = {}
        absent = {kind.id for kind, _ in self._wanted}
        for future, kind in reading.items():
            try:
                found = _result(future, deadline_seconds)
            except ApiError as error:
                absent.discard(kind.id)
                if kind.essential:
                    missing[kind.id] = str(error)
                continue
            if found is not None:
                records += found
                absent.discard(kind.id)
        return Facts.of(
            records,
            now=now,
            age=timedelta(seconds=time.monotonic() - began),
            missing=missing,
            absent=frozenset(absent),
        )

    def _read(self, kind: FactKind, group: str, end: float) -> list[Record] | None:
        """Return the records of a kind, None when it is not served. Raises ApiError.

        Where it was served last is tried first. When it is not there any more it is looked for, and a list that got too
        old on the way is begun again, once. While the API server says that it is busy (429: among others, for a moment
        after a definition was created) it is asked again.
        """
        served = self._served.get((kind.id, group))
        begun_again = False
        while True:
            try:
                served = served or find(self._connection, kind, group, timeout=_left(end))
                if served is None:
                    return None
                records = self._list(served, end)
            except ApiError as error:
                if error.status == 429 and end - time.monotonic() > BUSY_SECONDS:
                    time.sleep(BUSY_SECONDS)
                elif error.status in (404, 410) and not begun_again:
                    begun_again = True
                    served = served if error.gone else None
                else:
                    raise
            else:
                self._served[kind.id, group] = served
                return records

    def _list(self, served: Served, end: float) -> list[Record]:
        return [
            record
            for page in pages(self._connection, served, limit=PAGE, timeout=_left(end), end=end)
            for item in page.objects
            if (record := read(item, self._settings)) is not None
        ]


def _left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise ApiError(0, "there was no time left to read it")
    return left


def _result(future: Future[list[Record] | None], deadline_seconds: float) -> list[Record] | None:
    if not future.done():
        future.cancel()
        raise ApiError(0, f"it was not read within {deadline_seconds:.1f} s")
    return future.result()
