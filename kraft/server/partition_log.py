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
from kraft.replication.logs.writer import QueuedAppend
from kraft.replication.partition import Partition, TransactionalAppend
from kraft.replication.replica_manager import ReplicaManager
from kraft.storage.log_append import LogAppendInfo
from kraft.storage.log_config import LONG_MAX
from kraft.storage.log_validator import AppendOrigin
from kraft.storage.producers.verification import Verification
from kraft.world.steps import Steps, at_once
from kraft.world.turns import Turn, in_turns

ALL_REPLICAS = -1
READ_BYTES = 1 << 20
RECORDS_AT_ONCE_MAX = 1000
"""A batch of at most this number of records is built in one step of the loop."""


class PartitionLog:
    """Appends as leader, reads the log back, and reports the high watermark."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    async def append(
        self,
        partition: TopicPartition,
        leader_epoch: int,
        content: Sequence[LogRecord] | Marker,
        timestamp_ms: int,
        producer: Producer | None = None,
    ) -> int:
        """See the port. Raises NotLeader, ApiError, StorageError; ReloadNeeded if the records are in the log but could
        not be made durable."""
        batch = await in_turns(_batch_of(content, leader_epoch, timestamp_ms, producer))
        target = self._led(partition)
        appended = self._write(target, leader_epoch, batch, timestamp_ms, _transaction_of(content, producer))
        return await self._until_durable(target, appended)

    def append_at_once(
        self,
        partition: TopicPartition,
        leader_epoch: int,
        content: Sequence[LogRecord] | Marker,
        timestamp_ms: int,
        producer: Producer | None = None,
    ) -> tuple[int, int] | None:
        """See the port. Raises as `append`, without ReloadNeeded."""
        target = self._replicas.partition(partition.topic, partition.partition)
        log = target.log
        if len(content) > RECORDS_AT_ONCE_MAX or log.is_appending or log.config.flush_messages != LONG_MAX:
            return None
        batch = at_once(_batch_of(content, leader_epoch, timestamp_ms, producer))
        if len(batch) >= self._replicas.writer.large_bytes_min:
            return None
        appended = self._write(target, leader_epoch, batch, timestamp_ms, _transaction_of(content, producer))
        assert isinstance(appended, LogAppendInfo), "a small append to a log without another is synchronous"
        return appended.last_offset, log.high_watermark

    def start_verification(
        self, partition: TopicPartition, producer_id: int, producer_epoch: int, *, implicit: bool
    ) -> Verification | None:
        """See the port."""
        append = self._led(partition).start_verification(
            producer_id, producer_epoch, NO_SEQUENCE, self._replicas.world.clock.wall_ms(), implicit=implicit
        )
        return None if append is None else append.verification

    def _write(
        self,
        target: Partition,
        leader_epoch: int,
        batch: bytes,
        timestamp_ms: int,
        transaction: TransactionalAppend | None,
    ) -> LogAppendInfo | QueuedAppend:
        return self._replicas.writer.append(
            target,
            memoryview(batch),
            ALL_REPLICAS,
            timestamp_ms,
            AppendOrigin.COORDINATOR,
            leader_epoch=leader_epoch,
            transaction=transaction,
        )

    async def _until_durable(self, target: Partition, appended: LogAppendInfo | QueuedAppend) -> int:
        info = await appended if isinstance(appended, QueuedAppend) else appended
        log = target.log
        if target.durable_end() < log.log_end_offset:
            try:
                await self._replicas.flush(target)
            except (KraftError, OSError) as problem:
                self._replicas.handle_storage_error(problem, target.topic, target.index, "flush", log)
                raise ReloadNeeded from problem
        assert info is not None, "a leader appends all or nothing"
        return info.last_offset

    async def read(self, partition: TopicPartition, from_offset: int) -> Sequence[RecordBatch]:
        """See the port. The file is read in a worker thread: in a log of small commits it holds ten thousand
        batches."""
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

    def batch_bounds(self, partition: TopicPartition) -> tuple[int, int]:
        config = self._replicas.partition(partition.topic, partition.partition).log.config
        return config.max_message_bytes, config.segment_bytes

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


def _batch_of(
    content: Sequence[LogRecord] | Marker, leader_epoch: int, timestamp_ms: int, producer: Producer | None
) -> Steps[bytes]:
    if isinstance(content, Marker):
        return _marker_batch_of(content, leader_epoch, timestamp_ms)
    if producer is None:
        return build_keyed_batch(content, timestamp_ms)
    return build_keyed_batch(
        content,
        timestamp_ms,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        is_transactional=True,
    )


def _marker_batch_of(marker: Marker, leader_epoch: int, timestamp_ms: int) -> Steps[bytes]:
    yield from ()
    return build_marker_batch(
        TransactionMarker(
            ControlRecordType.COMMIT if marker.committed else ControlRecordType.ABORT, marker.coordinator_epoch
        ),
        offset=0,
        timestamp_ms=timestamp_ms,
        leader_epoch=leader_epoch,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
    )


def _transaction_of(content: Sequence[LogRecord] | Marker, producer: Producer | None) -> TransactionalAppend | None:
    if isinstance(content, Marker):
        return TransactionalAppend(transaction_version=content.transaction_version)
    return None if producer is None else TransactionalAppend(producer.guard)
