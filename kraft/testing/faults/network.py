"""A node's sockets behind a switchboard.

Each node holds back its input: bytes sent to it over a cut stay in the kernel until the cut is healed. So the sender
sees what it would see of a real cut: its bytes are accepted until the buffers are full, and nothing comes back. Once
the network is whole, the bytes arrive in order. Clients cannot hold back their input, so the node holds back what it
would send to them. The kernel accepts a client that connects over a cut, and the client gets no response; it notices
when the node behind the cut ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from kraft.testing.faults.switchboard import CLIENTS, Party, Switchboard
from kraft.world.ports import Buffer, File, Tls
from kraft.world.real.network import RealListener, RealNetwork, RealStream

FILE_PIECE_BYTES = 64 * 1024
"""Bytes sent between two checks for a fault."""


class FaultyStream:
    """Implements `kraft.world.ports.Stream` for a connection between the node `ours` and another node or a client."""

    __slots__ = ("_board", "_is_closed", "_is_due", "_ours", "_peer_port", "_stream", "_theirs")

    def __init__(self, stream: RealStream, board: Switchboard, ours: int, theirs: Party | None = None) -> None:
        """`theirs` is the party to which `ours` has connected. None: the connection was accepted, and its origin is not
        known yet."""
        self._stream = stream
        self._board = board
        self._ours = ours
        self._peer_port = stream.peer_port
        self._theirs = CLIENTS if theirs is None else theirs
        self._is_closed = False
        self._is_due = False  # Whether what the kernel holds has waited for the delay.

    @property
    def is_encrypted(self) -> bool:
        return self._stream.is_encrypted

    @property
    def peer_certificate(self) -> bytes | None:
        return self._stream.peer_certificate

    @property
    def peer(self) -> str:
        return self._stream.peer

    @property
    def peer_port(self) -> int:
        return self._peer_port

    @property
    def local(self) -> tuple[str, int]:
        return self._stream.local

    async def handshake(self) -> None:
        await self._board.until(self._may_receive)
        await self._stream.handshake()

    def receive_nowait(self, buffer: memoryview) -> int | None:
        if not self._board.is_calm and not self._is_closed and self._is_held_back():
            return None
        received = self._stream.receive_nowait(buffer)
        if received is None:
            self._is_due = False
        return received

    async def wait_readable(self, expected: int = 1) -> None:
        while True:
            await self._board.until(self._may_receive)
            await self._stream.wait_readable(expected)
            if delay := self._board.delay_of(self._ours):
                await trio.sleep(delay)
                self._is_due = True
            if self._may_receive():
                return

    async def wait_ended(self) -> None:
        while True:
            await self._board.until(self._may_receive)
            await self._stream.wait_ended()
            if self._may_receive():
                return

    def send_nowait(self, buffers: Sequence[Buffer]) -> int:
        if not self._board.is_calm and not self._is_closed and not self._may_send():
            return 0
        try:
            return self._stream.send_nowait(buffers)
        except ConnectionError:
            if self._is_closed or not self._is_apart():
                raise
            return sum(map(len, buffers))  # A peer behind a cut does not learn that the other side has gone.

    async def wait_writable(self) -> None:
        await self._board.until(self._may_send)
        await self._stream.wait_writable()

    async def send_all(self, buffers: Sequence[Buffer]) -> None:
        await self._board.until(self._may_send)
        try:
            await self._stream.send_all(buffers)
        except ConnectionError:
            if self._is_closed or not self._is_apart():
                raise

    async def send_file(self, file: File, offset: int, count: int, *, only_resident: bool = False) -> int:
        start, end = offset, offset + count
        while offset < end:
            await self._board.until(self._may_send)
            piece = min(FILE_PIECE_BYTES, end - offset)
            sent = await self._stream.send_file(file, offset, piece, only_resident=only_resident)
            offset += sent
            if sent < piece:
                break
        return offset - start

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._stream.close()
            self._board.tell()  # Wakes the tasks that wait at a cut.

    def _peer_party(self) -> Party:
        """The party at the other end. A node that connects registers its port after it was accepted, and before it
        sends."""
        if self._theirs == CLIENTS:
            self._theirs = self._board.party_at(self._peer_port)
        return self._theirs

    def _may_receive(self) -> bool:
        return self._is_closed or not (
            self._board.is_paused(self._ours) or self._board.is_cut(self._peer_party(), self._ours)
        )

    def _is_held_back(self) -> bool:
        return not self._may_receive() or (self._board.is_slow(self._ours) and not self._is_due)

    def _may_send(self) -> bool:
        """Whether the node may send now. Bytes to another node may always be sent: that node holds them back."""
        theirs = self._peer_party()
        return self._is_closed or not (
            self._board.is_paused(self._ours) or (theirs == CLIENTS and self._board.is_cut(self._ours, theirs))
        )

    def _is_apart(self) -> bool:
        theirs = self._peer_party()
        return self._board.is_cut(self._ours, theirs) or self._board.is_cut(theirs, self._ours)


class ConnectedStream(FaultyStream):
    """A connection that `ours` has opened. While it lasts, its local port is registered as the node's."""

    __slots__ = ()

    def __init__(self, stream: RealStream, board: Switchboard, ours: int, theirs: Party) -> None:
        super().__init__(stream, board, ours, theirs)
        board.node_by_port[stream.local[1]] = ours

    def close(self) -> None:
        if not self._is_closed:
            self._board.node_by_port.pop(self.local[1], None)
        super().close()


class FaultyListener:
    """Implements `kraft.world.ports.Listener`. A paused node accepts nothing; the kernel does, up to its backlog."""

    __slots__ = ("_board", "_listener", "_node", "host", "port")

    def __init__(self, listener: RealListener, board: Switchboard, node: int) -> None:
        self._listener = listener
        self._board = board
        self._node = node
        self.host, self.port = listener.host, listener.port
        board.node_by_port[self.port] = node

    async def accept(self) -> FaultyStream:
        stream = FaultyStream(await self._listener.accept(), self._board, self._node)
        try:
            await self._board.until_runs(self._node)
        except BaseException:
            stream.close()
            raise
        return stream

    def take_tls(self, tls: Tls) -> None:
        self._listener.take_tls(tls)

    def close(self) -> None:
        self._listener.close()


class FaultyNetwork:
    """Implements `kraft.world.ports.Network` for one node."""

    __slots__ = ("_board", "_network", "_node")

    def __init__(self, board: Switchboard, node: int) -> None:
        self._network = RealNetwork()
        self._board = board
        self._node = node

    async def listen(self, host: str, port: int, backlog: int = 50, tls: Tls | None = None) -> FaultyListener:
        return FaultyListener(await self._network.listen(host, port, backlog, tls), self._board, self._node)

    async def connect(self, host: str, port: int, tls: Tls | None = None) -> ConnectedStream:
        """Open a connection. Over a cut, in either direction, this waits until the cut is healed."""
        theirs = self._board.party_at(port)
        await self._board.until(lambda: self._may_connect(theirs))
        return ConnectedStream(await self._network.connect(host, port, tls), self._board, self._node, theirs)

    def _may_connect(self, theirs: Party) -> bool:
        board, ours = self._board, self._node
        return not (board.is_paused(ours) or board.is_cut(ours, theirs) or board.is_cut(theirs, ours))
