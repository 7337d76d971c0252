"""The reduced form, for machines without root or namespaces: nodes on addresses of the loopback device, behind proxies
that can be cut.

A node listens on 127.77.0.n and is known to all others as 127.78.0.n, where a proxy forwards connections. A cut node
can be reached by none, though it reaches the others: there is no other partition. Disks are directories, so there is no
power loss. The faults that remain are kills, pauses and cuts.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

PORTS = (9092, 9093)
CHUNK_BYTES = 65536


class LoopbackNetwork:
    """Proxies for every node, in a thread of their own; stopped by `close`."""

    def __init__(self, nodes: Iterable[int]) -> None:
        self.nodes = tuple(nodes)
        self._cut: set[int] = set()
        self._refused = dict.fromkeys(self.nodes, 0)
        self._open: dict[int, set[asyncio.StreamWriter]] = {node: set() for node in self.nodes}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    @property
    def clients(self) -> str:
        """The address of the harness."""
        return "127.0.0.1"

    def listens(self, node: int) -> str:
        return f"127.77.0.{node}"

    def known_as(self, node: int) -> str:
        return f"127.78.0.{node}"

    def enter(self, node: int) -> list[str]:
        """The prefix of a node's command line: empty, since there is no namespace to enter."""
        return []

    def make_unreachable(self, node: int) -> None:
        """Break the connections to the node, and refuse new ones."""
        self._cut.add(node)
        self._loop.call_soon_threadsafe(self._break, node)

    def make_reachable(self, node: int) -> int:
        """Accept connections to the node again. Returns how many were broken or refused."""
        self._cut.discard(node)
        refused, self._refused[node] = self._refused[node], 0
        return refused

    def heal_all(self) -> None:
        self._cut.clear()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _break(self, node: int) -> None:
        for writer in list(self._open[node]):
            self._refused[node] += 1
            writer.close()

    async def _listen(self) -> None:
        for node in self.nodes:
            for port in PORTS:
                await asyncio.start_server(self._server(node, port), self.known_as(node), port)

    def _server(self, node: int, port: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if node in self._cut:
                self._refused[node] += 1
                writer.close()
                return
            try:
                onward_reader, onward_writer = await asyncio.open_connection(self.listens(node), port)
            except OSError:
                writer.close()
                return
            self._open[node] |= {writer, onward_writer}
            try:
                await asyncio.gather(pump(reader, onward_writer), pump(onward_reader, writer))
            finally:
                self._open[node] -= {writer, onward_writer}

        return serve


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Forward bytes until either side ends, then end the other."""
    try:
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass  # A reset of the one is an end for the other.
    finally:
        writer.close()


class Directory:
    """A directory in place of a disk."""

    def __init__(self, directory: Path) -> None:
        self.mount_point = directory / "disk"
        self.mount_point.mkdir(parents=True)

    def empty(self) -> None:
        """Do nothing: a directory is never filled."""

    def discard(self) -> None:
        """Do nothing: directories stay until the run ends."""
