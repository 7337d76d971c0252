"""Loads a partition's log from its directory after a shutdown, a crash or a power loss.

1. Files of interrupted work are removed or completed. `.deleted` and `.cleaned` files are removed. A `.swap` segment is
   a complete replacement: the segments that it covers are removed, and it takes their names. There is one exception: a
   `.cleaned` file of the same or a lower offset means that the swap was not decided yet, unless one of the covered
   segments is already `.deleted`.
2. Indexes without a log are removed. A segment below the recovery point with a missing or impossible index is read and
   indexed again.
3. After an unclean shutdown every segment from the recovery point on is read, batch by batch with its CRC. At the first
   bad byte the segment is truncated and all later segments are dropped. It is damage if no crash explains it: whole
   batches follow the bad bytes, or the bad bytes were flushed. Then a copy of the dropped bytes is kept
   (`damaged_log`). Producer state, aborted transactions and leader epochs are rebuilt from the batches that are read.
4. After a clean shutdown producer state is loaded from the newest readable snapshot and the headers of the batches
   after it. Without a snapshot the headers of all batches are read. A small log without producer ids has no snapshot.
5. A transaction index that is missing, or that an earlier release may have left incomplete, is completed from the
   headers of all batches (`transaction_rebuild`). So no aborted record counts as committed because its index is
   missing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from kraft.common.errors import CorruptData
from kraft.protocol.records.record_batch import RecordBatch
from kraft.storage.batch_walk import walk_headers
from kraft.storage.checkpoints import read_text
from kraft.storage.file_cache import FileCache
from kraft.storage.leader_epoch_cache import LeaderEpochCache, parse_leader_epochs
from kraft.storage.log_config import LogConfig
from kraft.storage.log_files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    PRODUCER_SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    parse_segment_file,
)
from kraft.storage.log_segment import LogSegment
from kraft.storage.producers.producer_rebuild import HEADERS_PER_STEP, rebuild_producers, replay_batch
from kraft.storage.producers.producer_state_manager import ProducerStateManager
from kraft.storage.recovery.damaged_log import DAMAGED_FOLDER, DamageReport, read_damage, set_damaged_aside
from kraft.storage.recovery.decided_swaps import decided_swaps
from kraft.storage.recovery.segment_recovery import BadBatch, recover_segment
from kraft.storage.recovery.transaction_rebuild import complete_transaction_indexes
from kraft.storage.storage_failure import suppress_passing
from kraft.world.steps import Steps

TEMPORARY_SUFFIX = ".tmp"


@dataclass(slots=True)
class LoadReport:
    """The findings and changes of loading a log. `events` has one sentence each for the node's log. `bytes_cut` counts
    dropped bytes. `was_flushed`: the checkpoint's recovery point shows that the log was flushed before."""

    events: list[str] = field(default_factory=list)
    bytes_cut: int = 0
    segments_recovered: int = 0
    transactions_added: int = 0
    was_flushed: bool = False


@dataclass(slots=True, kw_only=True)
class LoadedLog:
    """A log's state after loading."""

    segments: list[LogSegment]
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    epochs: LeaderEpochCache
    producers: ProducerStateManager
    report: LoadReport
    clean: bool
    epochs_on_disk: bool
    damage: DamageReport | None
    """Records lost to damage, until the loss is resolved."""


class LogLoader:
    """Loads one partition directory. Used once.

    `sync_directory` is called with a directory whose names must be durable before the log is written. Without it,
    `load` yields a job that syncs the directory. `doubts_transaction_indexes`: existing transaction indexes may lack
    entries.
    """

    def __init__(
        self,
        cache: FileCache,
        directory: str,
        config: LogConfig,
        *,
        recovery_point: int,
        log_start_offset: int,
        clean_shutdown: bool,
        now_ms: int,
        producer_expiration_ms: int,
        sync_directory: Callable[[str], None] | None = None,
        doubts_transaction_indexes: bool = False,
    ) -> None:
        self._sync_directory = sync_directory
        self._doubts_transaction_indexes = doubts_transaction_indexes
        self._sync_names = partial(cache.files.sync_directory, directory)
        self._cache = cache
        self._files = cache.files
        self._directory = directory
        self._config = config
        self._recovery_point = recovery_point
        self._log_start_offset = log_start_offset
        self._clean = clean_shutdown
        self._now_ms = now_ms
        self._report = LoadReport(was_flushed=recovery_point > 0)
        self._segments: list[LogSegment] = []
        self._names: set[str] = set()
        self._damage: DamageReport | None = None
        self._had_no_producers = False
        """Whether all headers were read and none has a producer id."""
        self._epochs = LeaderEpochCache()
        self._producers = ProducerStateManager(self._files, directory, expiration_ms=producer_expiration_ms)

    def load(self) -> Steps[LoadedLog]:
        """Load the log in steps. Raises OSError or StorageError if the log directory is unusable."""
        yield from self._finish_swaps()
        if self._files.exists(self._path(DAMAGED_FOLDER)):
            self._damage = read_damage(self._files, self._directory)
        yield from self._open_segments()
        self._epochs = self._load_epochs()
        end_offset = self._clean_end() if self._clean else None
        if end_offset is None:
            self._clean = False
            end_offset = yield from self._recover()
        if not self._segments or end_offset < self._log_start_offset:
            end_offset = yield from self._start_afresh(end_offset)
        start_offset = self._log_start_offset
        if not self._config.remote_storage_enable:  # Else what lies before the first segment is in the remote tier.
            start_offset = max(start_offset, self._segments[0].base_offset)
        yield from self._complete_transaction_indexes()
        yield from self._complete_epochs()
        self._epochs.truncate_from_end(end_offset)
        self._epochs.truncate_from_start(start_offset)
        if self._clean or self._producers.map_end_offset != end_offset:
            yield from self._load_producers(start_offset, end_offset)
        return LoadedLog(
            segments=self._segments,
            log_start_offset=start_offset,
            log_end_offset=end_offset,
            recovery_point=end_offset if self._clean else min(self._durable_offset(), end_offset),
            epochs=self._epochs,
            producers=self._producers,
            report=self._report,
            clean=self._clean,
            epochs_on_disk=self._files.exists(self._path(LEADER_EPOCH_CHECKPOINT)),
            damage=self._damage if self._damage is not None and self._damage.is_waiting else None,
        )

    def _clean_end(self) -> int | None:
        """The end offset after a clean shutdown; None if the last segment contradicts the clean-shutdown mark."""
        if not self._segments:
            return self._log_start_offset
        active = self._segments[-1]
        size = active.size
        if self._lacks_indexes(active):
            end_offset, has_producers = active.index_by_headers(self._config.index_interval_bytes)
            end_position, active.size = active.size, size
            self._had_no_producers = not has_producers and len(self._segments) == 1
        else:
            end_offset, end_position = active.end()
        if end_position == size:
            return end_offset
        self._report.events.append(
            "the shutdown was marked clean, yet the last segment does not end with a whole batch"
        )
        return None

    def _lacks_indexes(self, segment: LogSegment) -> bool:
        """Whether a segment has no index files. A clean close does not write empty indexes. Earlier releases then left
        out the transaction index too, empty or not."""
        return not any(
            f"{segment.base_offset:020d}{suffix}" in self._names
            for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
        )

    def _durable_offset(self) -> int:
        """The offset below which the log is known to be durable. Segments that had to be read may not be, so the next
        flush syncs them completely."""
        return max(
            (segment.base_offset for segment in self._segments if segment.base_offset <= self._recovery_point),
            default=0,
        )

    # Files

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def _remove(self, name: str, why: str) -> None:
        self._report.events.append(f"removed {name}: {why}")
        self._cache.forget(self._path(name))
        self._files.remove(self._path(name))

    def _parsed(self) -> list[tuple[str, int, str, str]]:
        """(name, offset, kind, suffix) of every file of the log."""
        return [
            (name, *parsed)
            for name in self._files.list_directory(self._directory)
            if (parsed := parse_segment_file(name)) is not None
        ]

    def _finish_swaps(self) -> Steps[None]:
        for name in self._files.list_directory(self._directory):
            if name.endswith(TEMPORARY_SUFFIX):
                self._remove(name, "half written")
        files = self._parsed()
        cleaned = min((offset for _, offset, _, suffix in files if suffix == CLEANED_SUFFIX), default=None)
        if cleaned is not None:
            decided = decided_swaps(files, self._end_of_swap)
            for name, offset, _, suffix in files:
                if suffix == CLEANED_SUFFIX:
                    self._remove(name, "left over")
                elif suffix == SWAP_SUFFIX and offset >= cleaned and offset not in decided:
                    self._remove(name, "its cleaning had not finished")
            yield self._sync_names  # What tells that a swap was decided goes after what casts doubt on it.
        for name, _, _, suffix in files:
            if suffix == DELETED_SUFFIX:
                self._remove(name, "left over")
        yield from self._replace_covered()

    def _replace_covered(self) -> Steps[None]:
        files = self._parsed()
        swaps = [offset for _, offset, kind, suffix in files if suffix == SWAP_SUFFIX and kind == LOG_SUFFIX]
        if swaps:
            start, end = min(swaps), max(map(self._end_of_swap, swaps))
            for name, offset, kind, suffix in files:
                if not suffix and kind != PRODUCER_SNAPSHOT_SUFFIX and start <= offset < end:
                    self._remove(name, "replaced by a cleaned segment")
            yield self._sync_names  # What is covered must not come back beside its replacement.
        for name, offset, kind, suffix in files:
            if suffix == SWAP_SUFFIX:
                if offset in swaps:
                    self._cache.forget(self._path(name))
                    self._files.rename(self._path(name), self._path(name.removesuffix(SWAP_SUFFIX)))
                else:
                    self._remove(name, f"a {kind} without its log")

    def _end_of_swap(self, base_offset: int) -> int:
        return self._open_segment(base_offset, SWAP_SUFFIX).next_offset()

    def _open_segment(self, base_offset: int, suffix: str = "") -> LogSegment:
        segment = LogSegment(
            self._cache, self._directory, base_offset, size=0, created_ms=self._now_ms, fresh=False, suffix=suffix
        )
        segment.size = self._files.status(segment.path(LOG_SUFFIX)).size
        return segment

    def _open_segments(self) -> Steps[None]:
        files = self._parsed()
        self._names = {name for name, _, _, _ in files}
        logs = {offset for _, offset, kind, _ in files if kind == LOG_SUFFIX}
        snapshots = []
        for name, offset, kind, _ in files:
            if kind == LOG_SUFFIX:
                self._segments.append(self._open_segment(offset))
            elif kind == PRODUCER_SNAPSHOT_SUFFIX:
                snapshots.append(offset)
            elif offset not in logs:
                self._remove(name, "an index without its log")
        self._producers.snapshots = snapshots
        for index, segment in enumerate(self._segments):
            will_be_recovered = not self._clean and self._end_of(index) > self._recovery_point
            will_be_walked = self._clean and index + 1 == len(self._segments) and self._lacks_indexes(segment)
            if not will_be_recovered and not will_be_walked:
                segment.transaction_index_is_whole = segment.has_transaction_index_file
                yield from self._check_indexes(segment)

    def _end_of(self, index: int) -> int:
        """An exclusive upper bound of the offsets in segment `index`."""
        return self._segments[index + 1].base_offset if index + 1 < len(self._segments) else 1 << 63

    def _check_indexes(self, segment: LogSegment) -> Steps[None]:
        try:
            segment.check_indexes()
        except CorruptData as problem:
            self._report.events.append(f"rebuilt the index of segment {segment.base_offset}: {problem}")
            yield from self._recover_segment(segment, with_state=False)

    def _complete_transaction_indexes(self) -> Steps[None]:
        doubted = {
            segment.base_offset
            for segment in self._segments
            if self._doubts_transaction_indexes or not segment.transaction_index_is_whole
        }
        if not doubted:
            return
        added = yield from complete_transaction_indexes(self._segments, doubted, self._report.events.append)
        if added:
            self._report.transactions_added = added
            self._report.events.append(
                f"read back {added} aborted transactions that the transaction indexes lacked; read_committed consumers "
                "leave out their records again"
            )

    def _load_epochs(self) -> LeaderEpochCache:
        path = self._path(LEADER_EPOCH_CHECKPOINT)
        try:
            return parse_leader_epochs(path, read_text(self._files, path) or "")
        except CorruptData as problem:
            self._report.events.append(f"leader epochs are rebuilt from the log: {problem}")
            return LeaderEpochCache()

    def _complete_epochs(self) -> Steps[None]:
        """Complete the leader epochs from the batches. The checkpoint may be missing (a clean close of a small log does
        not write it) or start later than the log."""
        known = self._epochs.earliest
        first = next(
            (
                batch
                for segment in self._segments
                for _, batch in walk_headers(segment.open_log().file, 0, segment.size)
            ),
            None,
        )
        if first is None or first.partition_leader_epoch < 0 or (known is not None and known[1] <= first.base_offset):
            return
        complete = LeaderEpochCache()
        for segment in self._segments:
            if known is not None and segment.base_offset >= known[1]:
                break
            opened = segment.open_log()
            for count, (_, batch) in enumerate(walk_headers(opened.file, 0, segment.size)):
                if known is not None and batch.base_offset >= known[1]:
                    # From here on the checkpoint knows better: compaction may have left out what an epoch began with.
                    break
                if batch.partition_leader_epoch > complete.latest_epoch:
                    complete.assign(batch.partition_leader_epoch, batch.base_offset)
                if count % HEADERS_PER_STEP == HEADERS_PER_STEP - 1:
                    yield None
        for epoch, start_offset in self._epochs.entries:
            if epoch > complete.latest_epoch:
                complete.assign(epoch, start_offset)
        self._epochs = complete

    # Recovery

    def _recover(self) -> Steps[int]:
        """Read the segments that may be torn. Returns the end offset of the valid part."""
        first = next(
            (index for index in range(len(self._segments)) if self._end_of(index) > self._recovery_point),
            len(self._segments),
        )
        if first == len(self._segments):
            return self._log_start_offset
        yield from self._load_producers(self._segments[0].base_offset, self._segments[first].base_offset)
        self._epochs.truncate_from_end(self._segments[first].base_offset)  # The segments below contain their epochs.
        for index in range(first, len(self._segments)):
            if self._does_not_follow(index):
                yield from self._drop_from(index)
                break
            if (yield from self._recover_segment(self._segments[index], with_state=True)):
                yield from self._drop_from(index + 1)
                break
        end_offset = self._segments[-1].next_offset()
        self._producers.map_end_offset = end_offset
        # What an interrupted truncation removed must not come back among new segments.
        if self._sync_directory is None:
            yield self._sync_names
        else:
            self._sync_directory(self._directory)
        return end_offset

    def _does_not_follow(self, index: int) -> bool:
        """Whether this segment does not continue the previous one: a segment between them was lost, or the previous one
        overlaps it. After a power loss any subset of file names may survive.

        Below the recovery point gaps are legal: cleaning leaves them.
        """
        if index == 0:
            return False
        base_offset, end_offset = self._segments[index].base_offset, self._segments[index - 1].next_offset()
        return base_offset < end_offset or base_offset > max(end_offset, self._recovery_point)

    def _recover_segment(self, segment: LogSegment, *, with_state: bool) -> Steps[bool]:
        """Read one segment. Returns whether it had to be truncated."""
        before = segment.open_log().file.size()

        def replay(batch: RecordBatch) -> None:
            if batch.partition_leader_epoch > self._epochs.latest_epoch:
                self._epochs.assign(batch.partition_leader_epoch, batch.base_offset)
            replay_batch(self._producers, batch, segment)

        index = self._segments.index(segment)
        later = self._segments[index + 1 :]
        bad = yield from recover_segment(
            segment,
            self._config.index_interval_bytes,
            replay if with_state else lambda _: None,
            next((each.base_offset for each in later if each.size), None),
            self._recovery_point if with_state or not later else later[0].base_offset,
        )
        self._report.segments_recovered += 1
        segment.transaction_index_is_whole = with_state
        if segment is not self._segments[-1] or not with_state:
            segment.close_for_appends()
            if not with_state:  # Below the recovery point no flush comes by again.
                for opened in segment.files_to_sync(with_indexes=True):
                    yield opened.file.sync
        if bad is None:
            return False
        truncated = before - segment.size
        if bad.known_end_offset is not None:
            yield from self._set_damaged_aside(segment, later, bad, truncated)
            return True
        self._report.bytes_cut += truncated
        self._report.events.append(
            f"cut {truncated} bytes of segment {segment.base_offset} at position {segment.size}: {bad.reason}"
        )
        return True

    def _set_damaged_aside(
        self, segment: LogSegment, later: list[LogSegment], bad: BadBatch, truncated: int
    ) -> Steps[None]:
        """Keep the bytes behind the damage and report them as missing. An earlier report stays valid."""
        known_end = max([bad.known_end_offset or 0, *(each.next_offset() for each in later)])
        epochs = (
            batch.partition_leader_epoch
            for each in later
            for _, batch in walk_headers(each.open_log().file, 0, each.size)
        )
        known_epoch = max(bad.known_epoch, *epochs, self._epochs.latest_epoch)
        kept = truncated + sum(each.size for each in later)
        self._damage = DamageReport(
            since_ms=self._now_ms,
            start_offset=segment.next_offset(),
            known_end_offset=known_end,
            known_epoch=known_epoch,
            kept_bytes=kept,
            reason=f"segment {segment.base_offset}, position {segment.size}: {bad.reason}",
        ).after(self._damage)
        yield from set_damaged_aside(self._cache, self._directory, segment, later, self._damage)
        del self._segments[self._segments.index(segment) + 1 :]
        self._report.events.append(
            f"damaged at position {segment.size} of segment {segment.base_offset}: {bad.reason}. Whole batches follow, "
            f"up to offset {known_end}. {kept} bytes are kept in {DAMAGED_FOLDER}/; "
            f"the log ends at {segment.next_offset()} now"
        )

    def _drop_from(self, index: int) -> Steps[None]:
        """Drop the last segments, latest first, so that a crash in between leaves no gap."""
        while len(self._segments) > index:
            segment = self._segments.pop()
            self._report.bytes_cut += segment.size
            self._report.events.append(
                f"dropped segment {segment.base_offset} ({segment.size} bytes), which follows the cut"
            )
            segment.delete_files()
            yield self._sync_names

    def _start_afresh(self, end_offset: int) -> Steps[int]:
        """Create an empty segment at the log start if no usable segment exists."""
        if self._segments and end_offset < self._log_start_offset:
            self._report.events.append(
                f"the log ends at {end_offset}, before its start {self._log_start_offset}: the log was emptied"
            )
        yield from self._drop_from(0)
        self._segments.append(
            LogSegment(
                self._cache, self._directory, self._log_start_offset, size=0, created_ms=self._now_ms, fresh=True
            )
        )
        self._segments[0].make_log()
        yield self._sync_names
        self._recovery_point = self._log_start_offset
        return self._log_start_offset

    # Producer state

    def _load_producers(self, start_offset: int, end_offset: int) -> Steps[None]:
        producers = self._producers
        if self._had_no_producers and not producers.snapshots:
            producers.map_end_offset = end_offset
            return
        yield from rebuild_producers(
            producers, self._segments, start_offset, end_offset, self._now_ms, self._report.events.append
        )
        producers.keep_snapshots({segment.base_offset for segment in self._segments})
        if self._clean and not producers.snapshots and not self._lacks_indexes(self._segments[-1]):
            with suppress_passing():  # Where there is no room the next start walks again.
                yield partial(producers.take_snapshot, durable=True)
