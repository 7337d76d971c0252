"""The log of one partition: ordered batches, the offsets that bound what may be read, and the state that follows from them.

Invariant: log_start_offset <= high_watermark <= log_end_offset, and recovery_point <= log_end_offset. One task owns a log; between prepare and finish of an
append nothing else may append, truncate or roll (asserted). Files and segments are `local_log`'s business; here are validation, producers, epochs and bounds.
"""

from __future__ import annotations

from collections.abc import Sequence

from kraft.common.errors import ApiError, CorruptData, StorageError
from kraft.common.ids import OffsetAndEpoch, TopicPartition, Uuid
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.control_record import marker_of
from kraft.protocol.records.record_batch import HEADER_SIZE, Buffer, CorruptBatch, RecordBatch, batches, with_offset_and_epoch
from kraft.storage.checkpoints import read_partition_metadata, replace_file
from kraft.storage.file_cache import FileCache
from kraft.storage.leader_epoch_cache import LeaderEpochCache
from kraft.storage.local_log import LocalLog
from kraft.storage.log_append import AppendedBatch, LogAppendInfo, PendingAppend
from kraft.storage.log_config import LogConfig
from kraft.storage.log_files import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA
from kraft.storage.log_flush import FlushJob
from kraft.storage.log_loader import LoadedLog, LoadReport, LogLoader, rebuild_producers
from kraft.storage.log_reader import EMPTY, FetchData
from kraft.storage.log_segment import LogSegment
from kraft.storage.log_validator import AppendOrigin, single_batch, validate_for_leader
from kraft.storage.producer_state_manager import PRODUCER_ID_EXPIRATION_MS, ProducerStateManager
from kraft.storage.retention import deletable_segments, is_old_enough_to_roll, must_roll
from kraft.storage.storage_failure import storage_failure
from kraft.storage.transaction_index import AbortedTransaction
from kraft.world.ports import FileSystem


class DeletedSegments:
    """Segments taken out of a log. `paths` are their files, to be removed after file.delete.delay.ms."""

    __slots__ = ("count", "paths", "reason")

    def __init__(self, paths: Sequence[str], count: int, reason: str) -> None:
        self.paths = paths
        self.count = count
        self.reason = reason


NEVER_WRITTEN = 0
UNKNOWN_VERSION = -1

NOTHING_DELETED = DeletedSegments((), 0, "")


class UnifiedLog:
    """See the module. Offsets are ints; `log_end_offset`, `high_watermark`, `last_stable_offset` and `recovery_point` are exclusive bounds."""

    __slots__ = (
        "_epochs_written", "_index_synced_at", "_pending", "_producer_expiration_ms", "_producers", "config", "high_watermark", "last_flush_ms",
        "leader_epoch_cache", "load_report", "local", "log_end_offset", "log_start_offset", "recovery_point", "topic_partition", "truncations",
    )  # fmt: skip

    def __init__(self, cache: FileCache, directory: str, topic_partition: TopicPartition, config: LogConfig, *, topic_id: Uuid | None, now_ms: int) -> None:
        """A log without files. `open` is the way to one that may have some."""
        self.topic_partition = topic_partition
        self.config = config
        self.local = LocalLog(cache, directory, topic_partition, topic_id, now_ms)
        self.log_start_offset = 0
        self.high_watermark = 0
        self.log_end_offset = 0
        self.recovery_point = 0
        self.last_flush_ms = now_ms
        self.load_report: LoadReport | None = None
        self.leader_epoch_cache = LeaderEpochCache()
        self._producers: ProducerStateManager | None = None
        self._producer_expiration_ms = PRODUCER_ID_EXPIRATION_MS
        self._pending: PendingAppend | None = None
        self._epochs_written = NEVER_WRITTEN
        self._index_synced_at = -1
        self.truncations = 0
        """How often the log was truncated in this run: a cleaning that began before gives up."""

    @classmethod
    def open(
        cls,
        files: FileSystem,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        *,
        now_ms: int,
        cache: FileCache | None = None,
        topic_id: Uuid | None = None,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        clean_shutdown: bool = False,
        producer_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
    ) -> UnifiedLog:
        """The log in `directory`, recovered where `clean_shutdown` is False; an empty one, without touching the disk, where there is no directory.

        Raises StorageError, OSError.
        """
        cache = FileCache(files) if cache is None else cache
        log = cls(cache, directory, topic_partition, config, topic_id=topic_id, now_ms=now_ms)
        log._producer_expiration_ms = producer_expiration_ms
        if files.exists(directory):
            loader = LogLoader(
                cache, directory, config, recovery_point=recovery_point, log_start_offset=log_start_offset, clean_shutdown=clean_shutdown, now_ms=now_ms,
                producer_expiration_ms=producer_expiration_ms,
            )  # fmt: skip
            log._adopt(loader.load())
            on_disk = log._read_topic_id()
            log.local.topic_id = on_disk or topic_id
            log.local.files_exist = on_disk is not None or topic_id is None
        return log

    def _read_topic_id(self) -> Uuid | None:
        """The id in partition.metadata; None where a power loss left the file unfinished (it is durable only from the first flush on)."""
        try:
            return read_partition_metadata(self.local.cache.files, self.local.path(PARTITION_METADATA))
        except CorruptData as problem:
            if self.load_report is not None:
                self.load_report.events.append(str(problem))
            return None

    def _adopt(self, loaded: LoadedLog) -> None:
        self.local.segments = loaded.segments
        self.log_start_offset = self.high_watermark = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.recovery_point = loaded.recovery_point
        self.leader_epoch_cache = loaded.epochs
        self._epochs_written = (loaded.epochs.version if loaded.clean else UNKNOWN_VERSION) if loaded.epochs_on_disk else NEVER_WRITTEN
        self._index_synced_at = loaded.log_end_offset if loaded.clean else -1
        self.local.unsynced_names = not loaded.clean
        self.load_report = loaded.report
        if loaded.producers.producers or loaded.producers.snapshots:
            self._producers = loaded.producers

    # What the log is

    @property
    def directory(self) -> str:
        return self.local.directory

    @property
    def topic_id(self) -> Uuid | None:
        return self.local.topic_id

    def assign_topic_id(self, topic_id: Uuid) -> None:
        """Give an id to a log whose partition.metadata was lost. A log keeps the id it has. Raises OSError."""
        if self.local.topic_id is None:
            self.local.topic_id = topic_id
            if self.local.files_exist:
                self.local.make_files()

    @property
    def segments(self) -> list[LogSegment]:
        return self.local.segments

    @property
    def active_segment(self) -> LogSegment:
        return self.local.segments[-1]

    @property
    def size(self) -> int:
        """Bytes of records."""
        return sum(segment.size for segment in self.local.segments)

    @property
    def producers(self) -> ProducerStateManager:
        """Made when the first idempotent producer comes."""
        if self._producers is None:
            self._producers = ProducerStateManager(self.local.cache.files, self.local.directory, expiration_ms=self._producer_expiration_ms)
            self._producers.map_end_offset = self.log_end_offset
        return self._producers

    @property
    def has_producers(self) -> bool:
        return self._producers is not None and bool(self._producers.producers)

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the oldest undecided transaction begins."""
        return None if self._producers is None else self._producers.first_unstable_offset

    @property
    def last_stable_offset(self) -> int:
        """What read_committed may read up to."""
        unstable = self.first_unstable_offset
        return self.high_watermark if unstable is None else min(max(unstable, self.log_start_offset), self.high_watermark)

    @property
    def latest_epoch(self) -> int:
        return self.leader_epoch_cache.latest_epoch

    # Appends

    def append_as_leader(
        self, records: Buffer, leader_epoch: int, *, now_ms: int, origin: int = AppendOrigin.CLIENT, transaction_version: int = 0
    ) -> LogAppendInfo:
        """Validate one batch, give it offsets and `leader_epoch`, write it.

        Raises ApiError with Kafka's code (KAFKA_STORAGE_ERROR on a full disk, nothing changed), StorageError.
        """
        return self._write_now(self.prepare_append_as_leader(records, leader_epoch, now_ms=now_ms, origin=origin, transaction_version=transaction_version))

    def append_as_follower(self, records: Buffer, *, now_ms: int, leader_epoch: int | None = None) -> LogAppendInfo | None:
        """Write batches as the leader numbered them; a cut-off tail and batches of epochs beyond `leader_epoch` are left out. None when nothing is left."""
        pending = self.prepare_append_as_follower(records, now_ms=now_ms, leader_epoch=leader_epoch)
        return None if pending is None else self._write_now(pending)

    def prepare_append_as_leader(
        self, records: Buffer, leader_epoch: int, *, now_ms: int, origin: int = AppendOrigin.CLIENT, transaction_version: int = 0
    ) -> PendingAppend:
        """First step of `append_as_leader`; `finish_append` or `abort_append` must follow, unless the answer is a duplicate."""
        assert self._pending is None, "one append at a time"
        source = single_batch(records)
        batch = validate_for_leader(source, self.config, origin, now_ms)
        size = batch.size
        if size > self.config.segment_bytes:
            raise ApiError(ErrorCode.RECORD_LIST_TOO_LARGE, f"the batch has {size} bytes, segment.bytes is {self.config.segment_bytes}")
        first_offset = self.log_end_offset
        marker = marker_of(batch) if batch.attributes & 0x20 and batch.producer_id >= 0 else None
        if batch.producer_id >= 0:
            if marker is not None:
                self.producers.check_marker(batch, marker, origin, transaction_version)
            elif (known := self.producers.check(batch, first_offset, origin)) is not None:
                return PendingAppend(LogAppendInfo(known.first_offset, known.last_offset, known.timestamp, -1, self.log_start_offset, duplicate=True))
        last_offset = first_offset + batch.last_offset_delta
        rolled = self._make_room(size, last_offset, batch.max_timestamp, now_ms)
        log_append_time_ms = now_ms if self.config.log_append_time else -1
        info = LogAppendInfo(first_offset, last_offset, batch.max_timestamp, log_append_time_ms, self.log_start_offset, rolled=rolled)
        view = batch.view
        buffers = (with_offset_and_epoch(view, first_offset, leader_epoch), view[HEADER_SIZE:])
        return self._pend(info, buffers, (AppendedBatch(batch, first_offset, last_offset, leader_epoch, marker),))

    def prepare_append_as_follower(self, records: Buffer, *, now_ms: int, leader_epoch: int | None = None) -> PendingAppend | None:
        """First step of `append_as_follower`."""
        assert self._pending is None, "one append at a time"
        appended: list[AppendedBatch] = []
        end, next_offset, max_timestamp = 0, self.log_end_offset, -1
        for batch in batches(records, partial_tail=True):
            if leader_epoch is not None and batch.partition_leader_epoch > leader_epoch:
                break
            self._check_replicated(batch, next_offset)
            marker = marker_of(batch) if batch.is_control and batch.producer_id >= 0 else None
            appended.append(AppendedBatch(batch, batch.base_offset, batch.last_offset, batch.partition_leader_epoch, marker))
            end, next_offset, max_timestamp = batch.position + batch.size, batch.next_offset, max(max_timestamp, batch.max_timestamp)
        if not appended:
            return None
        rolled = self._make_room(end, appended[-1].last_offset, max_timestamp, now_ms, first_offset=appended[0].first_offset)
        info = LogAppendInfo(appended[0].first_offset, appended[-1].last_offset, max_timestamp, -1, self.log_start_offset, rolled=rolled)
        return self._pend(info, (memoryview(records)[:end],), appended)

    def _check_replicated(self, batch: RecordBatch, next_offset: int) -> None:
        try:
            batch.verify_crc()
        except CorruptBatch as problem:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(problem)) from problem
        if batch.base_offset < next_offset:
            raise ApiError(ErrorCode.INVALID_RECORD, f"replicated offset {batch.base_offset} where {self.topic_partition} expects {next_offset} or more")

    def _pend(self, info: LogAppendInfo, buffers: tuple[Buffer, ...], appended: Sequence[AppendedBatch]) -> PendingAppend:
        segment = self.active_segment
        try:
            pending = PendingAppend(info, segment, segment.open_log(), buffers, appended)
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
        """The bytes are in the file: they are part of the log now."""
        assert self._pending is pending
        assert pending.segment is not None
        self._pending = None
        segment, interval = pending.segment, self.config.index_interval_bytes
        if not segment.size:
            self.local.unsynced_names = True  # The file was made by this append.
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
            segment.transaction_index.append(AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset))

    def _make_room(self, size: int, last_offset: int, max_timestamp: int, now_ms: int, first_offset: int | None = None) -> bool:
        """The directory exists and the active segment takes `size` more bytes; whether a segment was closed for that."""
        local = self.local
        try:
            if not local.files_exist:
                local.make_files()
            if not must_roll(local.segments[-1], self.config, size, last_offset, max_timestamp, now_ms):
                return False
            self.roll(now_ms, base_offset=first_offset)
        except OSError as problem:
            raise storage_failure(problem, str(self.topic_partition)) from problem
        return True

    # Segments come and go

    def roll(self, now_ms: int, *, base_offset: int | None = None) -> None:
        """Close the active segment and begin another, with a producer snapshot between them. Raises OSError, nothing changed."""
        assert self._pending is None, "a roll in the middle of an append"
        if self.active_segment.size:
            self.producers.take_snapshot()
        self.local.roll(self.log_end_offset if base_offset is None else base_offset, now_ms)

    def roll_if_old(self, now_ms: int) -> bool:
        """Roll a segment that is past segment.ms although nothing is appended, so that compaction and retention can reach its records."""
        active = self.active_segment
        if self._pending is not None or not active.size or not is_old_enough_to_roll(active, self.config, -1, now_ms):
            return False
        self.roll(now_ms)
        return True

    def delete_old_segments(self, now_ms: int) -> DeletedSegments:
        """Take what retention allows out of the log, by time, size or log start. Files to remove after file.delete.delay.ms, and why. Raises OSError."""
        if self._pending is not None:
            return NOTHING_DELETED
        count, reason = deletable_segments(
            self.segments,
            self.config,
            high_watermark=self.high_watermark,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            now_ms=now_ms,
        )
        if not count:
            return NOTHING_DELETED
        if count == len(self.segments):
            self.roll(now_ms)
        paths = self.local.delete_first(count)
        self._advance_log_start(self.segments[0].base_offset)
        if self._producers is not None:
            for offset in [offset for offset in self._producers.snapshots if offset < self.segments[0].base_offset]:
                self._producers.remove_snapshot(offset)
        return DeletedSegments(paths, count, reason)

    def delete_records_before(self, offset: int) -> int:
        """Advance the log start (DeleteRecords); the new log start.

        Segments go at the next retention. Raises ApiError OFFSET_OUT_OF_RANGE beyond the high watermark.
        """
        if offset > self.high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{self.topic_partition}: cannot delete up to {offset}, the high watermark is {self.high_watermark}")
        self._advance_log_start(offset)
        return self.log_start_offset

    def follow_log_start(self, leader_log_start_offset: int) -> None:
        """A follower's log starts where the leader's does, as far as it has got."""
        self._advance_log_start(min(leader_log_start_offset, self.high_watermark))

    def _advance_log_start(self, offset: int) -> None:
        if offset <= self.log_start_offset:
            return
        self.log_start_offset = offset
        self._index_synced_at = -1
        self.high_watermark = max(self.high_watermark, offset)
        self.leader_epoch_cache.truncate_from_start(offset)
        if self._producers is not None:
            self._producers.log_start_incremented(offset)

    def lower_recovery_point(self, offset: int) -> None:
        """Before a truncation to `offset`, and checkpointed before it begins: what a crash leaves of it is then read with care."""
        self.recovery_point = min(self.recovery_point, offset)

    def truncate_to(self, offset: int, now_ms: int) -> bool:
        """Drop everything from `offset` on; False when there is nothing there. `LogManager.truncate_to` sees to the recovery point first. Raises OSError."""
        assert self._pending is None, "a truncation in the middle of an append"
        if offset >= self.log_end_offset:
            return False
        if offset < self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset, now_ms)
            return True
        self.truncations += 1
        self._index_synced_at = -1
        self.local.truncate_to(offset)
        self.leader_epoch_cache.truncate_from_end(offset)
        self._ends_at(offset)
        self.log_start_offset = min(self.log_start_offset, offset)
        if self._producers is not None:
            rebuild_producers(self._producers, self.segments, self.log_start_offset, offset, now_ms, _ignore)
        self._write_epochs()
        return True

    def truncate_fully_and_start_at(self, offset: int, now_ms: int, log_start_offset: int | None = None) -> None:
        """Drop everything; the log is empty and starts (and ends) at `offset`. Raises OSError."""
        assert self._pending is None, "a truncation in the middle of an append"
        self.truncations += 1
        self._index_synced_at = -1
        self.local.start_afresh(offset, now_ms)
        self.leader_epoch_cache.clear()
        if self._producers is not None:
            self._producers.reset(offset)
        self.log_end_offset = offset
        self.log_start_offset = self.high_watermark = offset if log_start_offset is None else log_start_offset
        self.recovery_point = min(self.recovery_point, offset)
        self._write_epochs()

    def _ends_at(self, offset: int) -> None:
        self.log_end_offset = offset
        self.high_watermark = min(self.high_watermark, offset)
        self.recovery_point = min(self.recovery_point, offset)

    # Bounds and look-ups

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, within the log; the value it has now. It may move back only to what a leader tells a follower."""
        self.high_watermark = min(max(offset, self.log_start_offset), self.log_end_offset)
        if self._producers is not None:
            self._producers.high_watermark_updated(self.high_watermark)
        return self.high_watermark

    def read(self, offset: int, max_bytes: int, *, max_offset: int | None = None, min_one_message: bool = False) -> FetchData:
        """Slices from the batch that contains `offset`, below `max_offset` (a high watermark or LSO; the log's end without). At least one whole batch with
        `min_one_message`.

        Raises ApiError OFFSET_OUT_OF_RANGE, StorageError.
        """
        end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= end_offset:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is not within [{self.log_start_offset}, {end_offset}] of {self.topic_partition}")
        bound = end_offset if max_offset is None else min(max_offset, end_offset)
        if offset >= bound:
            return EMPTY
        try:
            return self.local.read(offset, max_bytes, bound, end_offset, min_one_message)
        except OSError as problem:
            raise StorageError(f"{self.topic_partition}: {problem}") from problem

    def find_offset_by_timestamp(self, timestamp: int) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first record not earlier than `timestamp`; None when there is none. Decodes one batch."""
        return self.local.find_timestamp(timestamp, self.log_start_offset)

    def find_max_timestamp(self) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first record with the largest timestamp; None when no record has one."""
        return self.local.find_max_timestamp(self.log_start_offset)

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """Where the largest epoch not beyond `epoch` ends; (-1, -1) when unknown (KIP-101)."""
        return self.leader_epoch_cache.end_offset_for(epoch, self.log_end_offset)

    def aborted_transactions(self, offset: int, bound: int) -> list[AbortedTransaction]:
        """Those that a read_committed Fetch of [offset, bound) must be told."""
        return [] if self._producers is None else self.local.aborted_transactions(offset, bound)

    def assign_epoch(self, epoch: int, start_offset: int | None = None) -> None:
        """This replica leads `epoch` from its log end on, or learns where the leader's began."""
        self.leader_epoch_cache.assign(epoch, self.log_end_offset if start_offset is None else start_offset)

    def maybe_expire_producers(self, now_ms: int) -> None:
        if self._producers is not None:
            self._producers.expire(now_ms)

    # Durability

    @property
    def unflushed_messages(self) -> int:
        return self.log_end_offset - self.recovery_point

    def flush_is_due(self, now_ms: int) -> bool:
        """By flush.messages or flush.ms."""
        unflushed = self.log_end_offset - self.recovery_point
        return unflushed >= self.config.flush_messages or (unflushed > 0 and now_ms - self.last_flush_ms >= self.config.flush_ms)

    def flush(self, up_to: int | None = None, *, now_ms: int | None = None) -> None:
        """Make everything below `up_to` (the log's end without) durable; blocks. Raises StorageError, never to be tried again."""
        job = self.prepare_flush(up_to)
        if job is not None:
            job.run()
            self.finish_flush(job, now_ms)

    def prepare_flush(self, up_to: int | None = None, *, closing: bool = False) -> FlushJob | None:
        """First step of `flush`; None when it is durable already. Raises StorageError."""
        up_to = self.log_end_offset if up_to is None else min(up_to, self.log_end_offset)
        local, epochs = self.local, self.leader_epoch_cache
        writes_epochs = epochs.version != self._epochs_written and not (closing and self._is_small)
        if not local.files_exist or (up_to <= self.recovery_point and not (closing or local.unsynced_names or writes_epochs)):
            return None
        directories = [local.directory] if local.unsynced_names else []
        if local.unsynced_directory:
            directories.append(local.directory.rpartition("/")[0])
        try:
            opened = local.files_to_sync(self.recovery_point, up_to, closing=closing and not self._is_small)
        except OSError as problem:
            raise StorageError(f"flush of {self.directory}: {problem}") from problem
        local.unsynced_names = local.unsynced_directory = False
        content = epochs.to_text().encode() if writes_epochs else None
        return FlushJob(local.cache.files, up_to, opened, local.path(LEADER_EPOCH_CHECKPOINT), content, epochs.version, directories)

    @property
    def _is_small(self) -> bool:
        """One segment with nothing in its indexes: what indexes and epochs say is read back from a handful of headers faster than it is made durable."""
        return len(self.segments) == 1 and self.active_segment.indexes_say_nothing and self._epochs_written == NEVER_WRITTEN

    def finish_flush(self, job: FlushJob, now_ms: int | None = None) -> None:
        """`job` has run: the recovery point moves, as far as the log was not truncated meanwhile."""
        self.recovery_point = max(self.recovery_point, min(job.up_to, self.log_end_offset))
        if job.epochs is not None:
            self._epochs_written = job.epochs_version
        if now_ms is not None:
            self.last_flush_ms = now_ms

    def _write_epochs(self) -> None:
        if self.local.files_exist:
            replace_file(self.local.cache.files, self.local.path(LEADER_EPOCH_CHECKPOINT), self.leader_epoch_cache.to_text().encode())
            self._epochs_written = self.leader_epoch_cache.version

    def prepare_close(self) -> FlushJob | None:
        """First step of `close`: indexes and producer state are written; None when there is nothing to sync. Raises OSError, StorageError."""
        assert self._pending is None, "a close in the middle of an append"
        if not self.local.files_exist or self._index_synced_at == self.log_end_offset:
            return None
        self.active_segment.open_log()
        if not self._is_small:
            self.active_segment.close_for_appends()
        if self._producers is not None:
            self._producers.take_snapshot(durable=True, even_if_empty=False)
        return self.prepare_flush(closing=True)

    def finish_close(self, job: FlushJob | None) -> None:
        """`job` has run: the log may be loaded as cleanly shut down. Lets go of the files."""
        if job is not None:
            self.finish_flush(job)
        self._index_synced_at = self.log_end_offset
        self.local.forget_files()

    def close(self) -> None:
        """Put everything on disk, durably, and let go of the files; blocks. Raises OSError, StorageError."""
        job = self.prepare_close()
        if job is not None:
            job.run()
        self.finish_close(job)


def _ignore(_: str) -> None:
    """An unreadable snapshot is skipped and removed; the log itself has what it said."""
