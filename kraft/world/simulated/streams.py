"""A simulated TCP connection: two ends, and one pipe in each direction that delays, splits, stalls, resets and forgets
packets as a network does."""

from __future__ import annotations

import errno
import zlib
from collections import deque
from collections.abc import Sequence

import trio

from kraft.world.ports import Buffer, File
from kraft.world.simulated.internet import RETRY_SECONDS, RETRY_SECONDS_MAX, Host, Internet, failure
from kraft.world.simulated.node import Node, Parking

WINDOW = 256 * 1024  # Bytes that a sender may have under way: in flight, unread, or not yet known to be read.
YIELD_RATE = 0.1  # How often a send that needs no wait gives up its turn all the same.
FIN = b""
RST = None
Packet = bytes | None


class Pipe:
    """One direction of a connection. Packets arrive in order: a delayed packet delays all packets behind it."""

    __slots__ = (
        "_held",
        "_internet",
        "_last_arrival",
        "_packets",
        "_pause",
        "ended",
        "forgotten",
        "reader",
        "source",
        "target",
        "unread",
        "window",
        "writer",
    )

    def __init__(self, internet: Internet, source: Host, target: Host) -> None:
        self._internet = internet
        self.source = source
        self.target = target
        self.writer: SimulatedStream
        self.reader: SimulatedStream
        self._packets: deque[tuple[float, Packet]] = deque()
        self._last_arrival = 0.0
        self._pause = RETRY_SECONDS
        self._held = 0  # Bytes read, of which the sender does not know because its acknowledgements are cut.
        self.unread = bytearray()
        self.ended = False
        self.forgotten = False  # Packets are dropped without an error.
        self.window = WINDOW

    def push(self, packet: Packet) -> None:
        internet = self._internet
        arrival = max(self._last_arrival, internet.time.now + internet.latency(self.source, self.target))
        self._last_arrival = arrival
        if self.forgotten:
            internet.bite("forgotten", self.source, self.target)
            return
        self._packets.append((arrival, packet))
        if len(self._packets) == 1:
            internet.time.call_at(arrival, self._arrive)

    def _arrive(self) -> None:
        time = self._internet.time
        if self.forgotten:
            self._packets.clear()
        if not self._packets:
            return  # They were dropped meanwhile.
        internet, port = self._internet, self.writer.local[1]
        if not internet.passes(self.source, self.target) or internet.is_muted(self.source, port, self.target):
            time.call_after(self._pause, self._arrive)
            self._pause = min(self._pause * 2, RETRY_SECONDS_MAX)
            return
        self._pause = RETRY_SECONDS
        _, packet = self._packets.popleft()
        if self._packets:
            time.call_at(self._packets[0][0], self._arrive)
        self.reader.arrived(packet)

    def drop_packets(self) -> None:
        self._packets.clear()

    def release(self, count: int) -> None:
        """Free `count` bytes that the reader has read. The sender's window grows once an acknowledgement arrives."""
        if count and self._internet.passes(self.target, self.source):
            self.window += count
            if self.writer.writable:
                self._internet.later(self.target, self.source, self.writer.writable.wake_all)
            return
        if not self._held:
            self._internet.time.call_after(RETRY_SECONDS, self._release_held)
        self._held += count

    def _release_held(self) -> None:
        held, self._held = self._held, 0
        self.release(held)


class SimulatedStream:
    """Implements `kraft.world.ports.Stream`: one end of a connection."""

    __slots__ = (
        "_closed",
        "_failure",
        "_gone",
        "_home",
        "_internet",
        "_node",
        "incoming",
        "local",
        "name",
        "outgoing",
        "peer",
        "readable",
        "writable",
    )
    is_encrypted = False
    peer_certificate: bytes | None = None

    def __init__(
        self,
        internet: Internet,
        home: Host,
        node: Node,
        name: str,
        local: tuple[str, int],
        peer: str,
        incoming: Pipe,
        outgoing: Pipe,
    ) -> None:
        self._internet = internet
        self._home = home
        self._node = node
        self.name = name
        self.local = local
        self.peer = peer
        self.incoming = incoming
        self.outgoing = outgoing
        incoming.reader = outgoing.writer = self
        self.readable = Parking(node)
        self.writable = Parking(node)
        self._closed = False
        self._gone = False
        self._failure: int | None = None
        home.streams[self] = None

    # What the node calls.

    @property
    def peer_port(self) -> int:
        """Return 0: not known, because only the listening side of a simulated connection has a port."""
        return 0

    def _check(self) -> None:
        if self._closed:
            raise ConnectionAbortedError(errno.ECONNABORTED, "closed on this side")
        if self._failure is not None:
            raise failure(self._failure)

    async def handshake(self) -> None:
        await trio.lowlevel.checkpoint()

    def receive_nowait(self, buffer: memoryview) -> int | None:
        room = len(buffer)
        self._node.enter("receive", self.name, room)
        if self._closed or self._failure is not None:
            self._check()
        incoming = self.incoming
        unread = incoming.unread
        if not unread:
            return 0 if incoming.ended or not room else None
        count = min(room, len(unread))
        if count > 1 and self._internet.splits(incoming.source, self._home):
            count = self._internet.chance.randint(1, count)
        data = unread[:count]
        buffer[:count] = data
        del unread[:count]
        self._node.note("received", self.name, count, zlib.crc32(data))
        incoming.release(count)
        return count

    async def wait_readable(self, expected: int = 1) -> None:
        self._node.enter("wait_readable", self.name)
        if self._closed or self._failure is not None:
            self._check()
        if self.incoming.unread or self.incoming.ended:
            await trio.lowlevel.checkpoint()
        else:
            await self.readable.wait()
            if self._closed:
                self._check()

    async def wait_ended(self) -> None:
        self._node.enter("wait_ended", self.name)
        self._check()
        while self.incoming.unread or not self.incoming.ended:
            await self.readable.wait()
            self._check()
        await trio.lowlevel.checkpoint()

    def send_nowait(self, buffers: Sequence[Buffer]) -> int:
        return self._send(b"".join(buffers))

    def _send(self, data: bytes) -> int:
        self._node.enter("send", self.name, len(data), zlib.crc32(data))
        if self._closed or self._failure is not None:
            self._check()
        if self._internet.resets(self._home, self.outgoing.target):
            self.reset()
            self._check()
        count = min(len(data), self.outgoing.window)
        if count > 1 and self._internet.splits(self._home, self.outgoing.target):
            count = self._internet.chance.randint(1, count)
        if count:
            self.outgoing.window -= count
            self.outgoing.push(data[:count])
        self._node.note("sent", self.name, count)
        return count

    async def wait_writable(self) -> None:
        self._node.enter("wait_writable", self.name)
        self._check()
        if self.outgoing.window > 0:
            await trio.lowlevel.checkpoint()
        else:
            await self.writable.wait()
            if self._closed:
                self._check()

    async def send_all(self, buffers: Sequence[Buffer]) -> None:
        rest = b"".join(buffers)
        while rest:
            rest = rest[self._send(rest) :]
            if rest:
                await self.wait_writable()
        if self._internet.chance.random() < YIELD_RATE:
            await trio.lowlevel.checkpoint()

    async def send_file(self, file: File, offset: int, count: int, *, only_resident: bool = False) -> int:
        if only_resident and not file.resident(offset, count):
            return 0
        end = offset + count
        while offset < end:
            data = file.pread(min(end - offset, WINDOW // 4), offset)
            if not data:
                raise OSError(errno.EIO, f"{file.path} ends before byte {end}")
            await self.send_all([data])
            offset += len(data)
        return count

    def close(self) -> None:
        """Close the stream. On a dead node, whose streams are already closed, this has no effect."""
        if self._node.alive and not self._closed:
            self._node.enter("close", self.name)
            self.shut()

    # What the network and the host do.

    def arrived(self, packet: Packet) -> None:
        if packet is RST:
            self._fail(errno.ECONNRESET)
        elif self._closed or self._gone:
            if packet != FIN:
                self.outgoing.push(RST)
        elif packet == FIN:
            self.incoming.ended = True
            self.readable.wake_all()
        else:
            self.incoming.unread += packet
            self.readable.wake_all()

    def _fail(self, number: int) -> None:
        if self._failure is None and not self._closed:
            self._failure = number
            self.incoming.unread.clear()
            self._leave()

    def _leave(self) -> None:
        self._home.streams.pop(self, None)
        self.readable.wake_all()
        self.writable.wake_all()

    def shut(self) -> None:
        """Close as the kernel does. With unread data or an unfinished send the peer sees a reset, otherwise the end of
        the stream after the last byte."""
        if self._closed:
            return
        self._closed = True
        if self._failure is None:
            self.outgoing.push(RST if self.incoming.unread else FIN)
        self.incoming.unread.clear()
        self._leave()

    def reset(self) -> None:
        """Break the connection for both ends."""
        self.outgoing.drop_packets()
        self.outgoing.push(RST)
        self._fail(errno.ECONNRESET)

    def vanish(self) -> None:
        """Handle the power loss of the host: this end sends nothing, until the next life of the host resets connections
        whose packets still arrive."""
        self._gone = True
        self.outgoing.drop_packets()
        self._home.streams.pop(self, None)
