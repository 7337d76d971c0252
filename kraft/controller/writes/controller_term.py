"""The soft state of one epoch in which this controller is active: broker sessions, probes of brokers, recoveries.

It is not in the log. A new active controller starts with none of it. Sessions restart, since a broker's silence towards
the previous controller proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import trio

from kraft.controller.brokers.broker_watch import BrokerWatch, Probe, Write
from kraft.controller.brokers.heartbeat_manager import BrokerHeartbeatManager
from kraft.controller.controller_view import ControllerSettings, ControllerView
from kraft.controller.unclean.leaderless_since import LeaderlessSince
from kraft.controller.unclean.leaderless_watch import LeaderlessWatch, Tell, TellWaiting
from kraft.controller.unclean.recovery import UncleanRecoveries
from kraft.controller.unclean.replica_questions import ReplicaQuestions
from kraft.metadata.image.cluster_image import BrokerRegistration
from kraft.world.ports import World

if TYPE_CHECKING:
    from kraft.common.logging import Logger


class ControllerTerm:
    """The soft state of one claimed epoch. The term before the first claim is empty."""

    __slots__ = ("_clock", "_session_seconds", "activated", "heartbeats", "leaderless", "watch")

    def __init__(
        self,
        settings: ControllerSettings,
        world: World,
        write: Write,
        view: Callable[[], ControllerView],
        *,
        probe: Probe,
        times: LeaderlessSince,
        tell: Tell,
        tell_waiting: TellWaiting,
        logger: Logger | None,
    ) -> None:
        """`write` and `view` are those of `ControllerWrites`. `tell` is called for every leader that a recovery chose.
        `tell_waiting` is called for partitions that wait for replicas."""
        self._clock = world.clock
        self._session_seconds = settings.broker_session_timeout_ms / 1000
        self.activated = trio.Event()
        """Set when the activation records are written, and when the epoch is lost. Waiting tasks must check which."""
        self.heartbeats = BrokerHeartbeatManager(world.clock.now, settings.broker_session_timeout_ms)
        self.watch = BrokerWatch(settings, self.heartbeats, world.clock, probe, write, logger)
        questions = ReplicaQuestions(world, settings.inter_broker_listener_name, logger)
        recoveries = UncleanRecoveries(settings.unclean_recovery_timeout_ms / 1000, times.since)
        self.leaderless = LeaderlessWatch(
            write, view, world.clock, questions, self.watch, tell, tell_waiting, recoveries
        )

    def begin_with(self, brokers: Iterable[BrokerRegistration]) -> None:
        """Start a session timeout for each broker. An unfenced broker must send a heartbeat within that time. A fenced
        broker is held for that time: meanwhile no replica that may lack its records is elected."""
        for broker in brokers:
            if broker.fenced:  # It is unknown when it was fenced, and why: perhaps a moment ago, by proof.
                self.heartbeats.hold_until(broker.id, self._clock.now() + self._session_seconds)
            else:
                self.heartbeats.presume(broker.id, broker.epoch)
