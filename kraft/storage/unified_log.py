"""The log of one partition: ordered batches, the offsets that bound what may be read, and the state that follows
from them (leader epochs, producers).

Collaborators: `local_log` has files and segments, `log_validator` decides what may be appended, `log_append` holds
an append between its steps, `flush_state` knows what is durable, `producer_state_manager` knows the producers,
`log_loader` brings a log back from its directory.

What lies between the start of a tiered log and its first segment is in the remote tier (`tiered_log`).

Invariant: log_start_offset <= high_watermark <= log_end_offset, and recovery_point <= log_end_offset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kraft.common.errors import ApiError, StorageError
from kraft.common.ids import OffsetAndEpoch, TopicPartition, Uuid
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.control_record import marker_of
from kraft.protocol.records.record_batch import CONTROL_FLAG, HEADER_SIZE, Buffer, with_offset_and_epoch
from kraft.storage.file_cache import FileCache
from kraft.storage.flush_state import NOT_CLOSED, FlushJob, FlushState
from kraft.storage.indexes.transaction_index import AbortedTransaction
from kraft.storage.leader_epoch_cache import LeaderEpochCache
from kraft.storage.local_log import LocalLog
from kraft.storage.log_append import AppendedBatch, LogAppendInfo, PendingAppend, check_continues, replicated_batches
from kraft.storage.log_config import LogConfig
from kraft.storage.log_reader import EMPTY, FetchData
from kraft.storage.log_segment import RELATIVE_OFFSET_MAX, LogSegment
from kraft.storage.log_validator import AppendOrigin, ValidatedBatch, batch_for_leader
from kraft.storage.producers.producer_rebuild import rebuild_producers, take_into_producers
from kraft.storage.producers.producer_state_manager import PRODUCER_ID_EXPIRATION_MS, ProducerStateManager
from kraft.storage.producers.verification import Verification
from kraft.storage.recovery.damaged_log import DamageReport, settle_damage
from kraft.storage.recovery.log_loader import LoadedLog, LoadReport, LogLoader
from kraft.storage.retention import (
    NOTHING_DELETED,
    DeletedSegments,
    deletable_segments,
    is_old_enough_to_roll,
    must_roll,
    open_bounds,
)
from kraft.storage.storage_failure import storage_failure, upkeep_failure
from kraft.world.ports import FileSystem
from kraft.world.steps import Steps, at_once


class UnifiedLog:
    """The log of one partition. `log_end_offset`, `high_watermark`, `last_stable_offset` and `recovery_point` are
    exclusive bounds. One task uses a log; the jobs it prepares may run in threads.

    Between the first and the last step of an append nothing else may append, truncate, roll or close (asserted).
    """

    __slots__ = (
        "_pending",
        "_producers",
        "config",
        "damage",
        "flush_state",
        "high_watermark",
        "leader_epoch_cache",
        "load_report",
        "local",
        "log_end_offset",
        "log_start_offset",
        "moved_high_watermarks",
        "producer_expiration_ms",
        "topic_partition",
        "truncations",
    )

    def __init__(
        self,
        cache: FileCache,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        *,
        topic_id: Uuid | None,
        now_ms: int,
        producer_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
    ) -> None:
        """Create an empty log without files. Use `open` for one that may have files."""
        self.topic_partition = topic_partition
        self.config = config
        self.local = LocalLog(cache, directory, topic_partition, topic_id, now_ms)
        self.flush_state = FlushState(self.local, now_ms)
        self.log_start_offset = 0
        self.high_watermark = 0
        self.moved_high_watermarks: dict[TopicPartition, None] = {}
        """The directory's list of logs whose high watermark moved."""
        self.log_end_offset = 0
        self.load_report: LoadReport | None = None
        self.damage: DamageReport | None = None
        """Records lost to damaged files, until the loss is resolved. Until then the replica must not lead."""
        self.leader_epoch_cache = LeaderEpochCache()
        self._producers: ProducerStateManager | None = None
        self.producer_expiration_ms = producer_expiration_ms
        self._pending: PendingAppend | None = None
        self.truncations = 0
        """How often the log was truncated in this run. A cleaning or flush that began before a truncation is void."""

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
        sync_directory: Callable[[str], None] | None = None,
        doubts_transaction_indexes: bool = False,
    ) -> Steps[UnifiedLog]:
        """Load the log in `directory`, recovered unless `clean_shutdown`. A missing directory is an empty log, and is
        not created. `doubts_transaction_indexes` is as for `LogLoader`.

        Raises StorageError, OSError.
        """
        cache = FileCache(files) if cache is None else cache
        log = cls(cache, directory, topic_partition, config, topic_id=topic_id, now_ms=now_ms)
        log.producer_expiration_ms = producer_expiration_ms
        if files.exists(directory):
            loader = LogLoader(
                cache,
                directory,
                config,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                clean_shutdown=clean_shutdown,
                now_ms=now_ms,
                producer_expiration_ms=producer_expiration_ms,
                sync_directory=sync_directory,
                doubts_transaction_indexes=doubts_transaction_indexes,
            )
            loaded = yield from loader.load()
            log._adopt(loaded)
            on_disk = log.local.read_topic_id(loaded.report.events)
            log.local.topic_id = on_disk or topic_id
            log.local.files_exist = on_disk is not None or topic_id is None
        return log

    def _adopt(self, loaded: LoadedLog) -> None:
        assert loaded.log_start_offset <= loaded.log_end_offset
        self.local.segments = loaded.segments
        self.log_start_offset = self.high_watermark = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.leader_epoch_cache = loaded.epochs
        self.flush_state.loaded(
            loaded.recovery_point,
            loaded.log_end_offset,
            clean=loaded.clean,
            epochs_version=loaded.epochs.version,
            epochs_on_disk=loaded.epochs_on_disk,
        )
        self.load_report = loaded.report
        self.damage = loaded.damage
        if loaded.producers.producers or loaded.producers.snapshots:
            self._producers = loaded.producers

    # What the log is

    @property
    def directory(self) -> str:
        return self.local.directory

    @property
    def topic_id(self) -> Uuid | None:
        return self.local.topic_id

    def settle_damage(self, state: str) -> None:
        """Settle the damage: records fetched again (FETCHED), or loss accepted (ACCEPTED). Raises OSError."""
        if self.damage is not None:
            settle_damage(self.local.cache.files, self.directory, self.damage, state)
            self.damage = None

    def assign_topic_id(self, topic_id: Uuid) -> None:
        """Assign an id to a log that lost its partition.metadata. Allowed only if the log has no records, or an
        operator has confirmed that they belong to this topic. Raises OSError."""
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
        """Bytes of records on the disk."""
        return sum([segment.size for segment in self.local.segments])

    @property
    def local_log_start_offset(self) -> int:
        """The first offset that can be read from the disk."""
        return max(self.log_start_offset, self.local.segments[0].base_offset)

    @property
    def recovery_point(self) -> int:
        """The offset below which everything is durable."""
        return self.flush_state.recovery_point

    @property
    def producers(self) -> ProducerStateManager:
        """The producer state, created for the first idempotent producer."""
        if self._producers is None:
            self._producers = ProducerStateManager(
                self.local.cache.files, self.local.directory, expiration_ms=self.producer_expiration_ms
            )
            self._producers.map_end_offset = self.log_end_offset
        return self._producers

    @property
    def has_producers(self) -> bool:
        return self._producers is not None and bool(self._producers.producers)

    @property
    def first_unstable_offset(self) -> int | None:
        """The start of the oldest undecided transaction; None if there is none."""
        return None if self._producers is None else self._producers.first_unstable_offset

    @property
    def last_stable_offset(self) -> int:
        """The exclusive bound of what a read_committed consumer may read."""
        unstable = self.first_unstable_offset
        return (
            self.high_watermark if unstable is None else min(max(unstable, self.log_start_offset), self.high_watermark)
        )

    @property
    def is_appending(self) -> bool:
        """Whether an append is between its first and its last step."""
        return self._pending is not None

    # Append

    def append_as_leader(
        self,
        records: Buffer,
        leader_epoch: int,
        *,
        now_ms: int,
        origin: int = AppendOrigin.CLIENT,
        transaction_version: int = 0,
        verification: Verification | None = None,
    ) -> LogAppendInfo:
        """Validate one batch, assign offsets and `leader_epoch`, write it. A transactional batch needs a
        `verification`.

        Raises ApiError with Kafka's code (KAFKA_STORAGE_ERROR on a full disk, nothing changed), StorageError.
        """
        return self._write(
            self.decide_as_leader(records, leader_epoch, now_ms, origin, transaction_version, verification)
        )

    def append_as_follower(
        self, records: Buffer, *, now_ms: int, leader_epoch: int | None = None
    ) -> LogAppendInfo | None:
        """Write batches with the leader's offsets; None if there are none to write. `replicated_batches` says which
        batches are left out, and what is raised."""
        pending = self.decide_as_follower(records, now_ms, leader_epoch)
        return None if pending is None else self._write(pending)

    def decide_as_leader(
        self,
        records: Buffer,
        leader_epoch: int,
        now_ms: int,
        origin: int = AppendOrigin.CLIENT,
        transaction_version: int = 0,
        verification: Verification | None = None,
        validated: ValidatedBatch | None = None,
    ) -> PendingAppend:
        """First step of `append_as_leader`: decide what is written, and where. To write in a thread, call
        `begin_append` next. `validated`: see `batch_for_leader`."""
        assert self._pending is None, "one append at a time"
        batch = batch_for_leader(records, self.config, origin, now_ms, validated)
        size = batch.size
        if size > self.config.segment_bytes:
            raise ApiError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{self.topic_partition}: a batch of {size} bytes exceeds segment.bytes ({self.config.segment_bytes})",
            )
        first_offset = self.log_end_offset
        marker = marker_of(batch) if batch.attributes & CONTROL_FLAG and batch.producer_id >= 0 else None
        if batch.producer_id >= 0:
            if marker is not None:
                producers = self.producers
                is_known = producers.check_marker(batch, marker, origin, transaction_version)
                producers.end_verification(batch, transaction_version)
                if is_known:
                    return PendingAppend(self._already_appended(first_offset - 1, first_offset - 1, now_ms))
            elif (known := self.producers.check(batch, first_offset, origin, verification)) is not None:
                return PendingAppend(self._already_appended(known.first_offset, known.last_offset, known.timestamp))
        last_offset = first_offset + batch.last_offset_delta
        rolled = self._make_room(size, last_offset, batch.max_timestamp, now_ms)
        log_append_time_ms = now_ms if self.config.log_append_time else -1
        info = LogAppendInfo(
            first_offset, last_offset, batch.max_timestamp, log_append_time_ms, self.log_start_offset, rolled=rolled
        )
        view = batch.view
        buffers = (with_offset_and_epoch(view, first_offset, leader_epoch), view[HEADER_SIZE:])
        return self._ready(info, buffers, (AppendedBatch(batch, first_offset, last_offset, leader_epoch, marker),))

    def _already_appended(self, first_offset: int, last_offset: int, when_ms: int) -> LogAppendInfo:
        """The result for a duplicate batch at or before `last_offset`."""
        return LogAppendInfo(first_offset, last_offset, when_ms, when_ms, self.log_start_offset, duplicate=True)

    def decide_as_follower(self, records: Buffer, now_ms: int, leader_epoch: int | None) -> PendingAppend | None:
        """First step of `append_as_follower`, like `decide_as_leader`."""
        assert self._pending is None, "one append at a time"
        appended = replicated_batches(records, self.topic_partition, self.log_end_offset, leader_epoch)
        if not appended:
            return None
        first_offset, last_offset = appended[0].first_offset, appended[-1].last_offset
        end = appended[-1].batch.position + appended[-1].batch.size
        max_timestamp = max(-1, *(each.batch.max_timestamp for each in appended))
        rolled = self._make_room(end, last_offset, max_timestamp, now_ms, first_offset=first_offset)
        info = LogAppendInfo(first_offset, last_offset, max_timestamp, -1, self.log_start_offset, rolled=rolled)
        return self._ready(info, (memoryview(records)[:end],), appended)

    def _ready(
        self, info: LogAppendInfo, buffers: tuple[Buffer, ...], appended: Sequence[AppendedBatch]
    ) -> PendingAppend:
        """Do everything that can fail before the write itself. Raises ApiError, StorageError."""
        check_continues(appended[0], self.log_end_offset, self.leader_epoch_cache.latest_epoch)
        segment = self.local.segments[-1]
        try:
            opened = segment.make_ready(sum(map(len, buffers)), self.config.index_interval_bytes)
        except OSError as problem:
            raise storage_failure(problem, str(self.topic_partition)) from problem
        return PendingAppend(info, segment, opened, buffers, appended)

    def _write(self, pending: PendingAppend) -> LogAppendInfo:
        if pending.opened is None:
            return pending.info
        try:
            pending.write()
        except OSError as problem:
            raise storage_failure(problem, str(self.topic_partition)) from problem
        return self._take_in(pending)

    def begin_append(self, pending: PendingAppend) -> None:
        """Reserve the log for an append that a thread writes. `finish_append` or `abort_append` must follow."""
        self._pending = pending

    def abort_append(self, pending: PendingAppend) -> None:
        """End an append whose write failed and was undone, or never started."""
        assert self._pending is pending
        self._pending = None

    def finish_append(self, pending: PendingAppend) -> LogAppendInfo:
        """Last step of an append that a thread has written: make its batches part of the log."""
        assert self._pending is pending
        self._pending = None
        return self._take_in(pending)

    def _take_in(self, pending: PendingAppend) -> LogAppendInfo:
        """Make the written bytes part of the log. Raises StorageError if an index cannot be written: files and memory
        then disagree."""
        assert pending.segment is not None
        assert pending.info.last_offset >= pending.info.first_offset >= self.log_end_offset
        segment, interval = pending.segment, self.config.index_interval_bytes
        try:
            for appended in pending.batches:
                batch = appended.batch
                segment.appended(batch.size, appended.first_offset, appended.last_offset, batch.max_timestamp, interval)
                if appended.leader_epoch > self.leader_epoch_cache.latest_epoch:
                    self.leader_epoch_cache.assign(appended.leader_epoch, appended.first_offset)
                if batch.producer_id >= 0:
                    take_into_producers(
                        self.producers, batch, appended.marker, appended.first_offset, appended.last_offset, segment
                    )
        except (OSError, StorageError) as problem:
            raise StorageError(f"{self.directory}: the append could not be recorded: {problem}") from problem
        self.log_end_offset = pending.info.last_offset + 1
        self.flush_state.closed_at = NOT_CLOSED
        if self._producers is not None:
            self._producers.map_end_offset = self.log_end_offset
        return pending.info

    def _make_room(
        self, size: int, last_offset: int, max_timestamp: int, now_ms: int, first_offset: int | None = None
    ) -> bool:
        """Create the directory if it is missing, and roll if the active segment cannot hold `size` more bytes. Returns
        whether it rolled."""
        local, config = self.local, self.config
        segment = local.segments[-1]
        if segment.bounds is not None and segment.bounds.takes(config, segment.size + size, last_offset, max_timestamp):
            return False
        try:
            if not local.files_exist:
                local.make_files()
            if not must_roll(segment, config, size, last_offset, max_timestamp, now_ms):
                segment.bounds = open_bounds(segment, config)
                return False
            # After a gap (of a compacted leader's log) the segment begins at the log's end all the same: a start cannot
            # tell the gap from a lost segment.
            is_near = last_offset - self.log_end_offset <= RELATIVE_OFFSET_MAX
            self.roll(now_ms, base_offset=None if is_near else first_offset)
        except OSError as problem:
            raise storage_failure(problem, str(self.topic_partition)) from problem
        return True

    # Read

    def read(
        self, offset: int, max_bytes: int, *, max_offset: int | None = None, min_one_message: bool = False
    ) -> FetchData:
        """Return slices from the batch that contains `offset`, below `max_offset` (a high watermark or LSO; by default
        the log end). With `min_one_message` at least one whole batch.

        Raises ApiError OFFSET_OUT_OF_RANGE, OFFSET_MOVED_TO_TIERED_STORAGE, StorageError.
        """
        end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= end_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is not within [{self.log_start_offset}, {end_offset}] of {self.topic_partition}",
            )
        bound = end_offset if max_offset is None else min(max_offset, end_offset)
        if offset >= bound:
            return EMPTY
        if offset < self.local.segments[0].base_offset:
            raise ApiError(ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE, f"{self.topic_partition}: {offset} is remote only")
        try:
            return self.local.read(offset, max_bytes, bound, end_offset, min_one_message)
        except OSError as problem:
            raise upkeep_failure(problem, str(self.topic_partition)) from problem

    def aborted_transactions(self, offset: int, bound: int, data: FetchData | None = None) -> list[AbortedTransaction]:
        """The aborted transactions to return with a read_committed Fetch of [offset, bound). If `data` ends before
        `bound`, only those that may overlap `data`. Raises StorageError."""
        try:
            return self.local.aborted_transactions(offset, bound, data)
        except OSError as problem:
            raise upkeep_failure(problem, str(self.topic_partition)) from problem

    # Offsets and epochs

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, bounded by the log; returns the new value. It may fall only on a follower, to the
        leader's value."""
        bounded = min(max(offset, self.log_start_offset), self.log_end_offset)
        if bounded != self.high_watermark:
            self._move_high_watermark(bounded)
        if self._producers is not None:
            self._producers.high_watermark_updated(self.high_watermark)
        return self.high_watermark

    def _move_high_watermark(self, offset: int) -> None:
        if offset != self.high_watermark:
            self.high_watermark = offset
            self.moved_high_watermarks[self.topic_partition] = None

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch not beyond `epoch` and its end offset; (-1, -1) if unknown (KIP-101)."""
        return self.leader_epoch_cache.end_offset_for(epoch, self.log_end_offset)

    def assign_epoch(self, epoch: int, start_offset: int | None = None) -> None:
        """Record that `epoch` starts at `start_offset`, by default the log end."""
        self.leader_epoch_cache.assign(epoch, self.log_end_offset if start_offset is None else start_offset)

    def maybe_expire_producers(self, now_ms: int) -> None:
        if self._producers is not None:
            self._producers.expiration_ms = self.producer_expiration_ms
            self._producers.expire(now_ms)

    def delete_records_before(self, offset: int) -> int:
        """Advance the log start offset (DeleteRecords) and return it. Retention deletes segments later. Raises ApiError
        OFFSET_OUT_OF_RANGE beyond the high watermark."""
        if offset > self.high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition}: cannot delete up to {offset}, the high watermark is {self.high_watermark}",
            )
        self._advance_log_start(offset)
        return self.log_start_offset

    def follow_log_start(self, leader_log_start_offset: int) -> None:
        """Advance a follower's log start offset to the leader's, bounded by its own high watermark."""
        self._advance_log_start(min(leader_log_start_offset, self.high_watermark))

    def _advance_log_start(self, offset: int) -> None:
        if offset <= self.log_start_offset:
            return
        assert offset <= self.log_end_offset
        self.log_start_offset = offset
        self.local.retention_due.setdefault(self.topic_partition, False)
        self.flush_state.closed_at = NOT_CLOSED
        self._move_high_watermark(max(self.high_watermark, offset))
        self.leader_epoch_cache.truncate_from_start(offset)
        if self._producers is not None:
            self._producers.log_start_incremented(offset)

    # Roll, retain, truncate

    def roll(self, now_ms: int, *, base_offset: int | None = None) -> None:
        """Close the active segment and open a new one, with a producer snapshot between them. Raises OSError with
        nothing changed."""
        assert self._pending is None, "a roll in the middle of an append"
        if self.active_segment.size:
            self.producers.take_snapshot()
        self.flush_state.closed_at = NOT_CLOSED
        self.local.roll(self.log_end_offset if base_offset is None else base_offset, now_ms)
        assert self.active_segment.base_offset >= self.log_end_offset

    def roll_if_old(self, now_ms: int) -> bool:
        """Roll a segment older than segment.ms even without an append, so that compaction and retention can process its
        records."""
        active = self.active_segment
        if self._pending is not None or not active.size or not is_old_enough_to_roll(active, self.config, -1, now_ms):
            return False
        self.roll(now_ms)
        return True

    def delete_old_segments(self, now_ms: int, *, log_start_only: bool = False) -> DeletedSegments:
        """Take segments out of the log by time, size or log start; `log_start_only`: by the log start alone. The caller
        removes their files after file.delete.delay.ms. Raises OSError."""
        if self._pending is not None:
            return NOTHING_DELETED
        count, reason = deletable_segments(
            self.segments,
            self.config,
            high_watermark=self.high_watermark,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            now_ms=now_ms,
            log_start_only=log_start_only,
        )
        if not count:
            return NOTHING_DELETED
        if count == len(self.segments):
            self.roll(now_ms)
        try:
            paths = self.local.delete_first(count)
        finally:  # Of some that are to go the files may have been renamed before it failed.
            self._advance_log_start(self.segments[0].base_offset)
        if self._producers is not None:
            self._producers.remove_snapshots_before(self.segments[0].base_offset)
        return DeletedSegments(paths, count, reason)

    def truncate_to(self, offset: int, now_ms: int) -> bool:
        """Drop all records from `offset` on; False if there are none. `truncation.truncate_to` first lowers the
        checkpoints. Raises OSError."""
        assert self._pending is None, "a truncation in the middle of an append"
        if offset >= self.log_end_offset:
            return False
        if offset < self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset, now_ms)
            return True
        self.truncations += 1
        self.flush_state.closed_at = NOT_CLOSED
        self.local.truncate_to(offset)
        self.leader_epoch_cache.truncate_from_end(offset)
        self.log_end_offset = offset
        self._move_high_watermark(min(self.high_watermark, offset))
        self.flush_state.truncated_to(offset)
        self.log_start_offset = min(self.log_start_offset, offset)
        if self._producers is not None:
            at_once(rebuild_producers(self._producers, self.segments, self.log_start_offset, offset, now_ms, _ignore))
            self._producers.high_watermark_updated(self.high_watermark)
        self.flush_state.write_epochs(self.leader_epoch_cache)
        assert self.log_start_offset <= self.high_watermark <= self.log_end_offset == offset
        return True

    def truncate_fully_and_start_at(self, offset: int, now_ms: int, log_start_offset: int | None = None) -> None:
        """Drop everything; the log is then empty and starts and ends at `offset`. Raises OSError."""
        assert self._pending is None, "a truncation in the middle of an append"
        self.truncations += 1
        self.flush_state.closed_at = NOT_CLOSED
        self.local.start_afresh(offset, now_ms)
        self.leader_epoch_cache.clear()
        if self._producers is not None:
            self._producers.reset(offset)
        self.log_end_offset = offset
        self.log_start_offset = offset if log_start_offset is None else log_start_offset
        self._move_high_watermark(self.log_start_offset)
        self.flush_state.truncated_to(offset)
        self.flush_state.write_epochs(self.leader_epoch_cache)

    # Flush and close

    def flush_is_due(self, now_ms: int) -> bool:
        """Whether flush.messages or flush.ms demands a flush, or a closed segment waits for one."""
        return self.flush_state.is_due(self.log_end_offset, self.config, now_ms)

    def flush(self, up_to: int | None = None, *, now_ms: int | None = None) -> None:
        """Make everything below `up_to` (by default the log end) durable; blocks. Never retried after StorageError."""
        job = self.prepare_flush(up_to)
        if job is not None:
            job.run()
            self.finish_flush(job, now_ms)

    def prepare_flush(self, up_to: int | None = None) -> FlushJob | None:
        """First step of `flush`; None when everything is durable already. Raises StorageError."""
        bound = self.log_end_offset if up_to is None else min(up_to, self.log_end_offset)
        return self.flush_state.prepare(bound, self.leader_epoch_cache, self.truncations)

    def finish_flush(self, job: FlushJob, now_ms: int | None = None) -> None:
        """Last step of `flush`: `job` has run."""
        self.flush_state.finish(job, self.truncations, now_ms, self.log_end_offset)

    def prepare_close(self) -> FlushJob | None:
        """First step of `close`: writes indexes and producer state. None when there is nothing to sync. Raises
        OSError, StorageError."""
        assert self._pending is None, "a close in the middle of an append"
        if not self.local.files_exist or self.flush_state.closed_at == self.log_end_offset:
            return None
        self.active_segment.make_log()
        is_small = self.flush_state.is_small
        if not is_small:
            self.active_segment.close_for_appends()
        if not is_small or self._producers is not None:
            self.producers.take_snapshot(durable=True, even_if_empty=not is_small)
        return self.flush_state.prepare(self.log_end_offset, self.leader_epoch_cache, self.truncations, closing=True)

    def finish_close(self, job: FlushJob | None) -> None:
        """Last step of `close`, after `job` has run: the log counts as cleanly shut down. Closes the files."""
        if job is not None:
            self.finish_flush(job)
        self.flush_state.closed(job, self.log_end_offset)
        self.local.forget_files()

    def close(self) -> None:
        """Make everything durable and close the files; blocks. Raises OSError, StorageError."""
        job = self.prepare_close()
        if job is not None:
            job.run()
        self.finish_close(job)


def _ignore(_: str) -> None:
    """Ignore an unreadable snapshot: it is removed, and the log itself has the same information."""
