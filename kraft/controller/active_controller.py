"""Being the active controller: claiming and losing the role, serialised writes, and what an active controller does unasked.

One task runs at a time, and decisions are serialised by one lock, so every decision sees all earlier ones, committed or not. An answer that wrote nothing still
waits for what was written before it: it may rest on it. A node becomes the active controller when its whole log, up to its own LEADER_CHANGE, is replayed and
committed; it then writes the activation records before anything else, starts all heartbeat sessions afresh, and asks after every unfenced broker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import trio

from kraft.common.errors import ApiError
from kraft.controller.activation import activation_records
from kraft.controller.broker_watch import BrokerWatch, Probe, connect_probe
from kraft.controller.config_schema import ConfigSchema
from kraft.controller.controller_result import ControllerResult
from kraft.controller.controller_view import ControllerSettings, ControllerView
from kraft.controller.feature_control import Quorum
from kraft.controller.heartbeat_manager import BrokerHeartbeatManager
from kraft.controller.leaderless_watch import LOOK_SECONDS, LeaderlessWatch
from kraft.controller.loss_records import with_reports
from kraft.controller.open_times import OpenTimes
from kraft.controller.pending_log import MetadataLog, PendingLog
from kraft.controller.replica_placer import ReplicaPlacer, StripedReplicaPlacer
from kraft.controller.replica_questions import ReplicaQuestions
from kraft.controller.replication_control import broker_duties, elect_leaders
from kraft.controller.unclean_recovery import Recovered, fields_of
from kraft.controller.unclean_reports import RecoveryListener, log_unclean_elections
from kraft.metadata.image.metadata_changes import MetadataChanges
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.loader import MetadataLoader
from kraft.metadata.publisher import MetadataUpdate
from kraft.metadata.records.no_op_record import NoOpRecord
from kraft.protocol.error_codes import ErrorCode
from kraft.raft.ports import LeaderAndEpoch
from kraft.world.ports import World

if TYPE_CHECKING:
    from kraft.common.logging import Logger

T = TypeVar("T")
Operation = Callable[[ControllerView], ControllerResult[T]]

SESSION_CHECKS_PER_TIMEOUT: Final = 8
FULL_DISK_RETRY_SECONDS: Final = 0.2
PASSING: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.KAFKA_STORAGE_ERROR)
"""What a periodic task may meet: another node is the active controller, or the metadata disk is full. It looks again in its next period."""


class ActiveController:
    """The role. `QuorumController` adds the requests."""

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
        logger: Logger | None = None,
    ) -> None:
        """`bootstrap` are the records that the first controller of a cluster writes; `probe` tells whether an endpoint refuses connections."""
        self._settings, self._schema = settings, schema
        self._loader, self._quorum = loader, quorum
        self._world, self._bootstrap = world, bootstrap
        self._placer = placer or StripedReplicaPlacer(world.random.stream("replica placer"))
        self._logger = logger
        self.on_recovery: RecoveryListener = lambda fields: None
        """Hears of each leader that an unclean recovery chose."""
        self.open_times = OpenTimes(lambda image: ControllerView(image, settings, schema), world.clock)
        self._pending = PendingLog(log)
        self._heartbeats = BrokerHeartbeatManager(world.clock.now, settings.broker_session_timeout_ms)
        self._probe = probe or connect_probe(world.network)
        self._watch = self._new_watch()
        self._leaderless: LeaderlessWatch | None = None
        self._registration_offsets: dict[int, int] = {}
        self._duties = broker_duties.BrokerDuties()
        self._write_lock = trio.Lock()
        self._claimed, self._activated = trio.Event(), trio.Event()
        self._last_write = world.clock.now()
        self._probes: trio.Nursery | None = None
        loader.controller = self
        loader.add_publisher(self.open_times)

    # The loader's hooks.

    def prepared(self, base: MetadataImage, last_offset: int, epoch: int) -> tuple[MetadataImage, MetadataChanges] | None:
        return self._pending.prepared(base, last_offset, epoch)

    def handle_committed(self, update: MetadataUpdate, transaction_is_open: bool) -> None:
        if update.is_snapshot or self._pending.epoch is None:
            self._note_registrations(update.changes, update.image, update.offset)
        self._pending.handle_committed(update.offset, update.image, transaction_is_open)

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        """We lead: everything up to our LEADER_CHANGE is replayed, claim the epoch. Somebody else leads: renounce ours."""
        self._pending.leader_id = leader.leader_id
        we_lead = leader.is_leader(self._settings.node_id)
        if self._pending.epoch is not None and not (we_lead and self._pending.epoch == leader.epoch):
            self._renounce(leader)
        if we_lead and self._pending.epoch is None:
            self._claim(leader.epoch)

    # Being the active controller.

    @property
    def is_active(self) -> bool:
        return self._pending.epoch is not None

    @property
    def epoch(self) -> int:
        """The epoch in which this node is the active controller; -1 when it is not."""
        return -1 if self._pending.epoch is None else self._pending.epoch

    @property
    def image(self) -> MetadataImage:
        """The newest image: pending while active, else committed."""
        return self._pending.image if self.is_active else self._loader.image

    def session_is_valid(self, broker_id: int) -> bool:
        """Whether the broker's incarnation spoke to us within its session."""
        broker = self.image.cluster.brokers.get(broker_id)
        return broker is not None and self._heartbeats.session_is_valid(broker_id, broker.epoch)

    async def run(self) -> None:
        """Do what an active controller does besides answering, whenever this node is it. Never ends; raises when a record cannot be replayed."""
        async with trio.open_nursery() as controller_nursery:
            self._probes = controller_nursery
            controller_nursery.start_soon(self._activate_when_claimed)
            settings, balance, unclean = self._settings, elect_leaders.balance_leaders, elect_leaders.elect_unclean_leaders
            controller_nursery.start_soon(self._periodically, settings.broker_session_timeout_ms / 1000 / SESSION_CHECKS_PER_TIMEOUT, self._check_sessions)
            controller_nursery.start_soon(self._periodically, settings.metadata_max_idle_interval_ms / 1000, self._write_no_op)
            controller_nursery.start_soon(self._periodically, settings.leader_imbalance_check_interval_ms / 1000, self._pass_until_done, balance)
            controller_nursery.start_soon(self._periodically, broker_duties.STEP_SECONDS, self._take_out_of_duty)
            controller_nursery.start_soon(self._periodically, LOOK_SECONDS, self._look_after_leaderless)
            controller_nursery.start_soon(self._periodically, settings.unclean_leader_election_interval_ms / 1000, self._pass_until_done, unclean)

    def broker_connection_lost(self, broker_id: int) -> None:
        """A broker's heartbeat connection ended. If its process proves to be gone, it is fenced without waiting for its session."""
        self._heartbeats.connection_ended(broker_id)
        broker = self.image.cluster.brokers.get(broker_id)
        if self.is_active and self._probes is not None and broker is not None and not broker.fenced:
            self._probes.start_soon(self._watch.fence_if_dead, broker)

    def _new_watch(self) -> BrokerWatch:
        return BrokerWatch(self._settings, self._heartbeats, self._world.clock, self._probe, self._write, self._logger)

    def _claim(self, epoch: int) -> None:
        image = self._loader.image
        clock, session_ms = self._world.clock, self._settings.broker_session_timeout_ms
        self._pending.claim(epoch, image)
        self._heartbeats = BrokerHeartbeatManager(clock.now, session_ms)
        self._watch = self._new_watch()
        questions = ReplicaQuestions(self._world, self._settings.inter_broker_listener_name, self._logger)
        self._leaderless = LeaderlessWatch(self._write, self._view, clock, questions, self._watch, self._recovered, self.open_times)
        for broker in image.cluster.brokers.values():
            if broker.fenced:  # By whom and when is not known: perhaps a moment ago, by proof.
                self._heartbeats.hold_until(broker.id, clock.now() + session_ms / 1000)
            else:
                self._heartbeats.presume(broker.id, broker.epoch)
        self._activated = trio.Event()
        self._claimed.set()

    def _renounce(self, leader: LeaderAndEpoch) -> None:
        self._pending.renounce()
        self._activated.set()  # Whoever waits for it finds out that we are not active.
        if self._logger is not None:
            self._logger.info("controller renounced", leader=leader.leader_id, epoch=leader.epoch)

    async def _activate_when_claimed(self) -> None:
        while True:
            await self._claimed.wait()
            self._claimed = trio.Event()
            epoch, activated = self._pending.epoch, self._activated
            if epoch is None:
                continue
            try:
                await self._activate(epoch)
            except ApiError as error:
                if error.code != ErrorCode.NOT_CONTROLLER:
                    raise
                continue  # The leadership was lost meanwhile.
            finally:
                activated.set()
            if self._logger is not None:
                self._logger.info("controller active", epoch=epoch, offset=self._loader.offset)

    async def _activate(self, epoch: int) -> None:
        """Write the activation records, then ask after the brokers that should be there. Raises ApiError(NOT_CONTROLLER)."""
        while not await self._write_activation_records(epoch):
            await self._world.clock.sleep(FULL_DISK_RETRY_SECONDS)
        assert self._probes is not None
        for broker in self._pending.image.cluster.brokers.values():
            if not broker.fenced and broker.id != self._settings.node_id:
                self._probes.start_soon(self._watch.fence_if_dead, broker)

    async def _write_activation_records(self, epoch: int) -> bool:
        """False while the disk is too full. Raises ApiError(NOT_CONTROLLER)."""
        async with self._write_lock:
            self._require_epoch(epoch)
            is_open = self._loader.transaction_is_open
            records = activation_records(self._view(), transaction_is_open=is_open, bootstrap=self._bootstrap)
            try:
                await self._append(ControllerResult(records, None))
            except ApiError as error:
                if error.code != ErrorCode.KAFKA_STORAGE_ERROR:
                    raise
                return False
        return True

    async def _periodically(self, interval: float, task: Callable[..., Any], *arguments: Any) -> None:
        if interval <= 0:
            return
        while True:
            await self._world.clock.sleep(interval)
            if not self.is_active:
                continue
            try:
                await task(*arguments)
            except ApiError as error:
                if error.code not in PASSING:
                    raise

    async def _check_sessions(self) -> None:
        await self._watch.fence_silent_brokers()

    async def _write_no_op(self) -> None:
        if self._world.clock.now() - self._last_write >= self._settings.metadata_max_idle_interval_ms / 1000 and not self._write_lock.locked():
            async with self._write_lock:
                await self._append(ControllerResult([NoOpRecord()], None))

    def _recovered(self, recovered: Recovered) -> None:
        fields = fields_of(recovered)
        if self._logger is not None:
            self._logger.warning("leader recovered", **fields)
        self.on_recovery(fields)

    async def _look_after_leaderless(self) -> None:
        assert self._leaderless is not None
        await self._leaderless.look()

    async def _take_out_of_duty(self) -> None:
        if self._duties.is_due(self._view()):
            await self._pass_until_done(self._duties.step)

    async def _pass_until_done(self, operation: Operation[bool]) -> None:
        while await self._write(operation):
            await trio.lowlevel.checkpoint()

    # Writing.

    def _view(self) -> ControllerView:
        return ControllerView(self._pending.image, self._settings, self._schema, self._heartbeats.held)

    async def _write(self, operation: Operation[T], appended: Callable[[T, int], None] | None = None) -> T:
        """Decide, append, and return the answer once it is committed. Raises ApiError.

        `appended` is told the answer and the offset of the last record as soon as they are in the log, committed or not.
        """
        epoch = self._pending.require_active()
        await self._activated.wait()
        async with self._write_lock:
            self._require_epoch(epoch)
            view = self._view()
            result = with_reports(view, operation(view), self._world.clock.wall_ms())
            offset = await self._append(result)
            if appended is not None:
                appended(result.response, self._pending.last_appended)
        await self._pending.committed(offset)
        return result.response

    def _require_epoch(self, epoch: int) -> None:
        if self._pending.epoch != epoch:
            raise self._pending.not_controller()

    async def _append(self, result: ControllerResult[Any]) -> int:
        offset, changes = await self._pending.append(result)
        if result.records:
            self._last_write = self._world.clock.now()
            self._note_registrations(changes, self._pending.image, offset)
            if self._logger is not None:
                log_unclean_elections(self._logger, changes, self._pending.image)
        return offset

    def _note_registrations(self, changes: MetadataChanges, image: MetadataImage, offset: int) -> None:
        """Remember where a broker's registration lies: it may be unfenced once it has replayed that far."""
        for broker_id, before in changes.brokers.items():
            broker = image.cluster.brokers.get(broker_id)
            if broker is None:
                self._registration_offsets.pop(broker_id, None)
            elif before is None or before.epoch != broker.epoch:
                self._registration_offsets[broker_id] = offset
