"""The steps of an append. `UnifiedLog.decide_as_*` validates it and chooses offsets. `PendingAppend.write` writes the
bytes, on the loop or in a thread. Then the log state is updated (`UnifiedLog.finish_append` after a thread)."""

from __future__ import annotations

from collections.abc import Sequence

from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.control_record import TransactionMarker, marker_of
from kraft.protocol.records.record_batch import CorruptBatch, RecordBatch, batches
from kraft.storage.file_cache import OpenFile
from kraft.storage.leader_epoch_cache import NO_EPOCH
from kraft.storage.log_segment import RELATIVE_OFFSET_MAX, LogSegment, truncate_to_size, write_at_end
from kraft.world.ports import Buffer


class LogAppendInfo:
    """The result of an append. `first_offset` and `last_offset` are inclusive.

    `log_append_time_ms` is -1 unless the topic uses LogAppendTime. For a duplicate it is the largest timestamp of the
    batch in the log, as in Kafka. `rolled`: a segment was closed, so a flush up to the new segment's base offset is
    due.
    """

    __slots__ = (
        "duplicate",
        "first_offset",
        "last_offset",
        "log_append_time_ms",
        "log_start_offset",
        "max_timestamp",
        "rolled",
    )

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        max_timestamp: int,
        log_append_time_ms: int,
        log_start_offset: int,
        duplicate: bool = False,
        rolled: bool = False,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.max_timestamp = max_timestamp
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.duplicate = duplicate
        self.rolled = rolled

    def __repr__(self) -> str:
        return f"LogAppendInfo({self.first_offset}..{self.last_offset}, duplicate={self.duplicate})"


class AppendedBatch:
    """A batch with its offsets and epoch in the log. `marker` is set when it ends a transaction."""

    __slots__ = ("batch", "first_offset", "last_offset", "leader_epoch", "marker")

    def __init__(
        self,
        batch: RecordBatch,
        first_offset: int,
        last_offset: int,
        leader_epoch: int,
        marker: TransactionMarker | None,
    ) -> None:
        self.batch = batch
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.leader_epoch = leader_epoch
        self.marker = marker


def check_continues(first: AppendedBatch, log_end_offset: int, latest_epoch: int) -> None:
    """Assert that the batch overwrites nothing, and that no leader of an older epoch appends it. A batch may have no
    epoch."""
    assert first.first_offset >= log_end_offset, (
        f"a batch at {first.first_offset}, and the log ends at {log_end_offset}"
    )
    assert first.leader_epoch in (NO_EPOCH, latest_epoch) or first.leader_epoch > latest_epoch, (
        f"a batch of epoch {first.leader_epoch} at {first.first_offset}, behind epoch {latest_epoch}"
    )


class PendingAppend:
    """An append that is decided but not written. `opened` is None for a duplicate, which is not written."""

    __slots__ = ("batches", "buffers", "info", "opened", "segment", "size")

    def __init__(
        self,
        info: LogAppendInfo,
        segment: LogSegment | None = None,
        opened: OpenFile | None = None,
        buffers: Sequence[Buffer] = (),
        batches: Sequence[AppendedBatch] = (),
    ) -> None:
        self.info = info
        self.segment = segment
        self.opened = opened
        self.buffers = buffers
        self.batches = batches
        self.size = sum(map(len, buffers))

    def write(self) -> None:
        """Write the bytes at the end of the file, all or none. Touches no other state, so it may run in a thread.
        Raises OSError, StorageError."""
        if self.segment is not None and self.opened is not None:
            write_at_end(self.opened, self.segment.size, self.buffers)

    def unwrite(self) -> None:
        """Undo `write`. The bytes were never readable, because the log end offset has not moved. Raises
        StorageError."""
        if self.segment is not None and self.opened is not None:
            truncate_to_size(self.opened, self.segment.size)

    def settle(self) -> None:
        """Called after the writing thread has finished with the file."""
        if self.segment is not None and self.opened is not None:
            self.segment.settle(self.opened)


def replicated_batches(
    records: Buffer, topic_partition: TopicPartition, log_end_offset: int, leader_epoch: int | None
) -> list[AppendedBatch]:
    """The batches of a Fetch response that a follower appends now, with the leader's offsets.

    Left out are an incomplete last batch, batches of epochs beyond `leader_epoch`, and batches too far from the first
    one for one segment (a compacted leader's log may have wide gaps). The next fetch returns those.

    Raises ApiError CORRUPT_MESSAGE or INVALID_RECORD for a batch that cannot be appended at `log_end_offset`.
    """
    appended: list[AppendedBatch] = []
    next_offset = log_end_offset
    for batch in batches(records, partial_tail=True):
        if leader_epoch is not None and batch.partition_leader_epoch > leader_epoch:
            break
        if appended and batch.last_offset - appended[0].first_offset > RELATIVE_OFFSET_MAX:
            break
        _check_replicated(batch, topic_partition, next_offset)
        marker = marker_of(batch) if batch.is_control and batch.producer_id >= 0 else None
        appended.append(
            AppendedBatch(batch, batch.base_offset, batch.last_offset, batch.partition_leader_epoch, marker)
        )
        next_offset = batch.next_offset
    return appended


def _check_replicated(batch: RecordBatch, topic_partition: TopicPartition, next_offset: int) -> None:
    try:
        batch.verify_crc()
    except CorruptBatch as problem:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(problem)) from problem
    if batch.last_offset_delta < 0:
        raise ApiError(
            ErrorCode.CORRUPT_MESSAGE,
            f"replicated batch at {batch.base_offset} of {topic_partition} ends before it begins",
        )
    if batch.base_offset < next_offset:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"replicated offset {batch.base_offset}, but {topic_partition} expects {next_offset} or more",
        )
