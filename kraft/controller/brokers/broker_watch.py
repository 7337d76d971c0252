"""Detects dead brokers: by silence, as Kafka does, and immediately if the death is proven.

A killed process closes its sockets, and its ports refuse connections. So a broker is dead if its heartbeat connection
has ended and every endpoint refuses a connection. If an endpoint accepts or hangs, nothing is proven, and the broker's
session decides.

A broker fenced by proof is held until its session would have ended. Clean elections take place immediately, but no
replica that may lack its records is elected.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from kraft.common.errors import ApiError
from kraft.controller.brokers.heartbeat_manager import BrokerHeartbeatManager, BrokerIdAndEpoch
from kraft.controller.controller_result import ControllerResult, Decision
from kraft.controller.controller_view import ControllerSettings, ControllerView
from kraft.controller.replication_control.leader_and_isr import broker_fenced, leaderless_after_hold
from kraft.metadata.image.cluster_image import BrokerRegistration
from kraft.protocol.error_codes import ErrorCode
from kraft.world.ports import Clock, Network
from kraft.world.steps import Steps

if TYPE_CHECKING:
    from kraft.common.logging import Logger

PROBE_PAUSES_SECONDS: Final = (0.0, 0.02, 0.1, 0.5, 1.0)
"""Pause before each probe of a broker. Heartbeats arrive every two seconds."""

Probe = Callable[[str, int], Awaitable[bool]]
"""Returns whether a connection to host and port is refused. May hang: it is then cancelled after a timeout, and proves
nothing."""


class Write(Protocol):
    """Let the controller decide, append, call `appended` with the response and the last offset, and wait for the
    commit."""

    def __call__(
        self,
        operation: Callable[[ControllerView], Decision[Any]],
        appended: Callable[[Any, int], None] | None = None,
    ) -> Awaitable[Any]: ...


def connect_probe(network: Network) -> Probe:
    """Return a probe that opens a connection. It returns whether the connection was refused."""

    async def probe(host: str, port: int) -> bool:
        try:
            stream = await network.connect(host, port)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
        stream.close()
        return False

    return probe


class BrokerWatch:
    """Decides which brokers are dead and fences them. `QuorumController` runs it while it is active."""

    def __init__(
        self,
        settings: ControllerSettings,
        heartbeats: BrokerHeartbeatManager,
        clock: Clock,
        probe: Probe,
        write: Write,
        log: Logger | None,
    ) -> None:
        self._settings = settings
        self._heartbeats = heartbeats
        self._clock = clock
        self._probe = probe
        self._write = write
        self._log = log

    async def is_proven_dead(self, broker: BrokerRegistration) -> bool:
        """Whether every endpoint of the broker refuses a connection."""
        if not broker.endpoints:
            return False
        for endpoint in broker.endpoints:
            refused = False
            with self._clock.move_on_after(self._settings.probe_timeout_ms / 1000):
                refused = await self._probe(endpoint.host, endpoint.port)
            if not refused:
                return False
        return True

    async def fence_if_dead(self, broker: BrokerRegistration) -> bool:
        """Probe an unfenced broker and fence it if it is dead. Returns whether it was fenced.

        It probes several times. When a process is killed, the kernel closes its connections before its listeners, so
        the first probe may be too early.
        """
        contact = self._heartbeats.last_contact(broker.id, broker.epoch)
        for pause in PROBE_PAUSES_SECONDS:
            await self._clock.sleep(pause)
            dead = await self.is_proven_dead(broker)
            if self._heartbeats.last_contact(broker.id, broker.epoch) != contact:
                return False  # It sent a heartbeat during the probe.
            if dead:
                return await self._fence(broker.id, broker.epoch, early=True)
        return False

    async def fence_silent_brokers(self) -> None:
        """Fence brokers whose sessions have ended, one after another, so that each decision sees the previous one. A
        fence that cannot be written is retried in the next period.

        Raises ApiError: NOT_CONTROLLER, or KAFKA_STORAGE_ERROR while the metadata disk is full.
        """
        while (expired := self._heartbeats.expired()) is not None:
            await self._fence(expired.id, expired.epoch, early=False)
        over = self._heartbeats.holds_over()
        if over:

            def release(view: ControllerView) -> Steps[ControllerResult[None]]:
                changes = yield from leaderless_after_hold(view.holding(self._heartbeats.held - over))
                return ControllerResult([*changes], None)

            await self._write(release, lambda answer, offset: self._heartbeats.release_holds(over))

    async def _fence(self, broker_id: int, broker_epoch: int, *, early: bool) -> bool:
        def fence(view: ControllerView) -> Steps[ControllerResult[bool]]:
            broker = view.broker(broker_id)
            if broker is None or broker.epoch != broker_epoch or broker.fenced:
                return ControllerResult([], False)
            if early:
                self._heartbeats.hold(broker_id, broker_epoch)
                view = view.holding(self._heartbeats.held)
            return ControllerResult((yield from broker_fenced(view, broker_id)), True)

        def appended(answer: bool, offset: int) -> None:
            self._heartbeats.fenced(BrokerIdAndEpoch(broker_id, broker_epoch))

        try:
            fenced = bool(await self._write(fence, appended))
        except ApiError as error:
            if early and error.code in (ErrorCode.NOT_CONTROLLER, ErrorCode.KAFKA_STORAGE_ERROR):
                return False  # Another controller took over, or the disk is full: its session's end fences the broker.
            raise
        if fenced and self._log is not None:
            self._log.info(
                "broker fenced",
                broker=broker_id,
                epoch=broker_epoch,
                reason="its process is gone" if early else "its session timed out",
            )
        return fenced
