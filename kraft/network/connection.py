"""One client connection: receive, assemble, dispatch, send. One place reads, one place writes, one place closes.

Responses leave in the order of their requests. A Produce may start as soon as the Produce before it has appended,
though that is not answered yet. Every other request waits until all earlier ones are answered. A request that finishes
synchronously is answered in the connection's own task: no other task, channel or thread is involved.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable
from typing import TYPE_CHECKING

import trio

from kraft.common.errors import ProtocolError
from kraft.network.connection_protocol import RECEIVED_AT_ONCE_BYTES, FrameAssembler
from kraft.network.reply import FileRange, FirstStage, Peer, Reply, Staged, leave
from kraft.world.memory import LargeBuffer
from kraft.world.ports import Buffer, CancelScope, Stream

if TYPE_CHECKING:
    from kraft.network.socket_server import SocketServer

PIPELINE_REQUESTS_MAX = 64
SENT_AT_ONCE_BYTES = 1 << 20
REQUESTS_PER_TURN = 16
SPIN_GAP_SECONDS = 0.0002
SPIN_SECONDS = 0.0001


class Connection:
    """A client connection, owned by one task (`serve`). While responses wait, a second task (`_drain_waiting`) owns the
    sending side.

    `parked` and `sending` mean that a task waits for the peer to send or to receive. A request in progress is not idle;
    a mute (`_muted`) is. `_unserved` counts received requests that have not started.
    """

    __slots__ = (
        "_assembler",
        "_closed",
        "_drained",
        "_first_stage",
        "_gap",
        "_muted",
        "_server",
        "_stream",
        "_unserved",
        "_waiting",
        "last_active",
        "parked",
        "peer",
        "sending",
    )

    def __init__(self, server: SocketServer, stream: Stream, principal: str) -> None:
        self._server = server
        self._stream = stream
        self.peer = Peer(stream.peer, server.name, stream.local, principal)
        self.peer.proven = server.logins is None
        self.peer.read_port = lambda: stream.peer_port
        self._assembler = FrameAssembler(
            server.limits.request_bytes_max,
            server.pool.acquire,
            server.pool.release,
            server.pool.hold,
            server.pool.step,
        )
        if server.logins is not None:
            self._assembler.take_limit(server.logins.message_bytes_max, "sasl.server.max.receive.size")
        self._waiting: deque[Awaitable[Reply]] = deque()
        self._drained: trio.Event | None = None
        self._first_stage: FirstStage | None = None
        self._closed = False
        self._gap = 1.0
        self._muted: CancelScope | None = None
        self._unserved = 0
        self.parked = self.sending = False
        self.last_active = server.clock.now()

    async def serve(self) -> None:
        """Serve until the peer disconnects, breaks the protocol or is idle too long, or the server closes the
        connection. Raises nothing."""
        try:
            await self._serve()
        except Exception as problem:  # noqa: BLE001  # The boundary of a connection: whatever it was, it is over, and the node goes on.
            self._over(problem)
        finally:
            self.close()
            self._assembler.abandon()
            self._server.free_memory(self)

    def _over(self, problem: Exception) -> None:
        if isinstance(problem, ProtocolError):
            self._server.reject(self.peer, problem)
        elif not isinstance(problem, ConnectionError):  # The peer went away; clients do that all the time.
            self._server.failed(self.peer, problem)

    @property
    def open_frame(self) -> tuple[int, int] | None:
        """Bytes received of the incomplete frame, and bytes of its buffer; None if there is none."""
        return self._assembler.open_frame

    @property
    def is_idle(self) -> bool:
        return self.parked or self.sending or self._muted is not None

    def close(self) -> None:
        """Close immediately. Tasks waiting on the stream get an error. Idempotent."""
        if not self._closed:
            self._closed = True
            self._stream.close()
            if self._muted is not None:
                self._muted.cancel()

    async def _serve(self) -> None:
        stream, assembler, server = self._stream, self._assembler, self._server
        scratch, pool = server.scratch, server.pool
        handled = taken = 0
        while not self._closed:
            target = assembler.target()
            if target is not None and pool.bytes_out > server.limits.queued_request_bytes_max:
                await self._park()  # A peer that stopped is not held back by us: its frame may have to give way.
                await server.wait_for_room(self)
            count = stream.receive_nowait(scratch if target is None else target)
            if count is None:
                handled = taken = 0
                count = await self._spin() if target is None else None
                if count is None:
                    await self._park()
                    continue
            if count == 0:
                return
            if target is None:
                frames = assembler.feed(scratch[:count])
                self._unserved = len(frames)
                for frame in frames:
                    await self._handle(frame)
                    handled += 1
                if self._is_drained(count):
                    handled = taken = 0
                    await self._park()
                    continue
            else:
                target = None  # No reference to a frame's buffer outlives its use: the answer may be long in coming.
                handled += await self._handle_pooled(assembler.received(count))
            taken += count
            if handled >= REQUESTS_PER_TURN or taken >= RECEIVED_AT_ONCE_BYTES:
                handled = taken = 0
                await trio.lowlevel.checkpoint()

    def _release(self, buffer: LargeBuffer, held: int) -> None:
        """Return a frame's buffer to the pool once no request uses it."""
        pool, server = self._server.pool, self._server

        def give_back() -> None:
            pool.release(buffer, held)
            server.free_memory(self)

        if self._first_stage is None:
            give_back()
        else:
            self._first_stage.when_over(give_back)

    def _is_drained(self, count: int) -> bool:
        """Whether to wait for data without another attempt to read. True on a plain stream if the last read, of `count`
        bytes, did not fill the buffer and followed a long gap."""
        return (
            self._gap >= SPIN_GAP_SECONDS
            and count < len(self._server.scratch)
            and not self._stream.is_encrypted
            and not self._closed
        )

    async def _park(self) -> None:
        clock = self._server.clock
        start = self.last_active = clock.now()
        self.parked = True
        await self._stream.wait_readable(self._assembler.expected)
        self.parked = False
        self._gap = clock.now() - start

    async def _spin(self) -> int | None:
        """Poll the socket for a moment, if the last gap was short and no other connection does.

        It saves a single fast client a trip through the poller. Returns the bytes received, or None.
        """
        server = self._server
        if self._gap >= SPIN_GAP_SECONDS or server.spinning is not None:
            return None
        clock = server.clock
        start = clock.now()
        server.spinning = self
        try:
            while True:
                await trio.lowlevel.checkpoint()
                count = self._stream.receive_nowait(server.scratch)
                now = clock.now()
                if count is not None:
                    self._gap = now - start
                    return count
                if now - start > SPIN_SECONDS:
                    return None
        finally:
            server.spinning = None

    async def _handle(self, frame: memoryview) -> None:
        overtakes = self._server.dispatcher.may_overtake_wait(frame)
        outcome = await self._begin(frame, overtakes)
        if type(outcome) is Reply and not self._waiting:
            await self._send(outcome)
        else:
            await self._answer(outcome, overtakes)

    async def _handle_pooled(self, frame: memoryview | None) -> int:
        """Serve a whole frame in a pooled buffer, which may be reused while the response waits. Returns the number of
        requests."""
        if frame is None:
            return 0
        self._unserved = 1
        overtakes = self._server.dispatcher.may_overtake_wait(frame)
        buffer, held = frame.obj, len(frame)
        try:
            outcome = await self._begin(frame, overtakes)
        finally:
            self._release(buffer, held)  # type: ignore[arg-type]  # The view's owner is the pool's buffer.
            del frame, buffer
        await self._answer(outcome, overtakes)
        return 1

    async def _begin(self, frame: memoryview, overtakes: bool) -> Reply | Awaitable[Reply]:
        """Dispatch a request when it is its turn. Afterwards only a first stage still needs the frame."""
        if self._waiting:
            frame = await self._wait_for_turn(frame, overtakes)
        if self._closed:
            raise ConnectionAbortedError("closed on this side")
        was_proven = self.peer.proven
        self._unserved -= 1
        outcome = self._server.dispatcher.dispatch(self.peer, frame)
        if not was_proven and self.peer.proven:
            self._admitted()
        if type(outcome) is Staged:
            self._first_stage = outcome.first_stage
        return outcome

    def _admitted(self) -> None:
        """Apply the normal limits after a successful login."""
        server = self._server
        self._assembler.take_limit(server.limits.request_bytes_max, "socket.request.max.bytes")
        if server.logins is not None:
            server.logins.leave(self)

    async def _answer(self, outcome: Reply | Awaitable[Reply], overtakes: bool) -> None:
        if type(outcome) is Reply:
            if self._waiting:
                self._waiting.append(_ready(outcome))
            else:
                await self._send(outcome)
        elif type(outcome) is Staged:
            self._enqueue(outcome.answer)
        elif overtakes:
            self._enqueue(outcome)  # type: ignore[arg-type]  # A Reply is excluded above.
        else:
            await self._send(await outcome)  # type: ignore[misc]  # Likewise.

    async def _wait_for_turn(self, frame: memoryview, overtakes: bool) -> memoryview:
        """Wait until earlier requests allow this one to start. Some may overtake requests whose first stage is over.
        Returns the frame, copied if its buffer is reused."""
        stage = self._first_stage
        if not (overtakes and len(self._waiting) < PIPELINE_REQUESTS_MAX and (stage is None or stage.is_over)):
            if frame.obj is self._server.scratch.obj:
                frame = memoryview(bytes(frame))  # The scratch buffer is not ours across an await.
            if stage is not None:
                await stage.wait()
            if not (overtakes and len(self._waiting) < PIPELINE_REQUESTS_MAX):
                await self._until_drained()
        self._first_stage = None
        return frame

    def _enqueue(self, outcome: Awaitable[Reply]) -> None:
        self._waiting.append(outcome)
        if self._drained is None:
            self._drained = trio.Event()
            self._server.nursery.start_soon(self._drain_waiting)

    async def _until_drained(self) -> None:
        if self._drained is not None:
            await self._drained.wait()

    async def _drain_waiting(self) -> None:
        """Send waiting responses in order. On a broken connection the remaining requests are still awaited, but their
        responses dropped."""
        broken = False
        try:
            while self._waiting:
                try:
                    reply = await self._waiting[0]
                    if not broken:
                        await self._send(reply)
                except Exception as problem:  # noqa: BLE001  # As in `serve`: this is the connection's other task.
                    if not broken:
                        self._over(problem)
                    broken = True
                    self.close()
                finally:
                    self._waiting.popleft()
        finally:
            for left in self._waiting:
                leave(left)  # We are cancelled.
        drained, self._drained = self._drained, None
        assert drained is not None
        drained.set()

    async def _send(self, reply: Reply) -> None:
        """Send the response. While the peer does not accept it, the connection counts as idle."""
        if reply.parts:
            self.last_active = self._server.clock.now()
            self.sending = True
            stream = self._stream
            buffers: list[Buffer] = []
            for part in reply.parts:
                if type(part) is FileRange:
                    if buffers:
                        await stream.send_all(buffers)
                        buffers = []
                    await self._send_file(part)
                else:
                    buffers.append(part)  # type: ignore[arg-type]  # Only FileRange and buffers occur.
            if buffers:
                await stream.send_all(buffers)
            self.sending = False
        if reply.throttle_ms:
            await self._mute(reply.throttle_ms / 1000)
        if reply.close_after:
            self.close()

    async def _mute(self, seconds: float) -> None:
        """Read nothing for `seconds`, unless the peer disconnects. Its quota usage stays counted and applies when it
        reconnects."""
        clock = self._server.clock
        self.last_active = clock.now()
        with clock.move_on_after(seconds) as self._muted:
            await self._stream.wait_ended()
            if self._unserved:
                await clock.sleep(seconds)  # Requests that want no answer (acks=0) came before the end.
            else:
                self.close()
        self._muted = None

    async def _send_file(self, part: FileRange) -> None:
        """Send a file range in pieces. A slow disk delays only this connection."""
        server, position, end = self._server, part.position, part.position + part.size
        is_resident = True
        while position < end:
            count = min(SENT_AT_ONCE_BYTES, end - position)
            if not is_resident:
                await server.cold_reads.until_resident(part.file, position, count)
            sent = await self._stream.send_file(part.file, position, count, only_resident=is_resident)
            is_resident = sent == count
            position += sent
            self.last_active = server.clock.now()


async def _ready(reply: Reply) -> Reply:
    return reply
