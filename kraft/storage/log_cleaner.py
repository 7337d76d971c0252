"""Compaction: of a compacted topic's log only the last record of each key is kept (and what later readers need to
understand the rest). Offsets never change.

One cleaning of one log: map the keys of its dirty part to their last offsets, then copy the segments up to there, in
groups, leaving out every record that the map supersedes. A tombstone stays until delete.retention.ms after the first
cleaning that saw it: that pass writes the horizon into the batch (KIP-534). Aborted data goes at once; a marker
goes, after a horizon of its own, when no record of its transaction is left. The last batch of each active producer
and the batch that ends at the high watermark stay even when they are empty.

Copies are written as `.cleaned`, synced, renamed to `.swap`, and only then do the originals go and the copies take
their names: with a directory sync between the steps, so that loading finds the originals whole or the copies whole
at whatever moment it stopped (`log_loader` step 1). From the first of these renames on there is no way back:
whatever fails then takes the log directory offline, since another cleaning would rename its copy over what this one
left.

What cannot be read stays as it is, and the cleaning goes on: a batch whose CRC is right and whose records cannot be
decoded is copied byte for byte, and a segment with a damaged batch (its CRC is wrong, or its length leads nowhere) is
not touched. None of their records supersede others.

A cleaning is a generator that yields every few dozen records, so that the caller can pause it; it raises
CleaningAborted when the log was truncated, deleted or retained away meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial

from kraft.common.errors import CorruptData, KraftError, ProtocolError, StorageError
from kraft.common.ids import TopicPartition
from kraft.protocol.records.builder import build_empty_batch
from kraft.protocol.records.compression import CompressionError
from kraft.protocol.records.record import InvalidRecord, Record
from kraft.protocol.records.record_batch import RecordBatch
from kraft.storage.batch_walk import read_checked, walk_whole
from kraft.storage.cleaned_segment import CleanedSegmentWriter, rebuild_batch
from kraft.storage.cleaned_transactions import CleanedTransactions
from kraft.storage.file_cache import OpenFile
from kraft.storage.log_files import CLEANED_SUFFIX, DELETED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX
from kraft.storage.log_segment import RELATIVE_OFFSET_MAX, LogSegment
from kraft.storage.log_to_clean import LogToClean
from kraft.storage.offset_map import OffsetMap
from kraft.storage.steps import Steps
from kraft.storage.unified_log import UnifiedLog

RECORDS_PER_STEP = 32
DEFAULT_MAP_BYTES = 128 * 1024 * 1024
KEPT_NOTES_MAX = 10
"""Sentences of one cleaning about what it could not read."""


class CleaningAborted(KraftError):
    """The log changed under the cleaner; what was replaced is sound, another cleaning may come."""


class Uncleanable(KraftError):
    """An index of the log is damaged: the log cannot be cleaned before that is mended (a restart does it)."""


@dataclass(slots=True)
class CleanerStats:
    """One cleaning. `end_offset`: the log is clean below it. `replaced`: files to remove after file.delete.delay.ms."""

    topic_partition: TopicPartition
    end_offset: int = 0
    records_read: int = 0
    records_kept: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    replaced: tuple[str, ...] = ()
    kept: int = 0
    """Batches and segments that could not be read and stay as they are; `kept_notes` has a sentence on the first
    ones."""
    kept_notes: tuple[str, ...] = ()
    kept_ranges: tuple[tuple[int, int], ...] = ()
    """The offsets of those first ones, ends exclusive."""

    def keep(self, what: str, start_offset: int, end_offset: int, problem: Exception) -> None:
        self.kept += 1
        if len(self.kept_notes) < KEPT_NOTES_MAX:
            self.kept_notes += (f"{what} stays as it is: {problem}",)
            self.kept_ranges += ((start_offset, end_offset),)


class Cleaning:
    """One cleaning of one log. `run` to its end, once."""

    def __init__(self, candidate: LogToClean, *, now_ms: int, map_bytes_max: int = DEFAULT_MAP_BYTES) -> None:
        self._log: UnifiedLog = candidate.log
        self._first_dirty = candidate.first_dirty_offset
        self._first_uncleanable = candidate.first_uncleanable_offset
        self._now_ms = now_ms
        self._map = OffsetMap(map_bytes_max)
        self._directory = self._log.directory
        self._files = self._log.local.cache.files
        self._sync_names = partial(self._files.sync_directory, self._directory)
        self._truncations = self._log.truncations
        self._sources: list[LogSegment] = []
        self._damaged: list[LogSegment] = []
        self._transactions = CleanedTransactions()
        self.stats = CleanerStats(self._log.topic_partition)

    def run(self) -> Steps[None]:
        """See `steps`. Raises CleaningAborted, Uncleanable, OSError, StorageError.

        What was replaced before an error stays replaced: each group is sound by itself.
        """
        if any(segment.suffix for segment in self._log.segments):
            raise StorageError(
                f"{self._directory}: an earlier cleaning was decided and did not finish; a start finishes it"
            )
        try:
            yield from self._build_map()
            for group in self._groups():
                yield from self._clean_or_keep(group)
        except (ProtocolError, CorruptData) as problem:
            raise Uncleanable(f"{self._log.topic_partition}: {problem}") from problem
        except FileNotFoundError:
            self._check()  # A directory that has another name meanwhile is not found by the one it had.
            raise
        self.stats.end_offset = self._map.latest_offset + 1

    def _check(self) -> None:
        """The log is still the one whose segments we read."""
        log = self._log
        if (
            log.directory != self._directory
            or log.truncations != self._truncations
            or any(source not in log.segments for source in self._sources)
        ):
            raise CleaningAborted(f"{log.topic_partition}: the log was truncated, deleted or retained away")

    # The map

    def _build_map(self) -> Iterator[None]:
        transactions = CleanedTransactions()
        transactions.add_aborted(self._log.local.aborted_transactions(self._first_dirty, self._first_uncleanable))
        segments = self._log.segments
        self._map.latest_offset = self._first_dirty - 1
        for index, segment in enumerate(segments):
            end = segments[index + 1].base_offset if index + 1 < len(segments) else self._log.log_end_offset
            if end <= self._first_dirty or segment.base_offset >= self._first_uncleanable:
                continue
            self._sources = [segment]
            try:
                if not (yield from self._map_segment(segment, transactions)):
                    return
            except (ProtocolError, CorruptData) as problem:
                self._keep_segment(segment, problem)
                transactions.skip_to(end)
            self._map.latest_offset = min(end, self._first_uncleanable) - 1

    def _map_segment(self, segment: LogSegment, transactions: CleanedTransactions) -> Generator[None, None, bool]:
        """Whether there was room for every key of the segment."""
        opened = segment.open_log()
        for position, header in walk_whole(opened.file, 0, segment.size):
            if header.last_offset < self._first_dirty:
                continue
            if header.base_offset >= self._first_uncleanable:
                break
            batch = read_checked(opened.file, position, header.size)
            if not transactions.discards(batch) and not batch.is_control:
                for key, offset in (yield from self._keys_of(batch)):
                    if offset >= self._first_dirty and not self._map.put(key, offset):
                        # Within a batch, too: one may have more keys than there is ever room for.
                        self._map.latest_offset = offset - 1
                        return False
            self._map.latest_offset = batch.last_offset
            yield
            self._check()
        return True

    def _keys_of(self, batch: RecordBatch) -> Generator[None, None, list[tuple[bytes, int]]]:
        """Each key with the offset of its record; none where a record cannot be decoded: nobody could read what
        superseded the others."""
        keys: list[tuple[bytes, int]] = []
        try:
            for count, record in enumerate(batch.iterate_records()):
                if record.key is not None:
                    keys.append((record.key, record.offset))
                if count % RECORDS_PER_STEP == RECORDS_PER_STEP - 1:
                    yield
                    self._check()
        except (InvalidRecord, CompressionError):
            return []
        return keys

    def _keep_segment(self, segment: LogSegment, problem: Exception) -> None:
        self._damaged.append(segment)
        self.stats.keep(f"segment {segment.base_offset}", segment.base_offset, self._end_of(segment), problem)

    # The copy

    def _groups(self) -> list[list[LogSegment]]:
        """Neighbouring segments that fit into one, by size, by their indexes and by the reach of relative offsets."""
        config, log = self._log.config, self._log
        groups: list[list[LogSegment]] = []
        size = offsets_size = times_size = 0
        starts_group = True
        for index, segment in enumerate(log.segments):
            if segment.base_offset > self._map.latest_offset or segment.base_offset >= self._first_uncleanable:
                break
            if segment in self._damaged:
                starts_group = True
                continue
            end = log.segments[index + 1].base_offset if index + 1 < len(log.segments) else log.log_end_offset
            size += segment.size
            offsets_size += segment.offset_index.size
            times_size += segment.time_index.size
            fits = size <= config.segment_bytes and max(offsets_size, times_size) <= config.segment_index_bytes
            if not starts_group and fits and end - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX:
                groups[-1].append(segment)
            else:
                groups.append([segment])
                size, offsets_size, times_size = segment.size, segment.offset_index.size, segment.time_index.size
                starts_group = False
        return groups

    def _clean_or_keep(self, group: list[LogSegment]) -> Steps[None]:
        """Clean a group. Where one of its segments is damaged, clean each of them by itself, but leave that one."""
        before = self._transactions.copy()
        try:
            yield from self._clean_group(group)
        except (ProtocolError, CorruptData) as problem:
            self._transactions = before
            if len(group) > 1:
                for segment in group:
                    yield from self._clean_or_keep([segment])
            else:
                self._keep_segment(group[0], problem)
                self._transactions.skip_to(self._end_of(group[0]))

    def _clean_group(self, group: list[LogSegment]) -> Steps[None]:
        self._sources = group
        self._check()
        first = group[0]
        copy = LogSegment(
            self._log.local.cache,
            self._directory,
            first.base_offset,
            size=0,
            created_ms=self._now_ms,
            fresh=True,
            suffix=CLEANED_SUFFIX,
        )
        try:
            copy.delete_files()
            modified_ms = group[-1].modified_ms()
            writer = CleanedSegmentWriter(copy, self._log.config.index_interval_bytes)
            for segment in group:
                yield from self._copy_segment(segment, writer)
            writer.flush()
            for transaction in self._transactions.kept_aborts:
                copy.transaction_index.append(transaction)
            self._transactions.kept_aborts.clear()
            copy.make_log()
            copy.close_for_appends()
            self._files.set_modified_ms(copy.path(LOG_SUFFIX), modified_ms)
            yield partial(_sync, tuple(copy.files_to_sync(with_indexes=True)), self._sync_names)
            self._check()
        except (KraftError, OSError):
            copy.delete_files()
            raise
        self.stats.bytes_written += copy.size
        self._sources = []  # From here on it is the copy that is in the log.
        try:
            self._swap(group, copy)
            yield self._sync_names  # Until then a start gives the copy its name anew.
        except OSError as problem:
            if isinstance(problem, FileNotFoundError):
                self._check()
            raise StorageError(f"{self._directory}: cannot finish what a cleaning has decided: {problem}") from problem
        self._check()  # Else what was truncated meanwhile would be remembered as clean.

    def _copy_segment(self, segment: LogSegment, writer: CleanedSegmentWriter) -> Iterator[None]:
        end = self._end_of(segment)
        self._transactions.add_aborted(self._log.local.aborted_transactions(segment.base_offset, end))
        opened = segment.open_log()
        for position, header in walk_whole(opened.file, 0, segment.size):
            batch = read_checked(opened.file, position, header.size)
            self.stats.bytes_read += batch.size
            kept = yield from self._filter(batch)
            if kept is not None:
                writer.add(kept)
            yield
            self._check()

    def _end_of(self, segment: LogSegment) -> int:
        segments = self._log.segments
        index = segments.index(segment)
        return segments[index + 1].base_offset if index + 1 < len(segments) else self._log.log_end_offset

    def _filter(self, batch: RecordBatch) -> Generator[None, None, RecordBatch | None]:
        """What is kept of a batch: all of it, a rebuilt one, an empty one; None for nothing."""
        discard = self._transactions.discards(batch)
        ended_marker = discard and batch.is_control
        horizon = batch.delete_horizon_ms
        if batch.is_control:
            discard = discard and horizon is not None and horizon <= self._now_ms
        must_stay = self._must_stay(batch)
        if discard:
            return RecordBatch(build_empty_batch(batch)) if must_stay else None
        kept: list[Record] = []
        tombstones = False
        try:
            for count, record in enumerate(batch.iterate_records()):
                if batch.is_control or self._keeps(record, horizon):
                    kept.append(record)
                    tombstones = tombstones or record.value is None
                if count % RECORDS_PER_STEP == RECORDS_PER_STEP - 1:
                    yield
                    self._check()
        except (InvalidRecord, CompressionError) as problem:
            what = f"batch {batch.base_offset}..{batch.last_offset}"
            self.stats.keep(what, batch.base_offset, batch.last_offset + 1, problem)
            return batch
        self.stats.records_read += batch.count
        self.stats.records_kept += len(kept)
        if not kept:
            return RecordBatch(build_empty_batch(batch)) if must_stay else None
        sets_horizon = horizon is None and (tombstones or ended_marker)
        if len(kept) == batch.count and not sets_horizon:
            return batch
        return RecordBatch(
            rebuild_batch(batch, kept, self._now_ms + self._log.config.delete_retention_ms if sets_horizon else horizon)
        )

    def _keeps(self, record: Record, horizon: int | None) -> bool:
        if record.offset > self._map.latest_offset:
            return True
        if record.key is None:
            return False
        if record.offset < self._map.get(record.key):
            return False
        return record.value is not None or horizon is None or self._now_ms < horizon

    def _must_stay(self, batch: RecordBatch) -> bool:
        """Empty or not: the batch holds the last sequence or epoch of a live producer, or ends at the high
        watermark."""
        if batch.has_producer_id and self._log.has_producers:
            entry = self._log.producers.producers.get(batch.producer_id)
            if entry is not None:
                if entry.batches:
                    if batch.last_offset == entry.last_offset:
                        return True
                elif batch.is_control and batch.producer_epoch == entry.producer_epoch:
                    return True
        return batch.next_offset == self._log.high_watermark

    # The swap

    def _swap(self, group: list[LogSegment], copy: LogSegment) -> None:
        """The originals go and the copy takes their place. Not paused: a truncation in between would be undone by a
        start that finds the swap decided."""
        copy.change_suffix(SWAP_SUFFIX)
        self._sync_names()
        self._log.local.replace(group, [copy])
        for segment in group:
            self.stats.replaced += tuple(segment.change_suffix(DELETED_SUFFIX))
        self._sync_names()
        copy.change_suffix("")
        if self._log.has_producers:
            for segment in group[1:]:
                self._log.producers.remove_snapshot(segment.base_offset)


def _sync(files: tuple[OpenFile, ...], sync_names: Callable[[], None]) -> None:
    for opened in files:
        opened.file.sync()
    sync_names()
