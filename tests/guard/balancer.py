"""A TCP balancer in kube-proxy's place: one port of the Service, several replicas behind it."""

import contextlib
import socket
import threading
from collections.abc import Sequence
from itertools import count


class Balancer:
    """Forwards each new connection to the next replica that answers. Loopback only."""

    def __init__(self, port: int, replicas: Sequence[int]) -> None:
        """Listen on `port` and forward to the ports `replicas`, in turn."""
        self._replicas = tuple(replicas)
        self._turn = count()
        self._listener = socket.create_server(("127.0.0.1", port), backlog=128)
        threading.Thread(target=self._accept, name="balancer", daemon=True).start()

    def close(self) -> None:
        """Take no further connections."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            replica = self._connect()
            if replica is None:
                client.close()
                continue
            for source, target in ((client, replica), (replica, client)):
                threading.Thread(target=_pump, args=(source, target), daemon=True).start()

    def _connect(self) -> socket.socket | None:
        for _ in self._replicas:
            port = self._replicas[next(self._turn) % len(self._replicas)]
            try:
                return socket.create_connection(("127.0.0.1", port), timeout=2)
            except OSError:
                continue
        return None


def _pump(source: socket.socket, target: socket.socket) -> None:
    source.settimeout(None)
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
