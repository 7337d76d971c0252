"""Appends to a log, as leader or follower: validate, number, write, take effect.

Between prepare and finish of an append nothing else may append, truncate or roll (asserted): one task owns a log,
and what is prepared may be written in a thread meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence

from kraft.common.errors import ApiError, StorageError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.control_record import marker_of
from kraft.protocol.records.record_batch import (
    CONTROL_FLAG,
    HEADER_SIZE,
    Buffer,
    CorruptBatch,
    RecordBatch,
    batches,
    with_offset_and_epoch,
)
from kraft.storage.log_append import AppendedBatch, LogAppendInfo, PendingAppend
from kraft.storage.log_segment import RELATIVE_OFFSET_MAX, LogSegment
from kraft.storage.log_state import LogState
from kraft.storage.log_validator import AppendOrigin, single_batch, validate_for_leader
from kraft.storage.retention import must_roll
from kraft.storage.storage_failure import storage_failure
from kraft.storage.transaction_index import AbortedTransaction


class LogAppender(LogState):
    """The part of a log that grows."""

    __slots__ = ()

    def append_as_leader(
        self,
        records: Buffer,
        leader_epoch: int,
        *,
        now_ms: int,
        origin: int = AppendOrigin.CLIENT,
        transaction_version: int = 0,
    ) -> LogAppendInfo:
        """Validate one batch, give it offsets and `leader_epoch`, write it.

        Raises ApiError with Kafka's code (KAFKA_STORAGE_ERROR on a full disk, nothing changed), StorageError.
        """
        return self._write_now(
            self.prepare_append_as_leader(
                records, leader_epoch, now_ms=now_ms, origin=origin, transaction_version=transaction_version
            )
        )

    def append_as_follower(
        self, records: Buffer, *, now_ms: int, leader_epoch: int | None = None
    ) -> LogAppendInfo | None:
        """Write batches as the leader numbered them; a cut-off tail and batches of epochs beyond `leader_epoch` are
        left out. None when nothing is left."""
        pending = self.prepare_append_as_follower(records, now_ms=now_ms, leader_epoch=leader_epoch)
        return None if pending is None else self._write_now(pending)

    def prepare_append_as_leader(
        self,
        records: Buffer,
        leader_epoch: int,
        *,
        now_ms: int,
        origin: int = AppendOrigin.CLIENT,
        transaction_version: int = 0,
    ) -> PendingAppend:
        """First step of `append_as_leader`; `finish_append` or `abort_append` must follow, unless the answer is a
        duplicate."""
        assert self._pending is None, "one append at a time"
        source = single_batch(records)
        batch = validate_for_leader(source, self.config, origin, now_ms)
        size = batch.size
        if size > self.config.segment_bytes:
            raise ApiError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"the batch has {size} bytes, segment.bytes is {self.config.segment_bytes}",
            )
        first_offset = self.log_end_offset
        marker = marker_of(batch) if batch.attributes & CONTROL_FLAG and batch.producer_id >= 0 else None
        if batch.producer_id >= 0:
            if marker is not None:
                self.producers.check_marker(batch, marker, origin, transaction_version)
            elif (known := self.producers.check(batch, first_offset, origin)) is not None:
                when = known.timestamp
                return PendingAppend(
                    LogAppendInfo(
                        known.first_offset, known.last_offset, when, when, self.log_start_offset, duplicate=True
                    )
                )
        last_offset = first_offset + batch.last_offset_delta
        rolled = self._make_room(size, last_offset, batch.max_timestamp, now_ms)
        log_append_time_ms = now_ms if self.config.log_append_time else -1
        info = LogAppendInfo(
            first_offset, last_offset, batch.max_timestamp, log_append_time_ms, self.log_start_offset, rolled=rolled
        )
        view = batch.view
        buffers = (with_offset_and_epoch(view, first_offset, leader_epoch), view[HEADER_SIZE:])
        return self._pend(info, buffers, (AppendedBatch(batch, first_offset, last_offset, leader_epoch, marker),))

    def prepare_append_as_follower(
        self, records: Buffer, *, now_ms: int, leader_epoch: int | None = None
    ) -> PendingAppend | None:
        """First step of `append_as_follower`."""
        assert self._pending is None, "one append at a time"
        appended: list[AppendedBatch] = []
        end, next_offset, max_timestamp = 0, self.log_end_offset, -1
        for batch in batches(records, partial_tail=True):
            if leader_epoch is not None and batch.partition_leader_epoch > leader_epoch:
                break
            if appended and batch.last_offset - appended[0].first_offset > RELATIVE_OFFSET_MAX:
                # A compacted leader's segments may be that far apart: the rest is for the next fetch, and another
                # segment.
                break
            self._check_replicated(batch, next_offset)
            marker = marker_of(batch) if batch.is_control and batch.producer_id >= 0 else None
            appended.append(
                AppendedBatch(batch, batch.base_offset, batch.last_offset, batch.partition_leader_epoch, marker)
            )
            end, next_offset, max_timestamp = (
                batch.position + batch.size,
                batch.next_offset,
                max(max_timestamp, batch.max_timestamp),
            )
        if not appended:
            return None
        rolled = self._make_room(
            end, appended[-1].last_offset, max_timestamp, now_ms, first_offset=appended[0].first_offset
        )
        info = LogAppendInfo(
            appended[0].first_offset, appended[-1].last_offset, max_timestamp, -1, self.log_start_offset, rolled=rolled
        )
        return self._pend(info, (memoryview(records)[:end],), appended)

    def _check_replicated(self, batch: RecordBatch, next_offset: int) -> None:
        try:
            batch.verify_crc()
        except CorruptBatch as problem:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(problem)) from problem
        if batch.last_offset_delta < 0:
            raise ApiError(
                ErrorCode.CORRUPT_MESSAGE,
                f"replicated batch at {batch.base_offset} of {self.topic_partition} ends before it begins",
            )
        if batch.base_offset < next_offset:
            raise ApiError(
                ErrorCode.INVALID_RECORD,
                f"replicated offset {batch.base_offset} where {self.topic_partition} expects {next_offset} or more",
            )

    def _pend(
        self, info: LogAppendInfo, buffers: tuple[Buffer, ...], appended: Sequence[AppendedBatch]
    ) -> PendingAppend:
        segment = self.active_segment
        try:
            segment.make_ready(sum(map(len, buffers)), self.config.index_interval_bytes)
            pending = PendingAppend(info, segment, segment.make_log(), buffers, appended)
        except OSError as problem:
            raise storage_failure(problem, str(self.topic_partition)) from problem
        self._pending = pending
        return pending

    def _write_now(self, pending: PendingAppend) -> LogAppendInfo:
        if pending.opened is None:
            return pending.info
        try:
            pending.write()
        except OSError as problem:
            self.abort_append(pending)
            raise storage_failure(problem, str(self.topic_partition)) from problem
        except BaseException:
            self.abort_append(pending)
            raise
        return self.finish_append(pending)

    def abort_append(self, pending: PendingAppend) -> None:
        """The write failed and was undone, or was never begun."""
        assert self._pending is pending
        self._pending = None

    def finish_append(self, pending: PendingAppend) -> LogAppendInfo:
        """The bytes are in the file: they are part of the log now. Raises StorageError where that cannot be noted:
        nothing fits together any more then."""
        assert self._pending is pending
        self._pending = None
        try:
            return self._take_in(pending)
        except (OSError, StorageError) as problem:
            raise StorageError(f"{self.directory}: what was appended could not be noted: {problem}") from problem

    def _take_in(self, pending: PendingAppend) -> LogAppendInfo:
        assert pending.segment is not None
        segment, interval = pending.segment, self.config.index_interval_bytes
        for appended in pending.batches:
            batch = appended.batch
            segment.appended(batch.size, appended.last_offset, batch.max_timestamp, interval)
            if appended.leader_epoch > self.leader_epoch_cache.latest_epoch:
                self.leader_epoch_cache.assign(appended.leader_epoch, appended.first_offset)
            if batch.producer_id >= 0:
                self._update_producers(appended, segment)
        self.log_end_offset = pending.info.last_offset + 1
        self._index_synced_at = -1
        if self._producers is not None:
            self._producers.map_end_offset = self.log_end_offset
        return pending.info

    def _update_producers(self, appended: AppendedBatch, segment: LogSegment) -> None:
        batch = appended.batch
        if appended.marker is None:
            if not batch.is_control:
                self.producers.apply(batch, appended.first_offset, appended.last_offset, batch.max_timestamp)
            return
        completed = self.producers.apply_marker(batch, appended.marker, appended.first_offset, batch.max_timestamp)
        if completed is not None and completed.aborted:
            last_stable_offset = self.producers.last_stable_offset_after(completed)
            segment.transaction_index.append(
                AbortedTransaction(
                    completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset
                )
            )

    def _make_room(
        self, size: int, last_offset: int, max_timestamp: int, now_ms: int, first_offset: int | None = None
    ) -> bool:
        """The directory exists and the active segment takes `size` more bytes; whether a segment was closed for
        that."""
        local = self.local
        try:
            if not local.files_exist:
                local.make_files()
            if not must_roll(local.segments[-1], self.config, size, last_offset, max_timestamp, now_ms):
                return False
            # After a gap (of a compacted leader's log) the segment begins at the log's end all the same: a start cannot
            # tell the gap from a lost segment.
            is_near = last_offset - self.log_end_offset <= RELATIVE_OFFSET_MAX
            self.roll(now_ms, base_offset=None if is_near else first_offset)
        except OSError as problem:
            raise storage_failure(problem, str(self.topic_partition)) from problem
        return True

    def roll(self, now_ms: int, *, base_offset: int | None = None) -> None:
        """Close the active segment and begin another, with a producer snapshot between them. Raises OSError, nothing
        changed."""
        assert self._pending is None, "a roll in the middle of an append"
        if self.active_segment.size:
            self.producers.take_snapshot()
        self.local.roll(self.log_end_offset if base_offset is None else base_offset, now_ms)
