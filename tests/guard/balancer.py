"""A TCP balancer in kube-proxy's place: one port of the Service, several replicas behind it.

A process of its own, so that it hands on the end of a connection at once, however busy the tests are: kube-proxy adds
no time at all, and every moment in which a client does not know yet that its connection has ended is one too many.
"""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Sequence
from itertools import count

from tests.waiting import eventually


class Balancer:
    """Forwards each new connection to the next replica that answers. Loopback only."""

    def __init__(self, port: int, replicas: Sequence[int]) -> None:
        """Listen on `port` and forward to the ports `replicas`, in turn."""
        command = [sys.executable, "-m", "tests.guard.balancer", str(port)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lead_to(replicas)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "listening\n"

    def lead_to(self, replicas: Sequence[int]) -> None:
        """From now on forward new connections to these ports; those that are open stay where they lead."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, replicas)) + "\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """End it, and every connection through it."""
        self._process.kill()
        eventually(lambda: self._process.poll() is not None)


class _Forwarding:
    """What runs in the balancer's process."""

    def __init__(self) -> None:
        self.replicas: list[int] = []
        self._turn = count()

    async def serve(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        """Forward one connection."""
        found = await self._connect()
        if found is None:
            answers.close()
            return
        replica, requests = found
        await asyncio.gather(_pump(client, requests), _pump(replica, answers))

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        replicas = tuple(self.replicas)
        for _ in replicas:
            try:
                return await asyncio.open_connection("127.0.0.1", replicas[next(self._turn) % len(replicas)])
            except OSError:
                continue
        return None


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    target.close()


async def _run(port: int) -> None:
    forwarding = _Forwarding()
    orders = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    forwarding.replicas = [int(word) for word in (await orders.readline()).split()]
    await asyncio.start_server(forwarding.serve, "127.0.0.1", port, backlog=128)
    print("listening", flush=True)
    while line := await orders.readline():  # ends with the tests' process
        forwarding.replicas = [int(word) for word in line.split()]


if __name__ == "__main__":
    asyncio.run(_run(int(sys.argv[1])))
