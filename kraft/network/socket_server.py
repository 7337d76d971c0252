"""A listener and its connections."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from kraft.common.errors import ProtocolError
from kraft.common.ids import ANONYMOUS
from kraft.common.logging import RateLimitedLog
from kraft.network.cold_reads import ColdReads
from kraft.network.connection import Connection
from kraft.network.frame_pool import FramePool
from kraft.network.handshakes import Handshakes
from kraft.network.limits import ConnectionCounts, ConnectionLimits, ConnectionPace
from kraft.network.login_outcome import PRINCIPAL, TLS, LoginOutcome, Report, ignore
from kraft.network.logins import Logins
from kraft.network.reply import SCRATCH_BYTES, Dispatcher, Peer
from kraft.world.ports import Clock, Listener, Stream, World

if TYPE_CHECKING:
    from kraft.common.logging import Logger

BY_CERTIFICATE = "TLS"
"""The mechanism of authentication by a TLS certificate."""
ACCEPT_RETRY_SECONDS = 0.05
FRAME_PROGRESS_BYTES_MIN = 128 << 10
"""A frame that received at least this much since the last check is kept."""
STALE_LOOKS = 3
"""Maximum age, in periods, of a progress check with which the next check is compared."""
EARLY_CONNECTIONS_MAX = 1000
EARLY_SECONDS_MAX = 10.0
REFUSALS_TOLD_MAX = 10
REFUSALS_PERIOD_SECONDS = 60.0


class SocketServer:
    """Accepts on one listener; every connection is a task in `nursery`.

    All connections of the server share one scratch buffer: nothing is buffered for an idle one.
    """

    def __init__(
        self,
        world: World,
        name: str,
        limits: ConnectionLimits,
        counts: ConnectionCounts,
        dispatcher: Dispatcher,
        log: Logger,
        pace: ConnectionPace | None = None,
        identify: Callable[[Stream], str] = lambda _: ANONYMOUS,
        logins: Logins | None = None,
        report: Report = ignore,
    ) -> None:
        """`identify` returns the principal of a peer after the handshake, and raises ValueError to refuse it. `logins`
        limits connections that must log in. `report` is called for peers refused by TLS or `identify`."""
        self.name = name
        self.limits = limits
        self.dispatcher = dispatcher
        self.clock: Clock = world.clock
        self.cold_reads = ColdReads(world.threads)
        self.pool = FramePool()
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.spinning: Connection | None = None
        self.nursery: trio.Nursery
        self.connections: dict[int, Connection] = {}
        self.idle_closed = 0
        self.rejected = 0
        self._handshakes = Handshakes(world.clock)
        self._counts = counts
        counts.join(name, self.connections, lambda: self.limits)
        self._log = log
        self._pace = pace
        self._identify = identify
        self.logins = logins
        self._report = report
        self._early = 0
        self._refusals = RateLimitedLog(
            log, world.clock, events_max=REFUSALS_TOLD_MAX, period_seconds=REFUSALS_PERIOD_SECONDS
        )
        """Log for rejections that clients can cause at any rate."""
        self._next_id = 0
        self._admitted: Connection | None = None
        self._room = trio.Event()
        self._held_back: set[Connection] = set()
        self._progress: dict[int, int] = {}
        self._looked_at = -math.inf
        """The time of the last progress check, whose result is `_progress`: by connection, the bytes of its incomplete
        frame."""
        self._accepting: trio.CancelScope | None = None

    async def run(self, listener: Listener, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. Closes the listener and every connection on the way out."""
        try:
            async with trio.open_nursery() as nursery:
                self.nursery = nursery
                nursery.start_soon(self._close_idle)
                if self.logins is not None:
                    nursery.start_soon(self.logins.run)
                task_status.started()
                with trio.CancelScope() as self._accepting:
                    await self._accept(listener, nursery)
                listener.close()
                await self._until_cancelled()
        finally:
            listener.close()
            for connection in list(self.connections.values()):
                connection.close()

    def take_limits(self, limits: ConnectionLimits) -> None:
        """Replace the limits."""
        self.limits = limits
        self._counts.limits_changed()

    def stop_accepting(self) -> None:
        """Accept no new connections. Existing ones stay open."""
        if self._accepting is not None:
            self._accepting.cancel()

    async def _until_cancelled(self) -> None:
        await self.clock.sleep_until(math.inf)

    async def _accept(self, listener: Listener, nursery: trio.Nursery) -> None:
        failing = False
        while True:
            try:
                stream = await listener.accept()
            except ConnectionError:
                raise  # The listener itself was closed.
            except OSError as problem:
                if not failing:  # One line for a series: it may last as long as descriptors are short.
                    self._log.error("accept failed; retrying", listener=self.name, reason=str(problem))
                failing = True
                await self.clock.sleep(ACCEPT_RETRY_SECONDS)
                continue
            failing = False
            try:
                if self._pace is not None and (seconds := self._pace.delay(self.name, self.limits)) > 0:
                    await self.clock.sleep(seconds)
                await self._counts.until_room(self.name)
                if stream.is_encrypted:
                    await self._handshakes.until_room()
            except BaseException:  # The server stops.
                stream.close()
                raise
            refusal = self._counts.refusal(stream.peer, self.limits)
            if refusal is not None:
                self._counts.refused += 1
                self._refusals.warning("connection refused", listener=self.name, peer=stream.peer, reason=refusal)
                stream.close()
                continue
            if self._pace is not None and (seconds := self._pace.connect(stream.peer, self.name)) > 0:
                self._counts.refused += 1
                self._pace.give_back(self.name, self.limits)
                self._hold_early(stream, seconds, nursery)
                continue
            # Here and not in its task: more may be accepted before that runs.
            self._counts.opened(stream.peer, self.name)
            nursery.start_soon(self._serve, stream)

    def _hold_early(self, stream: Stream, seconds: float, nursery: trio.Nursery) -> None:
        """Close a connection over the rate limit only once the next one may connect, as Kafka does: a client closed
        immediately would reconnect immediately. Beyond a bound they are closed immediately."""
        self._refusals.warning(
            "connection refused",
            listener=self.name,
            peer=stream.peer,
            reason=f"connection_creation_rate is exceeded for {stream.peer}",
        )
        if self._early >= EARLY_CONNECTIONS_MAX:
            stream.close()
            return
        self._early += 1

        async def close_later() -> None:
            try:
                await self.clock.sleep(min(seconds, EARLY_SECONDS_MAX))
            finally:
                self._early -= 1
                stream.close()

        nursery.start_soon(close_later)

    async def _serve(self, stream: Stream) -> None:
        try:
            if stream.is_encrypted and not await self._shake_hands(stream):
                return
            try:
                principal = self._identify(stream)
            except ValueError as problem:
                self.rejected += 1
                self._report(LoginOutcome(BY_CERTIFICATE, stream.peer, failure=PRINCIPAL, reason=str(problem)))
                self._refusals.warning(
                    "connection closed: no principal", listener=self.name, peer=stream.peer, reason=str(problem)
                )
                stream.close()
                return
            connection = Connection(self, stream, principal)
            key, self._next_id = self._next_id, self._next_id + 1
            self.connections[key] = connection
            if self.logins is not None:
                self.logins.enter(connection)
            try:
                await connection.serve()
            finally:
                if self.logins is not None:
                    self.logins.leave(connection)
                del self.connections[key]
        finally:
            self._counts.closed(stream.peer, self.name)
        if connection.peer.left is not None:
            connection.peer.left()

    async def _shake_hands(self, stream: Stream) -> bool:
        """Do the handshake. Returns whether the peer may be served; closes the stream if not."""
        agreed = False
        try:
            await self._handshakes.run(stream)
            agreed = True
        except ConnectionResetError:
            pass  # Probes and port scans come and go all the time.
        except (OSError, TimeoutError) as problem:
            self.rejected += 1
            self._report(LoginOutcome(BY_CERTIFICATE, stream.peer, failure=TLS, reason=str(problem)))
            self._refusals.warning(
                "connection closed: no TLS", listener=self.name, peer=stream.peer, reason=str(problem)
            )
        finally:
            if not agreed:
                stream.close()
        return agreed

    async def _close_idle(self) -> None:
        period = max(self.limits.idle_seconds_max / 10, 0.05)
        while True:
            await self.clock.sleep(period)
            self._refusals.tell_left_out("connections refused or closed: protocol error", listener=self.name)
            oldest = self.clock.now() - self.limits.idle_seconds_max
            for connection in list(self.connections.values()):
                if connection.is_idle and connection.last_active < oldest:
                    self.idle_closed += 1
                    connection.close()

    async def wait_for_room(self, connection: Connection) -> None:
        """Delay a large frame while all frames together hold too many bytes (queued.max.request.bytes).

        One connection at a time is exempt, so incomplete frames never block each other. If there is no progress, the
        connections with the slowest incomplete frames are closed. So a peer that announces a large frame and then stops
        sending does not block others.
        """
        self._held_back.add(connection)
        try:
            while self.pool.bytes_out > self.limits.queued_request_bytes_max and self._admitted is not connection:
                if self._admitted is None:
                    self._admitted = connection
                    return
                with self.clock.move_on_after(self.limits.frame_progress_seconds) as waiting:
                    await self._room.wait()
                if waiting.cancelled_caught:
                    self._look_at_progress()
        finally:
            self._held_back.discard(connection)

    def _look_at_progress(self) -> None:
        """Close connections whose frames hardly progressed since the last check, slowest first, until there is room."""
        now, since = self.clock.now(), self._looked_at
        if now < since + self.limits.frame_progress_seconds:
            return
        before, self._progress, self._looked_at = self._progress, {}, now
        slow: list[tuple[int, int, int]] = []
        for key, connection in self.connections.items():
            if connection.open_frame is None or connection in self._held_back:
                continue
            received, size = connection.open_frame
            self._progress[key] = received
            moved = received - before.get(key, received - FRAME_PROGRESS_BYTES_MIN)
            if 0 <= moved < FRAME_PROGRESS_BYTES_MIN:
                slow.append((moved, key, size))
        if now - since > STALE_LOOKS * self.limits.frame_progress_seconds:
            return
        excess = self.pool.bytes_out - self.limits.queued_request_bytes_max
        for moved, key, size in sorted(slow):
            if excess <= 0:
                break
            excess -= size
            self._give_way(self.connections[key], moved, now - since)

    def _give_way(self, connection: Connection, moved: int, seconds: float) -> None:
        self._refusals.warning(
            "connection closed: its frame stopped and gives way to others",
            listener=self.name,
            peer=connection.peer.host,
            moved_bytes=moved,
            seconds=round(seconds, 1),
        )
        connection.close()

    def free_memory(self, connection: Connection) -> None:
        """Wake held-back connections: `connection` has no incomplete frame any more."""
        if self._admitted is connection:
            self._admitted = None
        if self._room.statistics().tasks_waiting:
            self._room.set()
            self._room = trio.Event()

    def failed(self, peer: Peer, problem: Exception) -> None:
        """Log that a response failed because of a server error, and close the connection, so that the client does not
        wait."""
        fields = {} if isinstance(problem, OSError) else {"traceback": "".join(traceback.format_exception(problem))}
        self._log.error(
            "connection closed: answer failed", listener=self.name, peer=peer.host, reason=str(problem), **fields
        )

    def reject(self, peer: Peer, problem: ProtocolError) -> None:
        """Log a connection that broke the protocol, unless there are too many."""
        self.rejected += 1
        self._refusals.warning(
            "connection closed: protocol error", listener=self.name, peer=peer.host, reason=str(problem)
        )
