"""Moves a broker's tiered partitions between the tiers (KIP-405). A leader copies and expires segments. Leaders and
followers delete copied segments from the disk.

Each tiered partition has a task. A round starts by reading the partition's remote log metadata to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

import trio

from kraft.common.errors import ApiError, KraftError, StorageError
from kraft.common.ids import Uuid
from kraft.protocol.error_codes import ErrorCode
from kraft.remote.copy_decisions import deletable_local_segments
from kraft.remote.local_files import facts_of, facts_to_copy, first_to_copy, reading_facts
from kraft.remote.log_facts import LogFacts, copied_end_offset
from kraft.remote.metadata_cache import RemoteLogMetadataCache
from kraft.remote.metadata_manager import MetadataTopic, PartitionMetadata, RemoteLogMetadataManager
from kraft.remote.object_names import LEADER_EPOCHS_SUFFIX
from kraft.remote.remote_log_task import COPIES_MAX, RemoteLogTask
from kraft.remote.remote_lookup import remote_start_offset
from kraft.remote.remote_retention import RemoteRetention, expiry_of
from kraft.remote.segment_copies import RemotePartition
from kraft.remote.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from kraft.replication.fetchers.leader_offsets import LocalStart
from kraft.replication.logs.checkpoints import write_checkpoint
from kraft.replication.replica_manager import ReplicaListener
from kraft.replication.tiers.partition_tier import tier_of
from kraft.replication.tiers.remote_reads import RemoteReads
from kraft.replication.tiers.remote_starts import RemoteStarts
from kraft.replication.tiers.throttled_store import ThrottledStore
from kraft.rpc_client.backoff import Backoff
from kraft.storage.leader_epoch_cache import parse_leader_epochs
from kraft.storage.log_files import PRODUCER_SNAPSHOT_SUFFIX
from kraft.storage.tiered_log import RemoteStart, lacking_snapshots, make_snapshot, sync_snapshot
from kraft.world.ports import ObjectError, ObjectStore
from kraft.world.turns import TURN_PARTITIONS, Turn, in_turns

if TYPE_CHECKING:
    from kraft.common.config.node.node_config import NodeConfig
    from kraft.common.logging import Logger
    from kraft.replication.partition import Partition
    from kraft.replication.replica_manager import ReplicaManager
    from kraft.storage.log_segment import LogSegment
    from kraft.storage.unified_log import UnifiedLog

WORK: Final = "remote log"
"""The name of this work in health reports."""
ROUNDS_BETWEEN_STRAYS: Final = 100
"""Rounds between two searches for objects left by late requests. Each search costs a listing."""
START_SECONDS_MAX: Final = 60.0
"""Longest wait for the remote tier when a follower starts. Then it is retried later."""

Failures = (KraftError, ObjectError, OSError, TimeoutError)


class RemoteMetadataTopic(MetadataTopic, Protocol):
    """The topic `__remote_log_metadata`, which may not exist yet."""

    async def make_sure(self) -> None:
        """Return once the topic exists. Raises MetadataNotWritten."""


class RemoteLogManager(ReplicaListener):
    """The tiered partitions of one broker. Owned by the broker's loop. `run` works until cancelled."""

    def __init__(
        self,
        replicas: ReplicaManager,
        topic: RemoteMetadataTopic,
        store: ObjectStore,
        config: Callable[[], NodeConfig],
        log: Logger,
    ) -> None:
        self._replicas = replicas
        self._world = replicas.world
        self._topic = topic
        self._config = config
        self._log = log
        self._store = ThrottledStore(
            store, lambda: config().integer("remote.log.manager.copy.max.bytes.per.second"), replicas.world.clock
        )
        self._metadata = RemoteLogMetadataManager(topic)
        self._free = trio.Semaphore(config().integer("remote.log.manager.copier.thread.pool.size"))
        self._working: dict[tuple[bytes, int], Partition] = {}
        self._emptied: dict[tuple[bytes, int], int] = {}
        """The leader epochs in which partitions whose tiering is off had nothing left in the remote tier."""
        self._changed: dict[tuple[bytes, int], Partition] = {}
        """Partitions to check again: whether they need a task may have changed."""
        self._woken = trio.Event()
        self.reads = RemoteReads(replicas.world, store, self.metadata_of, replicas.time_lookups, config())
        self.starts = RemoteStarts()
        replicas.add_listener(self)

    def role_changed(self, partition: Partition) -> None:
        """See `ReplicaListener`."""
        self._changed[partition.topic_id, partition.index] = partition
        self._woken.set()

    def config_changed(self, partition: Partition) -> None:
        """See `ReplicaListener`."""
        self.role_changed(partition)

    async def run(self) -> None:
        async with trio.open_nursery() as partition_nursery:
            partition_nursery.start_soon(self.reads.run)
            partition_nursery.start_soon(self.starts.run)
            turn = Turn(TURN_PARTITIONS)
            while True:
                while self._changed:
                    key = next(iter(self._changed))
                    partition = self._changed.pop(key)
                    if self._look_at(key, partition):
                        partition_nursery.start_soon(self._work, key, partition)
                    if turn.is_over():
                        await turn.next()
                self._woken = trio.Event()
                await self._woken.wait()

    def _look_at(self, key: tuple[bytes, int], partition: Partition) -> bool:
        """Whether to start the partition's task."""
        self._forget_unless_emptied(key, partition)
        if not self._is_ours(partition) or self._working.get(key) is partition:
            return False
        self._working[key] = partition
        return True

    def _forget_unless_emptied(self, key: tuple[bytes, int], partition: Partition) -> None:
        if not (self._is_here(partition) and partition.log.config.remote_tier_to_be_deleted):
            self._emptied.pop(key, None)

    def _interval(self) -> float:
        return self._config().seconds("remote.log.manager.task.interval.ms")

    def _is_ours(self, partition: Partition) -> bool:
        """Whether the partition needs a task: it is tiered, or its remote segments are to be deleted."""
        if self._is_tiered(partition):
            return True
        emptied_in = self._emptied.get((partition.topic_id, partition.index))
        is_to_be_deleted = self._is_here(partition) and partition.log.config.remote_tier_to_be_deleted
        return is_to_be_deleted and emptied_in != partition.leader_epoch

    def _is_tiered(self, partition: Partition) -> bool:
        return self._is_here(partition) and partition.log.config.remote_storage_enable

    def _is_here(self, partition: Partition) -> bool:
        return self._replicas.find(partition.topic, partition.index) is partition

    async def _work(self, key: tuple[bytes, int], partition: Partition) -> None:
        backoff, rounds = self._backoff(), 0
        tier = tier_of(partition)
        while self._is_ours(partition):
            pause = 0.0
            with self._replicas.set_aside.guard(WORK, str(partition)):
                pause = self._interval()
                try:
                    async with self._free:
                        if await self._round(partition, with_strays=rounds % ROUNDS_BETWEEN_STRAYS == 0):
                            pause = 0.0
                    backoff, rounds = self._backoff(), rounds + 1
                    tier.succeeded()
                except Failures as problem:
                    self._log.warning("remote log work postponed", partition=str(partition), reason=str(problem))
                    pause = backoff.next()
                    tier.failed(str(problem), self._world.clock.wall_ms())
            await self._world.clock.sleep(pause)
        if self._working.get(key) is partition:
            del self._working[key]
            self._forget_unless_emptied(key, partition)
            partition.tier = None
            self._metadata.forget(topic_id_partition(partition))
            self.reads.forget(partition)

    def _backoff(self) -> Backoff:
        config = self._config()
        return Backoff(
            self._world.random.stream("remote log backoff"),
            config.seconds("remote.log.manager.task.retry.backoff.ms"),
            config.seconds("remote.log.manager.task.retry.backoff.max.ms"),
        )

    async def metadata_of(self, partition: Partition) -> PartitionMetadata:
        """Return the remote log metadata of a hosted partition, up to date.
        Raises MetadataNotWritten, ProtocolError."""
        await self._topic.make_sure()
        metadata = self._metadata.follow(topic_id_partition(partition))
        await metadata.catch_up()
        return metadata

    # A round

    async def _round(self, partition: Partition, *, with_strays: bool) -> bool:
        """Run one round; returns True if work remains."""
        if not partition.log.config.remote_storage_enable:
            await self._empty(partition)
            return False
        metadata = await self.metadata_of(partition)
        self.reads.knows(partition, metadata)
        if not partition.log.local.files_exist:
            return False  # Nothing was ever written.
        await self._make_snapshots(partition)
        failure: Exception | None = None
        has_more = False
        if partition.is_leader:
            try:
                has_more = await self._lead(partition, metadata, with_strays=with_strays)
            except Failures as problem:  # Copied segments may be deleted from the disk nevertheless.
                failure = problem
        await self._delete_local(partition, metadata)
        await self._measure(partition, metadata.cache)
        if failure is not None:
            raise failure
        return has_more

    async def _lead(self, partition: Partition, metadata: PartitionMetadata, *, with_strays: bool) -> bool:
        leader_epoch, log, cache = partition.leader_epoch, partition.log, metadata.cache
        config = log.config
        remote = self._remote_partition(partition, metadata)

        async def advance_log_start(offset: int) -> None:
            await self._advance_log_start(partition, offset)

        task = RemoteLogTask(
            self._world,
            log,
            remote,
            cache,
            topic_id_partition(partition),
            broker_id=self._replicas.node_id,
            leader_epoch=leader_epoch,
            advance_log_start=advance_log_start,
            drive=in_turns,
        )
        facts = reading_facts(log)
        if _knew_segments(facts, cache) and remote_start_offset(facts, cache) > log.log_start_offset:
            await advance_log_start(remote_start_offset(facts, cache))
        copied = 0
        while copied < COPIES_MAX and not config.remote_log_copy_disable and await self._copy_next(task, partition):
            copied += 1
            await self._delete_local(partition, metadata)  # Frees disk space before the rest of the round.
        await self._expire(task, partition, cache)
        if with_strays:
            await self._delete_strays(remote, partition)
        return copied == COPIES_MAX

    def _remote_partition(self, partition: Partition, metadata: PartitionMetadata) -> RemotePartition:
        leader_epoch = partition.leader_epoch
        return RemotePartition(
            self._store,
            metadata,
            metadata.cache,
            self._world.clock,
            broker_id=self._replicas.node_id,
            leads=lambda: partition.is_leader and partition.led_since_epoch <= leader_epoch,
        )

    async def _empty(self, partition: Partition) -> None:
        """Handle a topic whose tiering was switched off: raise the log start offset to the local log's start, then
        delete all remote segments (KIP-950)."""
        key, log, leader_epoch = (partition.topic_id, partition.index), partition.log, partition.leader_epoch
        if log.log_start_offset < log.local_log_start_offset <= log.high_watermark:
            await self._advance_log_start(partition, log.local_log_start_offset)
        if partition.is_leader and self._topic.partition_count:
            metadata = await self.metadata_of(partition)
            remote = self._remote_partition(partition, metadata)
            try:
                await self._delete_all(remote, partition, metadata.cache, leader_epoch)
            finally:
                tier_of(partition).measure_emptied(metadata.cache)
            await self._delete_strays(remote, partition)
            if metadata.cache.segment_count:
                return  # A later leader's segment, or one whose copy was just finished.
        self._emptied[key] = leader_epoch

    async def _delete_all(
        self, remote: RemotePartition, partition: Partition, cache: RemoteLogMetadataCache, leader_epoch: int
    ) -> None:
        """Delete all remote segments except those copied by a later leader."""
        with self._counting_deletes(partition, cache):
            for segment in cache.segments():
                if segment.last_epoch <= leader_epoch and await remote.delete(segment):
                    self._tell("segment deleted from the remote tier", partition, segment, reason="tiering is off")

    @contextmanager
    def _counting_deletes(self, partition: Partition, cache: RemoteLogMetadataCache) -> Iterator[None]:
        tier, before = tier_of(partition), cache.segment_count
        try:
            yield
        except Failures:
            tier.deletes += 1
            tier.failed_deletes += 1
            raise
        finally:
            tier.deletes += before - cache.segment_count

    async def _copy_next(self, task: RemoteLogTask, partition: Partition) -> bool:
        """Copy the next segment. Returns whether there was one."""
        tier = tier_of(partition)
        try:
            segments = await task.copy(1)
        except Failures:
            tier.copies += 1
            tier.failed_copies += 1
            raise
        for segment in segments:
            tier.copies += 1
            tier.copied_bytes += segment.size
            self._tell("segment copied to the remote tier", partition, segment)
        return bool(segments)

    async def _expire(self, task: RemoteLogTask, partition: Partition, cache: RemoteLogMetadataCache) -> None:
        with self._counting_deletes(partition, cache):
            for segment, reason in await task.expire(retention_of(partition)):
                self._tell("segment deleted from the remote tier", partition, segment, reason=reason)

    async def _measure(self, partition: Partition, cache: RemoteLogMetadataCache) -> None:
        if not partition.is_leader:
            return
        log = partition.log
        expiry = await in_turns(
            expiry_of(
                facts_to_copy(log, cache),
                cache,
                retention_of(partition),
                leader_epoch=partition.leader_epoch,
                being_copied=(),
                now_ms=self._world.clock.wall_ms(),
            )
        )
        waiting: Sequence[LogSegment] = ()
        if not log.config.remote_log_copy_disable:
            waiting = log.segments[first_to_copy(log, copied_end_offset(reading_facts(log), cache)) : -1]
        tier_of(partition).measure(waiting, expiry, cache, self._world.clock.now())

    async def _delete_strays(self, remote: RemotePartition, partition: Partition) -> None:
        strays = await remote.delete_stray_objects(topic_id_partition(partition))
        if strays.unknown:
            self._log.warning(
                "remote objects that belong to no segment",
                partition=str(partition),
                count=len(strays.unknown),
                first=strays.unknown[0],
            )

    def _tell(self, event: str, partition: Partition, segment: RemoteLogSegmentMetadata, **more: str) -> None:
        offsets = f"{segment.start_offset}..{segment.last_offset}"
        self._log.info(event, partition=str(partition), offsets=offsets, size=segment.size, **more)

    async def _advance_log_start(self, partition: Partition, offset: int) -> None:
        """Raise the log start offset to `offset`, durably on this broker.

        A follower learns it with its next fetch. A follower that misses it and becomes leader finds it out from the
        remote segments. Raises ApiError, StorageError.
        """
        partition.delete_records_before(offset)
        directory = self._replicas.logs.directory_of(partition.log)
        try:
            job = await in_turns(directory.gather_recovery_points(), run_job=self._world.threads.run)
            if job.contents:
                await write_checkpoint(job, self._world.threads)
        except BaseException:
            directory.checkpoint_missed()
            raise

    async def _make_snapshots(self, partition: Partition) -> None:
        """Write the missing producer snapshots at segment starts. Raises StorageError, OSError."""
        log = partition.log
        try:
            for offset in lacking_snapshots(log):
                steps = make_snapshot(log, offset, self._world.clock.wall_ms())
                await in_turns(steps, run_job=self._world.threads.run)
        except (StorageError, OSError) as problem:
            self._replicas.handle_storage_error(problem, partition.topic, partition.index, "producer snapshot", log)
            raise

    async def _delete_local(self, partition: Partition, metadata: PartitionMetadata) -> None:
        log = partition.log
        if not log.flush_state.has_written(log.leader_epoch_cache):
            await self._replicas.flusher.flush_epochs(log)
        deleted = 0
        try:
            while await self._delete_first_local(partition, log, metadata.cache):
                # One at a time: after a power failure no later segment may be gone while an earlier one is back.
                await self._world.threads.run(self._world.files.sync_directory, log.directory)
                deleted += 1
        except (StorageError, OSError) as problem:
            self._replicas.handle_storage_error(problem, partition.topic, partition.index, "local retention", log)
            raise
        finally:
            if deleted:
                self._log.info("segments deleted", partition=str(partition), count=deleted, reason="local retention")

    async def _delete_first_local(self, partition: Partition, log: UnifiedLog, cache: RemoteLogMetadataCache) -> bool:
        """Delete the first local segment if it is due and may be deleted. Returns whether it was deleted. Raises
        StorageError, OSError."""
        if not self._is_due_locally(partition, log, cache):
            return False
        offset = log.segments[1].base_offset
        if offset in log.producers.snapshots:
            # It becomes the first producer snapshot, and must survive a power failure.
            await self._world.threads.run(sync_snapshot, log, offset)
            if not self._is_due_locally(partition, log, cache) or log.segments[1].base_offset != offset:
                return False
        now_ms = self._world.clock.wall_ms()
        return bool(self._replicas.logs.delete_local_segments(log, 1, now_ms=now_ms).count)

    def _is_due_locally(self, partition: Partition, log: UnifiedLog, cache: RemoteLogMetadataCache) -> bool:
        """Whether the first local segment is due for deletion and may be deleted."""
        if not self._is_tiered(partition) or self._replicas.logs.get(log.topic_partition) is not log:
            return False
        retention_ms, retention_bytes = log.config.local_retention
        count = deletable_local_segments(
            facts_of(log, 0, 1),
            cache,
            local_retention_ms=retention_ms,
            local_retention_bytes=retention_bytes,
            now_ms=self._world.clock.wall_ms(),
        )
        return count > 0 and len(log.segments) > 1

    # What others ask

    async def latest_tiered(self, partition: Partition) -> int:
        """Return the last offset of the log that is in the remote tier; -1 if there is none. Raises ApiError."""
        try:
            metadata = await self.metadata_of(partition)
        except KraftError as problem:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition}: {problem}") from problem
        self.reads.knows(partition, metadata)
        highest = (
            min(found, last_offset)
            for epoch, _, last_offset in reading_facts(partition.log).lineage()
            if (found := metadata.cache.highest_offset_for_epoch(epoch)) is not None
        )
        return max(highest, default=-1)

    async def remote_start(self, partition: Partition, leader: LocalStart) -> RemoteStart:
        """Return the state with which a follower starts after remote records: its leader has the records before
        `leader.offset` in the remote tier only.

        Raises KraftError, ObjectError; ApiError REQUEST_TIMED_OUT after START_SECONDS_MAX.
        """
        with self._world.clock.move_on_after(START_SECONDS_MAX):
            return await self._remote_start(partition, leader)
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"{partition}: the remote tier did not answer in time")

    async def _remote_start(self, partition: Partition, leader: LocalStart) -> RemoteStart:
        metadata = await self.metadata_of(partition)
        segment = metadata.cache.remote_log_segment_metadata(leader.epoch_before, leader.offset - 1)
        if segment is None:
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{partition}: offset {leader.offset - 1} of epoch {leader.epoch_before} is not known in the remote"
                " tier",
            )
        epochs = await self.reads.segments.content(segment, LEADER_EPOCHS_SUFFIX)
        snapshot = await self.reads.segments.content(segment, PRODUCER_SNAPSHOT_SUFFIX)
        entries = parse_leader_epochs(f"{partition}{LEADER_EPOCHS_SUFFIX}", epochs.decode()).entries
        return RemoteStart(
            log_start_offset=leader.log_start_offset,
            offset=segment.last_offset + 1,
            leader_epochs=entries,
            producer_snapshot=snapshot,
        )


def topic_id_partition(partition: Partition) -> TopicIdPartition:
    return TopicIdPartition(partition.topic, Uuid(partition.topic_id), partition.index)


def retention_of(partition: Partition) -> RemoteRetention:
    config = partition.log.config
    return RemoteRetention(retention_ms=config.retention_ms, retention_bytes=config.retention_bytes)


def _knew_segments(facts: LogFacts, cache: RemoteLogMetadataCache) -> bool:
    """Whether the metadata knows any remote segment of this log. Metadata without any may have been lost, and does not
    say where the log starts."""
    return any(cache.highest_offset_for_epoch(epoch) is not None for epoch, _ in facts.leader_epochs)
