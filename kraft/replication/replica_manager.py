"""The partitions of one broker. Handlers reach partitions through it, and metadata changes are applied through it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Protocol

from kraft.common.backed_off_log import BackedOffLog
from kraft.common.config.node.cordons import Cordons, cordons
from kraft.common.config.resource_type import ResourceType
from kraft.common.errors import ApiError, CorruptData, NotLeader, OutOfResources, StorageError
from kraft.common.ids import TopicPartition
from kraft.common.quarantine import Quarantine
from kraft.metadata.image.partition_registration import PartitionRegistration
from kraft.protocol.error_codes import ErrorCode
from kraft.replication.damaged_replicas import DamagedReplicas
from kraft.replication.follower_serving import FollowerServing
from kraft.replication.isr_policy import IsrRules
from kraft.replication.logs.flusher import LogFlusher
from kraft.replication.logs.writer import LogWriter
from kraft.replication.partition import Partition
from kraft.replication.partition_traffic import PastTraffic
from kraft.replication.purgatory import ProduceWaiter
from kraft.replication.replica_directories import ReplicaDirectories
from kraft.replication.replica_hosting import ReplicaHosting
from kraft.replication.replica_selector import RACK_AWARE
from kraft.replication.time_lookups import TimeLookups
from kraft.replication.topic_configs import ConfigView, TopicConfig
from kraft.storage.storage_failure import upkeep_failure

if TYPE_CHECKING:
    from kraft.common.config.node.node_config import NodeConfig
    from kraft.common.logging import Logger
    from kraft.metadata.image.metadata_changes import MetadataChanges
    from kraft.metadata.image.metadata_image import MetadataImage
    from kraft.replication.tiers.remote_log_manager import RemoteLogManager
    from kraft.storage.log_manager import LogManager
    from kraft.storage.unified_log import UnifiedLog
    from kraft.world.ports import World


class ClusterView(Protocol):
    """The metadata that replicas need, as handlers see it."""

    def leader_of(self, topic: str, index: int) -> tuple[int, int] | None:
        """Return (leader, leader epoch) of a partition, or None if the partition does not exist."""
        ...

    def may_be_in_sync(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether this incarnation of a broker may be in an in-sync replica set (KIP-841, KIP-903)."""
        ...


class IsrProposer(Protocol):
    """Proposes in-sync replica sets to the controller."""

    def reconsider(self, partition: Partition) -> None: ...


class ReplicaListener:
    """Callbacks for changes of this broker's partitions. A listener overrides the ones that it needs."""

    def role_changed(self, partition: Partition) -> None:
        """The partition has a new leader epoch, or has left this broker (its leader is then -1)."""

    def config_changed(self, partition: Partition) -> None:
        """The configuration of the partition's log has changed."""

    def became_leader(self, partition: Partition) -> None:
        """This broker has become the leader, in a new leader epoch."""

    def resigned(self, topic: str, index: int, leader_epoch: int) -> None:
        """This broker no longer leads the partition in `leader_epoch`."""

    def directory_failed(self, path: str) -> None:
        """A log directory has gone offline, with all its partitions."""


class ReplicaManager:
    """The partitions of one broker. Owned by the broker's loop. `topic_names` and `partition` are on the hot path:
    plain dictionary look-ups."""

    def __init__(
        self,
        node_id: int,
        logs: LogManager,
        configs: ConfigView,
        cluster: ClusterView,
        isr: IsrProposer,
        world: World,
        log: Logger,
    ) -> None:
        paths = [directory.path for directory in logs.directories]
        self.flusher = LogFlusher(
            world, paths, self.directory_failed, lambda log: logs.get(log.topic_partition) is log, self._flushed
        )
        self.writer = LogWriter(
            world,
            paths,
            self.flusher.flush_later,
            self._append_failed,
            configs.static.integer("kraft.append.thread.min.bytes"),
        )
        self.time_lookups = TimeLookups(world.threads)
        self.node_id = node_id
        self.logs = logs
        self.topic_names: dict[bytes, str] = {}
        self.topic_ids: dict[str, bytes] = {}
        self._partitions: dict[tuple[str, int], Partition] = {}
        self.past_traffic = PastTraffic()
        self._configs = configs
        self.world = world
        self.set_aside = Quarantine(world.clock, world.log_sink)
        self._log = log
        self._shortages = BackedOffLog(log, world.clock)
        self.offline: set[tuple[str, int]] = set()
        self._image: MetadataImage | None = None
        self._cordons = Cordons(frozenset(), ())
        self.directories = ReplicaDirectories(self, log)
        self.hosting = ReplicaHosting(self, log)
        self.damaged = DamagedReplicas(self, log)
        self._cluster = cluster
        self._isr = isr
        self._isr_rules = IsrRules(
            world.clock.now, lambda: configs.static.seconds("replica.lag.time.max.ms"), cluster.may_be_in_sync
        )
        self.serving = FollowerServing(
            node_id,
            lambda: self.config,
            lambda topic: self._image and self._image.configs.topic(topic),
            world.clock.now,
            sends_consumers_to_followers=configs.static.optional_text("replica.selector.class") == RACK_AWARE,
        )
        self._listeners: list[ReplicaListener] = []
        self.remote: RemoteLogManager | None = None
        """None without tiered storage."""

    @property
    def config(self) -> NodeConfig:
        """The node's configuration under the last applied metadata."""
        return self._configs.static if self._image is None else self._configs.effective(self._image)

    def add_listener(self, listener: ReplicaListener) -> None:
        self._listeners.append(listener)

    def partition(self, topic: str, index: int) -> Partition:
        """Return the partition hosted on this broker.

        Raises NotLeader if only other brokers host it, StorageError if it is offline here, ApiError
        UNKNOWN_TOPIC_OR_PARTITION if it does not exist.
        """
        try:
            return self._partitions[topic, index]
        except KeyError:
            if (topic, index) in self.offline:
                raise StorageError(
                    f"{topic}-{index} is on a log directory that is offline, or its log is damaged"
                ) from None
            leader = self._cluster.leader_of(topic, index)
            if leader is not None:
                raise NotLeader(f"{topic}-{index} has no replica on broker {self.node_id}", *leader) from None
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "") from None

    def find(self, topic: str, index: int) -> Partition | None:
        return self._partitions.get((topic, index))

    def all_in_sync(self, topic_partition: TopicPartition) -> bool:
        """Whether the partition is hosted here and all its replicas are in the in-sync replica set."""
        partition = self.find(*topic_partition)
        return partition is not None and len(partition.isr) == len(partition.replicas) > 0

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[Partition]:
        """All hosted partitions, in the order in which they were created."""
        return iter(list(self._partitions.values()))

    def follower_fetched(
        self,
        partition: Partition,
        replica_id: int,
        offset: int,
        log_start_offset: int,
        broker_epoch: int,
        *,
        knows_epoch: bool = True,
    ) -> None:
        """Record a follower's Fetch. Raises NotLeader or ApiError if the broker is not a replica or names an outdated
        broker epoch."""
        partition.follower_fetched(
            replica_id, offset, log_start_offset, broker_epoch, self.world.clock.now(), knows_epoch=knows_epoch
        )
        if replica_id not in partition.isr:
            self._isr.reconsider(partition)

    def brokers_changed(self, broker_ids: Collection[int]) -> Iterator[None]:
        """Re-evaluate the ISR and the high watermark after brokers registered, left, or were fenced. A generator:
        yields regularly, so that its driver can let other tasks run."""
        for done, partition in enumerate(self):
            if partition.followers is not None and any(broker in partition.followers for broker in broker_ids):
                partition.advance_high_watermark()
                partition.notify_low_watermark()
                self._isr.reconsider(partition)
            if done % 500 == 499:
                yield

    async def until_committed(
        self, partition: Partition, leader_epoch: int, required_offset: int, deadline: float
    ) -> None:
        """Return once the high watermark has reached `required_offset` of an append in `leader_epoch`, while this
        replica has led without a break.

        `deadline` is a time of the monotonic clock. Raises NotLeader if leadership moves first, ApiError
        REQUEST_TIMED_OUT at the deadline, ApiError NOT_ENOUGH_REPLICAS_AFTER_APPEND if the ISR has become too small.
        """
        clock = self.world.clock
        while True:
            if not partition.is_leader or leader_epoch < partition.led_since_epoch:
                raise NotLeader("", partition.leader_id, partition.leader_epoch)
            if partition.log.high_watermark >= required_offset:
                break
            if clock.now() >= deadline:
                raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "")
            waiter = ProduceWaiter(required_offset)
            partition.waiters.add_produce(waiter)
            try:
                with clock.move_on_at(deadline):
                    await waiter.event.wait()
            finally:
                partition.waiters.remove_produce(waiter)
        if not partition.has_enough_in_sync:
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
                f"{partition}: appended, but the in-sync set has shrunk since",
            )

    def _append_failed(self, log: UnifiedLog, problem: Exception) -> None:
        name = log.topic_partition
        self.handle_storage_error(problem, name.topic, name.partition, "append", log)

    async def flush(self, partition: Partition) -> None:
        """Return once everything now in the partition's log is durable on this broker. If the log moves to another
        directory meanwhile, the new log is flushed. Raises StorageError; ApiError if the log was deleted."""
        log = None
        while log is not partition.log:
            log = partition.log
            await self.flusher.flush(log)

    def _flushed(self, log: UnifiedLog) -> None:
        """Advance the high watermark after a sync: with flush.messages it waits for the sync."""
        partition = self._partitions.get(log.topic_partition)
        if partition is not None and partition.is_leader and partition.log is log:
            partition.advance_high_watermark()

    def directory_failed(self, path: str, why: str) -> None:
        """Take a failed directory offline, with its partitions, until the next start. Listeners report it to the
        controller."""
        if path not in (directory.path for directory in self.logs.online()):
            return
        gone = self.logs.directory_failed(path, why)
        self._log.error("log directory offline", directory=path, reason=why, partitions=len(gone))
        for topic_partition in gone:
            key = (topic_partition.topic, topic_partition.partition)
            self.offline.add(key)
            partition = self._partitions.pop(key, None)
            if partition is not None:
                self._retire(partition)
                self.directories.went_offline(partition)
        self.damaged.directory_failed(path)
        for listener in self._listeners:
            listener.directory_failed(path)

    def log_start_moved(self, topic_partition: TopicPartition) -> None:
        """Notify parked fetchers after retention has raised a log start offset."""
        partition = self.find(topic_partition.topic, topic_partition.partition)
        if partition is not None:
            partition.notify_log_start()

    def handle_storage_error(
        self, problem: Exception, topic: str, index: int, doing: str, log: UnifiedLog | None
    ) -> None:
        """Log a storage `problem` that occurred while `doing` something with a partition. If the problem casts doubt on
        the disk, take the directory of `log` offline.

        Any other kind of problem is ignored. So is a problem with a `log` that was deleted or moved meanwhile: that
        explains missing files, and the partition's name may now stand for another log. `log` is None if no log was
        touched.
        """
        if log is not None and self.logs.get(log.topic_partition) is not log:
            return
        if isinstance(problem, OSError):
            problem = upkeep_failure(problem, f"{topic}-{index}")
        if not isinstance(problem, StorageError):
            return
        fields = {"topic": topic, "partition": index, "reason": str(problem)}
        if isinstance(problem, OutOfResources):
            directory = "" if log is None else self.logs.directory_of(log).path
            self._shortages.error(
                f"{doing} failed", directory, **fields
            )  # Backed off: each partition there and each attempt would log.
        else:
            self._log.error(f"{doing} failed", **fields)
        if log is not None and not isinstance(problem, CorruptData | OutOfResources):
            self.directory_failed(self.logs.directory_of(log).path, str(problem))

    # --- metadata

    def apply(self, image: MetadataImage, changes: MetadataChanges) -> Iterator[None]:
        """Apply `image` to the partitions. A generator: yields regularly, so that its driver can let other tasks
        run."""
        now = self.world.clock.now()
        if self._image is None or image.configs is not self._image.configs:
            self._follow_cordons(image)  # Before logs are created.
        for topic_id, topic in changes.topics.deleted.items():
            self._delete_topic(topic_id, topic.name, topic.partitions.keys())
            yield
        for topic_id, name in changes.topics.created.items():
            self.topic_names[topic_id] = name
            self.topic_ids[name] = topic_id
        done = 0
        for topic_id, partitions in changes.topics.partitions.items():
            name = self.topic_names[topic_id]
            config = None
            for index in partitions:
                registration = image.topics.partition(topic_id, index)
                assert registration is not None
                if self.node_id in registration.replicas:
                    config = config or self._configs.topic(image, name)
                    self._apply_partition(name, index, topic_id, registration, config, now)
                else:
                    self._drop(name, index)
                done += 1
                if done % 200 == 0:
                    yield
        yield from self._apply_configs(image, changes)
        self._image = image

    def _follow_cordons(self, image: MetadataImage) -> None:
        """Apply `cordoned.log.dirs`."""
        found, before = cordons(self._configs.effective(image)), self._cordons
        self._cordons, self.logs.cordoned = found, found.directories
        if found.directories != before.directories:
            self._log.info("log directories cordoned", directories=",".join(sorted(found.directories)) or "none")
        if found.unknown and found.unknown != before.unknown:
            self._log.warning("cordoned.log.dirs names what is no log directory", entries=",".join(found.unknown))

    def _apply_partition(
        self,
        name: str,
        index: int,
        topic_id: bytes,
        registration: PartitionRegistration,
        config: TopicConfig,
        now: float,
    ) -> None:
        if (name, index) in self.offline:
            if not self.damaged.may_return(name, index, registration):
                return  # Until the next start: an empty log elsewhere would lose the records of this one.
            self.offline.discard((name, index))
        assigned = registration.directory(self.node_id)
        try:
            partition = self._partitions.get((name, index)) or self._host(name, index, topic_id, config, registration)
        except OutOfResources:
            return  # The creation is retried.
        if partition is None:
            self.directories.lost(topic_id, index)
            return
        if self.damaged.must_wait(partition.log, registration):
            self._wait_for_repair(partition)
            return
        self.directories.placed(partition, assigned)
        was_leader, old_epoch = partition.is_leader, partition.leader_epoch
        was_in_sync = self.node_id in partition.isr or partition.partition_epoch < 0
        has_new_epoch = partition.apply(registration, now)
        self.damaged.applied(partition, was_in_sync)
        if not has_new_epoch:
            return
        for listener in self._listeners:
            listener.role_changed(partition)
        if was_leader:
            for listener in self._listeners:
                listener.resigned(name, index, old_epoch)
        if partition.is_leader:
            if partition.durable_end() < partition.log.log_end_offset:
                # Recovered records were written and perhaps read, so they must become visible.
                self.flusher.flush_later(partition.log)
            for listener in self._listeners:
                listener.became_leader(partition)

    def _wait_for_repair(self, partition: Partition) -> None:
        """Take a replica with a damaged log offline until the damage is settled: it must not lead."""
        key = (partition.topic, partition.index)
        del self._partitions[key]
        self.offline.add(key)
        self._retire(partition)
        self.damaged.wait(partition)
        self.directories.lost(partition.topic_id, partition.index)

    def apply_again(self, name: str, index: int, topic_id: bytes) -> None:
        """Apply the metadata again to a replica that could not be created earlier."""
        registration = None if self._image is None else self._image.topics.partition(topic_id, index)
        if self._image is not None and registration is not None:
            self._apply_partition(
                name, index, topic_id, registration, self._configs.topic(self._image, name), self.world.clock.now()
            )

    def _host(
        self, name: str, index: int, topic_id: bytes, config: TopicConfig, registration: PartitionRegistration
    ) -> Partition | None:
        """Create the partition with its log, found or new. Returns None, and counts the partition as offline, if it
        cannot have a log. Raises OutOfResources."""
        log = self.hosting.log_of(TopicPartition(name, index), topic_id, registration, self._image)
        if log is None:
            self.offline.add((name, index))
            return None
        partition = self._partitions[name, index] = Partition(self.node_id, name, index, topic_id, log, self._isr_rules)
        self.past_traffic.came(name)
        partition.min_isr = config.min_insync_replicas
        return partition

    def _apply_configs(self, image: MetadataImage, changes: MetadataChanges) -> Iterator[None]:
        """Apply the new configuration to every log whose topic or broker configs changed."""
        names = {name for kind, name in changes.configs if kind == ResourceType.TOPIC}
        if any(kind == ResourceType.BROKER for kind, _ in changes.configs):
            names.update(self.topic_ids)
        configs: dict[str, TopicConfig] = {}
        if not names:
            return
        for done, partition in enumerate(self):
            if partition.topic in names:
                if partition.topic not in configs:
                    configs[partition.topic] = self._configs.topic(image, partition.topic)
                config = configs[partition.topic]
                has_another = partition.log.config != config.log
                partition.log.config = config.log
                if has_another:
                    partition.log.local.retention_due[partition.log.topic_partition] = True
                partition.min_isr = config.min_insync_replicas
                for listener in self._listeners if has_another else ():
                    listener.config_changed(partition)
                partition.advance_high_watermark()
            if done % 500 == 499:
                yield

    def _delete_topic(self, topic_id: bytes, name: str, indexes: tuple[int, ...]) -> None:
        held = sum((name, index) in self._partitions for index in indexes)
        for index in indexes:
            self._drop(name, index)
        if held:
            self._log.info("replicas deleted", topic=name, partitions=held)
        self.topic_names.pop(topic_id, None)
        if self.topic_ids.get(name) == topic_id:
            del self.topic_ids[name]

    def _drop(self, name: str, index: int) -> None:
        """Remove a replica that is no longer assigned to this broker, if it was hosted at all."""
        self.offline.discard((name, index))
        self.hosting.forget(name, index)
        waited = self.damaged.forget(name, index)
        partition = self._partitions.pop((name, index), None)
        if partition is not None:
            self._retire(partition)
        log = self.logs.get(TopicPartition(name, index)) if partition is not None or waited else None
        if log is None:
            return
        path = self.logs.directory_of(log).path
        try:
            self.logs.delete(TopicPartition(name, index), now_ms=self.world.clock.wall_ms())
        except StorageError as problem:
            self.directory_failed(path, str(problem))
        self._log.debug("replica deleted", topic=name, partition=index)

    def _retire(self, partition: Partition) -> None:
        """Resign from a replica that leaves this broker, notify the listeners and wake its waiters."""
        was_leader = partition.is_leader
        partition.resign()
        self.past_traffic.left(partition.topic, partition.traffic, partition.tier)
        for listener in self._listeners:
            listener.role_changed(partition)
        partition.wake_waiters()
        if was_leader:
            for listener in self._listeners:
                listener.resigned(partition.topic, partition.index, partition.leader_epoch)
