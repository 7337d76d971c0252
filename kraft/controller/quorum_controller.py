"""The role of active controller: claim, activation, loss.

A node becomes the active controller when its whole log, up to its own LEADER_CHANGE, is replayed and committed. It
first writes the activation records. Then it starts new heartbeat sessions (`ControllerTerm`) and probes every unfenced
broker. Its writes go through `ControllerWrites`. Its scheduled work is `PeriodicWork`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import trio

from kraft.common.errors import ApiError
from kraft.common.quarantine import Quarantine
from kraft.controller.brokers.broker_watch import Probe, connect_probe
from kraft.controller.controller_requests import ControllerRequests
from kraft.controller.controller_view import ControllerSettings, ControllerView
from kraft.controller.controls.config_schema import ConfigSchema
from kraft.controller.controls.feature_control import Quorum
from kraft.controller.replication_control.replica_placer import ReplicaPlacer, StripedReplicaPlacer
from kraft.controller.unclean.election_facts import Recovered, Waiting, fields_of, waiting_fields
from kraft.controller.unclean.leaderless_since import LeaderlessSince
from kraft.controller.unclean.reports import NoRecoveryListener, RecoveryListener
from kraft.controller.writes.activation import activation_records
from kraft.controller.writes.controller_term import ControllerTerm
from kraft.controller.writes.controller_writes import ControllerWrites
from kraft.controller.writes.pending_log import MetadataLog, PendingLog
from kraft.controller.writes.periodic_work import PeriodicWork
from kraft.metadata.image.cluster_image import BrokerRegistration
from kraft.metadata.image.metadata_changes import MetadataChanges
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.image.topics_image import TopicIdPartition
from kraft.metadata.loader import MetadataLoader
from kraft.metadata.publisher import MetadataUpdate
from kraft.protocol.error_codes import ErrorCode
from kraft.raft.core.election_state import NO_LEADER
from kraft.raft.ports import LeaderAndEpoch
from kraft.world.ports import World
from kraft.world.turns import in_turns

if TYPE_CHECKING:
    from kraft.common.logging import Logger

FULL_DISK_RETRY_SECONDS: Final = 0.2


class QuorumController:
    """The controller of one node with the controller role. Start `run` in the node's nursery; the loader calls the
    other methods.

    `requests` handles the requests that only the active controller handles.
    """

    def __init__(
        self,
        settings: ControllerSettings,
        schema: ConfigSchema,
        log: MetadataLog,
        loader: MetadataLoader,
        quorum: Quorum,
        world: World,
        *,
        bootstrap: Sequence[Any],
        probe: Probe | None = None,
        placer: ReplicaPlacer | None = None,
        listener: RecoveryListener | None = None,
        logger: Logger | None = None,
    ) -> None:
        """`bootstrap` are the records that a cluster's first controller writes. `probe` returns whether an endpoint
        refuses connections. `listener` is notified of recoveries."""
        self._settings = settings
        self._loader = loader
        self._world = world
        self._bootstrap = bootstrap
        self._probe = probe or connect_probe(world.network)
        self._logger = logger
        self._listener = listener or NoRecoveryListener()
        self.open_times = LeaderlessSince(lambda image: ControllerView(image, settings, schema), world.clock)
        self._pending = PendingLog(log)
        self._writes = ControllerWrites(settings, schema, self._pending, lambda: self._term, world.clock, logger)
        self._term = self._new_term()
        self.set_aside = Quarantine(world.clock, world.log_sink)
        self._work = PeriodicWork(
            settings, self._writes, lambda: self.is_active, lambda: self._term, world.clock, self.set_aside
        )
        self.requests = ControllerRequests(
            settings,
            self._pending,
            self._writes,
            lambda: self._term,
            loader,
            quorum,
            placer or StripedReplicaPlacer(world.random.stream("replica placer")),
            world,
        )
        self._claimed = trio.Event()
        self._probes: trio.Nursery | None = None
        loader.controller = self
        loader.add_publisher(self.open_times)

    # Called by the loader.

    def prepared(
        self, base: MetadataImage, last_offset: int, epoch: int
    ) -> tuple[MetadataImage, MetadataChanges] | None:
        return self._pending.prepared(base, last_offset, epoch)

    def handle_committed(self, update: MetadataUpdate, transaction_is_open: bool) -> None:
        """Handle committed records. Called before `handle_leader_change`.

        A commit of a later epoch shows that this node's epoch has ended, and that its own records at these offsets may
        be lost.
        """
        if self._pending.epoch is not None and update.epoch > self._pending.epoch:
            self._pending.leader_id = NO_LEADER
            self._renounce(LeaderAndEpoch(NO_LEADER, update.epoch))
        self._writes.registrations.committed(update.changes, update.image, update.offset)
        self._pending.handle_committed(update.offset, update.image, transaction_is_open)

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Claim the epoch if this node leads: everything up to its LEADER_CHANGE is replayed. Renounce it if another
        node leads."""
        self._pending.leader_id = leader.leader_id
        we_lead = leader.is_leader(self._settings.node_id)
        if self._pending.epoch is not None and not (we_lead and self._pending.epoch == leader.epoch):
            self._renounce(leader)
        if we_lead and self._pending.epoch is None:
            self._claim(leader.epoch)

    # The role of active controller.

    @property
    def is_active(self) -> bool:
        return self._pending.epoch is not None

    @property
    def epoch(self) -> int:
        """The epoch in which this node is the active controller; -1 if it is not active."""
        return -1 if self._pending.epoch is None else self._pending.epoch

    @property
    def image(self) -> MetadataImage:
        """The newest image: the pending one while active, else the committed one."""
        return self._pending.image if self.is_active else self._loader.image

    def session_is_valid(self, broker_id: int) -> bool:
        """Whether the registered incarnation of the broker has a live session with this controller."""
        broker = self.image.cluster.brokers.get(broker_id)
        return broker is not None and self._term.heartbeats.session_is_valid(broker_id, broker.epoch)

    def refused_brokers(self) -> list[int]:
        """See `BrokerHeartbeatManager`. Raises ApiError(NOT_CONTROLLER)."""
        self._pending.require_active()
        return self._term.heartbeats.refused_brokers()

    def waiting_elections(self, keys: Sequence[TopicIdPartition]) -> list[dict[str, Any]]:
        """Return the wait of each leaderless partition among `keys`, in the fields of `waiting_fields`. Raises
        ApiError(NOT_CONTROLLER)."""
        self._pending.require_active()
        return [self._fields_of(waiting) for waiting in self._term.leaderless.waiting(keys)]

    async def run(self) -> None:
        """Run the active controller's scheduled work whenever this node is active. Never returns. Raises if a record
        cannot be replayed."""
        async with trio.open_nursery() as controller_nursery:
            self._probes = controller_nursery
            self._work.start(controller_nursery)
            try:
                await self._activate_when_claimed()
            finally:
                # Connections may end after this. The nursery is closed before the tasks that wait in it resume.
                self._probes = None

    def broker_connection_lost(self, broker_id: int) -> None:
        """Handle the end of a broker's heartbeat connection. If the broker is proven dead, it is fenced without waiting
        for its session."""
        self._term.heartbeats.connection_ended(broker_id)
        broker = self.image.cluster.brokers.get(broker_id)
        if self.is_active and self._probes is not None and broker is not None and not broker.fenced:
            self._probes.start_soon(self._probe_guarded, broker)

    async def _probe_guarded(self, broker: BrokerRegistration) -> None:
        with self.set_aside.guard("probe of a broker", f"broker {broker.id}"):
            await self._term.watch.fence_if_dead(broker)

    def _new_term(self) -> ControllerTerm:
        return ControllerTerm(
            self._settings,
            self._world,
            self._writes.write,
            self._writes.view,
            probe=self._probe,
            times=self.open_times,
            tell=self._recovered,
            tell_waiting=self._waits,
            logger=self._logger,
        )

    def _claim(self, epoch: int) -> None:
        image = self._loader.image
        self._pending.claim(epoch, image)
        self._writes.registrations.claimed()
        self._term = self._new_term()
        self._term.begin_with(image.cluster.brokers.values())
        self._claimed.set()

    def _renounce(self, leader: LeaderAndEpoch) -> None:
        self._pending.renounce()
        self._term.activated.set()  # Waiting writes then find that this node is not active.
        if self._logger is not None:
            self._logger.info("controller renounced", leader=leader.leader_id, epoch=leader.epoch)

    async def _activate_when_claimed(self) -> None:
        while True:
            await self._claimed.wait()
            self._claimed = trio.Event()
            epoch, term = self._pending.epoch, self._term
            if epoch is None:
                continue
            try:
                await self._activate(epoch)
            except ApiError as error:
                if error.code != ErrorCode.NOT_CONTROLLER:
                    raise
                continue  # Leadership was lost meanwhile.
            finally:
                term.activated.set()
            if self._logger is not None:
                self._logger.info("controller active", epoch=epoch, offset=self._loader.offset)

    async def _activate(self, epoch: int) -> None:
        """Write the activation records, then probe the brokers that should be alive.
        Raises ApiError(NOT_CONTROLLER)."""
        while not self._pending.image.topics.has_brokers_indexed:  # A newer image may replace it meanwhile.
            await in_turns(self._pending.image.topics.index_brokers())
        while not await self._writes.write_first(epoch, self._activation_records):
            await self._world.clock.sleep(FULL_DISK_RETRY_SECONDS)
        assert self._probes is not None
        for broker in self._pending.image.cluster.brokers.values():
            if not broker.fenced and broker.id != self._settings.node_id:
                self._probes.start_soon(self._probe_guarded, broker)

    def _activation_records(self, view: ControllerView) -> list[Any]:
        return activation_records(view, transaction_is_open=self._loader.transaction_is_open, bootstrap=self._bootstrap)

    def _recovered(self, recovered: Recovered) -> None:
        fields = fields_of(recovered)
        if self._logger is not None:
            tell = self._logger.info if recovered.is_clean else self._logger.warning
            tell("leader recovered", **fields)
        self._listener.handle_recovered(fields)

    def _waits(self, waiting: Waiting) -> None:
        fields = self._fields_of(waiting)
        if self._logger is not None:
            self._logger.warning("election waits for replicas", **fields)
        self._listener.handle_waiting(fields)

    def _fields_of(self, waiting: Waiting) -> dict[str, Any]:
        clock = self._world.clock
        return waiting_fields(waiting, clock.wall_ms() - int(1000 * clock.now()))
