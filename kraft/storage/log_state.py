"""What a partition's log is at any moment: its bounds, its epochs and producers, and what can be looked up in it.
Nothing here writes.

Invariant: log_start_offset <= high_watermark <= log_end_offset, and recovery_point <= log_end_offset. `log_appender`
adds appends, `unified_log` the rest.
"""

from __future__ import annotations

from kraft.common.errors import ApiError
from kraft.common.ids import OffsetAndEpoch, TopicPartition, Uuid
from kraft.protocol.error_codes import ErrorCode
from kraft.storage.file_cache import FileCache
from kraft.storage.leader_epoch_cache import LeaderEpochCache
from kraft.storage.loaded_log import LoadReport
from kraft.storage.local_log import LocalLog
from kraft.storage.log_append import PendingAppend
from kraft.storage.log_config import LogConfig
from kraft.storage.log_reader import EMPTY, FetchData
from kraft.storage.log_segment import LogSegment
from kraft.storage.producer_state_manager import PRODUCER_ID_EXPIRATION_MS, ProducerStateManager
from kraft.storage.storage_failure import upkeep_failure
from kraft.storage.transaction_index import AbortedTransaction

NEVER_WRITTEN = 0
UNKNOWN_VERSION = -1


class LogState:
    """Offsets are ints; `log_end_offset`, `high_watermark`, `last_stable_offset` and `recovery_point` are exclusive
    bounds."""

    __slots__ = (
        "_epochs_under_way",
        "_epochs_written",
        "_index_synced_at",
        "_pending",
        "_producer_expiration_ms",
        "_producers",
        "config",
        "high_watermark",
        "last_flush_ms",
        "leader_epoch_cache",
        "load_report",
        "local",
        "log_end_offset",
        "log_start_offset",
        "recovery_point",
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
    ) -> None:
        """A log without files. `UnifiedLog.open` is the way to one that may have some."""
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
        self._epochs_under_way = 0
        """Flushes that write the epochs as they were when the flush began."""
        self._index_synced_at = -1
        self.truncations = 0
        """How often the log was truncated in this run: a cleaning that began before gives up."""

    @property
    def directory(self) -> str:
        return self.local.directory

    @property
    def topic_id(self) -> Uuid | None:
        return self.local.topic_id

    def assign_topic_id(self, topic_id: Uuid) -> None:
        """Give an id to a log whose partition.metadata was lost, and which has no records: nobody knows whose they
        would be. Raises OSError."""
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
            self._producers = ProducerStateManager(
                self.local.cache.files, self.local.directory, expiration_ms=self._producer_expiration_ms
            )
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
        return (
            self.high_watermark if unstable is None else min(max(unstable, self.log_start_offset), self.high_watermark)
        )

    @property
    def is_appending(self) -> bool:
        """Whether an append is between its first and last step: nothing else may append, truncate, roll or close
        until it is over."""
        return self._pending is not None

    @property
    def latest_epoch(self) -> int:
        return self.leader_epoch_cache.latest_epoch

    # Bounds and look-ups

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, within the log; the value it has now. It may move back only to what a leader tells
        a follower."""
        self.high_watermark = min(max(offset, self.log_start_offset), self.log_end_offset)
        if self._producers is not None:
            self._producers.high_watermark_updated(self.high_watermark)
        return self.high_watermark

    def read(
        self, offset: int, max_bytes: int, *, max_offset: int | None = None, min_one_message: bool = False
    ) -> FetchData:
        """Slices from the batch that contains `offset`, below `max_offset` (a high watermark or LSO; the log's end
        without). At least one whole batch with `min_one_message`.

        Raises ApiError OFFSET_OUT_OF_RANGE, StorageError.
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
        try:
            return self.local.read(offset, max_bytes, bound, end_offset, min_one_message)
        except OSError as problem:
            raise upkeep_failure(problem, str(self.topic_partition)) from problem

    def find_offset_by_timestamp(self, timestamp: int) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first record not earlier than `timestamp`; None when there is
        none. Decodes one batch."""
        return self.local.find_timestamp(timestamp, self.log_start_offset)

    def find_max_timestamp(self) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first record with the largest timestamp; None when no record has
        one."""
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
