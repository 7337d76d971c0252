"""The coordinators' log over this broker's replicas: implements `kraft.coordinator.coordinator_log.CoordinatorLog`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kraft.common.errors import KraftError
from kraft.common.ids import TopicPartition
from kraft.coordinator.errors import ReloadNeeded
from kraft.coordinator.shard import LogRecord
from kraft.protocol.records.builder import Record, build_batch
from kraft.protocol.records.record_batch import RecordBatch, batches
from kraft.replication.partition import Partition
from kraft.replication.replica_manager import ReplicaManager
from kraft.storage.log_validator import AppendOrigin

ALL_REPLICAS = -1
READ_BYTES = 1 << 20


class PartitionLog:
    """Appends as leader, reads back what is there, tells of the high watermark."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    async def append(
        self, partition: TopicPartition, leader_epoch: int, records: Sequence[LogRecord], timestamp_ms: int
    ) -> int:
        """See the port. Raises NotLeader, ApiError, StorageError; ReloadNeeded where the records are in the log and
        nobody knows for how long."""
        target = self._led(partition)
        batch = build_batch(
            [Record(offset, timestamp_ms, key, value, ()) for offset, (key, value) in enumerate(records)]
        )
        try:
            info = await self._replicas.append(
                target,
                memoryview(batch),
                ALL_REPLICAS,
                timestamp_ms,
                AppendOrigin.COORDINATOR,
                leader_epoch=leader_epoch,
            )
        except (KraftError, OSError) as problem:
            self._replicas.handle_storage_error(problem, partition.topic, partition.partition, "append")
            raise
        if info.rolled:
            self._replicas.flusher.flush_later(target.log)  # What is not durable is not compacted either.
        if target.durable_end() < target.log.log_end_offset:
            try:
                await self._replicas.flush(target)
            except (KraftError, OSError) as problem:
                self._replicas.handle_storage_error(problem, partition.topic, partition.partition, "flush")
                raise ReloadNeeded from problem
        return info.last_offset

    async def read(self, partition: TopicPartition, from_offset: int) -> Sequence[RecordBatch]:
        """See the port: the file is read in a worker thread."""
        log = self._led(partition).log
        if from_offset >= log.log_end_offset:
            return ()
        data = log.read(from_offset, READ_BYTES, min_one_message=True)
        return list(batches(await self._replicas.world.threads.run(data.read), partial_tail=True))

    def max_batch_bytes(self, partition: TopicPartition) -> int:
        return self._led(partition).log.config.max_message_bytes

    def log_start_offset(self, partition: TopicPartition) -> int:
        return self._led(partition).log.log_start_offset

    def high_watermark(self, partition: TopicPartition) -> int:
        return self._led(partition).log.high_watermark

    def on_high_watermark(self, partition: TopicPartition, listener: Callable[[int], None]) -> Callable[[], None]:
        return self._led(partition).waiters.add_high_watermark_listener(listener)

    def _led(self, partition: TopicPartition) -> Partition:
        found = self._replicas.partition(partition.topic, partition.partition)
        found.check_leader()
        return found
