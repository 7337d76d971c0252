"""The coordinators' log over this broker's replicas: implements `kraft.coordinator.coordinator_log.CoordinatorLog`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kraft.common.errors import KraftError
from kraft.common.ids import TopicPartition
from kraft.coordinator.errors import ReloadNeeded
from kraft.coordinator.shard import LogRecord, Marker, Producer
from kraft.protocol.records.builder import build_keyed_batch
from kraft.protocol.records.control_record import ControlRecordType, TransactionMarker, build_marker_batch
from kraft.protocol.records.record_batch import NO_SEQUENCE, RecordBatch, batches
from kraft.replication.partition import Partition, TransactionalAppend
from kraft.replication.replica_manager import ReplicaManager
from kraft.storage.log_validator import AppendOrigin
from kraft.storage.producers.verification import Verification
from kraft.world.turns import Turn, in_turns

ALL_REPLICAS = -1
READ_BYTES = 1 << 20


class PartitionLog:
    """Appends as leader, reads back what is there, tells of the high watermark."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    async def append(
        self,
        partition: TopicPartition,
        leader_epoch: int,
        records: Sequence[LogRecord],
        timestamp_ms: int,
        producer: Producer | None = None,
    ) -> int:
        """See the port. Raises NotLeader, ApiError, StorageError; ReloadNeeded where the records are in the log and
        nobody knows for how long."""
        if producer is None:
            batch = await in_turns(build_keyed_batch(records, timestamp_ms))
            return await self._append(partition, leader_epoch, batch, timestamp_ms, None)
        building = build_keyed_batch(
            records,
            timestamp_ms,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            is_transactional=True,
        )
        batch = await in_turns(building)
        transaction = TransactionalAppend(producer.guard)
        return await self._append(partition, leader_epoch, batch, timestamp_ms, transaction)

    async def append_marker(
        self, partition: TopicPartition, leader_epoch: int, marker: Marker, timestamp_ms: int
    ) -> int:
        """See the port. Raises as `append`."""
        batch = build_marker_batch(
            TransactionMarker(
                ControlRecordType.COMMIT if marker.committed else ControlRecordType.ABORT, marker.coordinator_epoch
            ),
            offset=0,
            timestamp_ms=timestamp_ms,
            leader_epoch=leader_epoch,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
        )
        transaction = TransactionalAppend(transaction_version=marker.transaction_version)
        return await self._append(partition, leader_epoch, batch, timestamp_ms, transaction)

    def start_verification(
        self, partition: TopicPartition, producer_id: int, producer_epoch: int, *, implicit: bool
    ) -> Verification | None:
        """See the port."""
        append = self._led(partition).start_verification(
            producer_id, producer_epoch, NO_SEQUENCE, self._replicas.world.clock.wall_ms(), implicit=implicit
        )
        return None if append is None else append.verification

    async def _append(
        self,
        partition: TopicPartition,
        leader_epoch: int,
        batch: bytes,
        timestamp_ms: int,
        transaction: TransactionalAppend | None,
    ) -> int:
        target = self._led(partition)
        log = target.log
        try:
            info = await self._replicas.append(
                target,
                memoryview(batch),
                ALL_REPLICAS,
                timestamp_ms,
                AppendOrigin.COORDINATOR,
                leader_epoch=leader_epoch,
                transaction=transaction,
            )
        except (KraftError, OSError) as problem:
            self._replicas.handle_storage_error(problem, partition.topic, partition.partition, "append", log)
            raise
        if info.rolled:
            self._replicas.flusher.flush_later(target.log)  # What is not durable is not compacted either.
        if target.durable_end() < target.log.log_end_offset:
            log = target.log
            try:
                await self._replicas.flush(target)
            except (KraftError, OSError) as problem:
                self._replicas.handle_storage_error(problem, partition.topic, partition.partition, "flush", log)
                raise ReloadNeeded from problem
        return info.last_offset

    async def read(self, partition: TopicPartition, from_offset: int) -> Sequence[RecordBatch]:
        """See the port: the file is read in a worker thread. Of a log of small commits it is ten thousand batches."""
        log = self._led(partition).log
        if from_offset >= log.log_end_offset:
            return ()
        data = log.read(from_offset, READ_BYTES, min_one_message=True)
        found: list[RecordBatch] = []
        turn = Turn()
        for batch in batches(await self._replicas.world.threads.run(data.read), partial_tail=True):
            found.append(batch)
            if turn.is_over():
                await turn.next()
        return found

    def max_batch_bytes(self, partition: TopicPartition) -> int:
        return self._led(partition).log.config.max_message_bytes

    def max_append_bytes(self, partition: TopicPartition) -> int:
        return self._led(partition).log.config.segment_bytes

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
