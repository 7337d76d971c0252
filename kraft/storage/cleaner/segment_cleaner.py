"""The computation of a cleaning: reads closed segments and writes `.cleaned` copies.

The rules are those of `log_cleaner`. It runs in a worker process, or step by step in this one, so its only input is a
`CleaningOrder`. After each group of segments it waits until the node has swapped the copy in.
"""

from __future__ import annotations

import errno
from array import array
from collections.abc import Generator, Iterator

from kraft.common.errors import CorruptData, ProtocolError, StorageError
from kraft.protocol.records.builder import build_empty_batch
from kraft.protocol.records.compression import CompressionError
from kraft.protocol.records.record import InvalidRecord
from kraft.protocol.records.record_batch import RecordBatch
from kraft.storage.batch_walk import read_ahead
from kraft.storage.cleaner.cleaned_segment import CleanedSegmentWriter
from kraft.storage.cleaner.cleaned_transactions import CleanedTransactions
from kraft.storage.cleaner.cleaning_order import (
    NO_OFFSET,
    CleanedGroup,
    CleaningEnd,
    CleaningOrder,
    CleaningResult,
    MappedSegment,
    SourceSegment,
)
from kraft.storage.cleaner.offset_map import OffsetMap
from kraft.storage.cleaner.record_filter import filter_records, keys_of
from kraft.storage.file_cache import FileCache
from kraft.storage.log_files import CLEANED_SUFFIX, LOG_SUFFIX, offset_file_name
from kraft.storage.log_segment import RELATIVE_OFFSET_MAX, LogSegment
from kraft.world.ports import FileSystem, StepEnd

KEPT_NOTES_MAX = 10
"""Limit of messages of one cleaning about unreadable data."""

NEVER_MS = -1

Steps = Iterator[StepEnd]


def clean_segments(files: FileSystem, order: CleaningOrder) -> Iterator[StepEnd | CleaningResult]:
    """Run one cleaning. Yields a MappedSegment for each dirty segment, then a CleanedGroup for each group, then a
    CleaningEnd. Raises OSError after removing the copy that was not yet reported."""
    try:
        yield from SegmentCleaner(files, order).run()
    except StorageError as problem:  # A copy that could not be written.
        raise OSError(errno.EIO, str(problem)) from problem


class SegmentCleaner:
    """One cleaning. Call `run` once and drive it to its end."""

    def __init__(self, files: FileSystem, order: CleaningOrder) -> None:
        self._files = files
        self._cache = FileCache(files)
        self._order = order
        self._map = OffsetMap(order.limits.map_bytes)
        self._transactions = CleanedTransactions()
        self._last_offsets: dict[int, int] = {}
        self._marker_epochs: dict[int, int] = {}
        self._over_ms = NEVER_MS if order.keeps_ends else order.now_ms
        """Tombstones and markers with a horizon up to this time are removed."""
        self._read_producers(order.producers)
        self._damaged: set[int] = set()
        self._records_read = self._records_kept = self._bytes_read = self._kept = 0
        self._kept_notes: tuple[str, ...] = ()
        self._kept_ranges: tuple[tuple[int, int], ...] = ()

    def run(self) -> Iterator[StepEnd | CleaningResult]:
        yield from self._build_map()
        for group in self._groups():
            yield from self._clean_or_keep(group)
        yield CleaningEnd(
            end_offset=self._map.latest_offset + 1,
            records_read=self._records_read,
            records_kept=self._records_kept,
            bytes_read=self._bytes_read,
            kept=self._kept,
            kept_notes=self._kept_notes,
            kept_ranges=self._kept_ranges,
        )

    def _read_producers(self, packed: bytes) -> None:
        fields = array("q", packed)
        for at in range(0, len(fields), 3):
            producer_id, last_offset, epoch = fields[at : at + 3]
            if last_offset == NO_OFFSET:
                self._marker_epochs[producer_id] = epoch
            else:
                self._last_offsets[producer_id] = last_offset

    # The map

    def _build_map(self) -> Iterator[StepEnd | CleaningResult]:
        order = self._order
        first, bound = order.first_dirty_offset, order.first_uncleanable_offset
        transactions = CleanedTransactions()
        self._map.latest_offset = first - 1
        for segment in order.segments:
            if segment.end_offset <= first:
                continue
            transactions.add_aborted(
                [each for each in segment.aborted if each.last_offset >= first and each.first_offset < bound]
            )
            try:
                if not (yield from self._map_segment(segment, transactions)):
                    return
            except (ProtocolError, CorruptData) as problem:
                self._keep_segment(segment, problem)
                transactions.skip_to(segment.end_offset)
            self._map.latest_offset = min(segment.end_offset, bound) - 1
            yield MappedSegment(base_offset=segment.base_offset)

    def _map_segment(self, segment: SourceSegment, transactions: CleanedTransactions) -> Generator[StepEnd, None, bool]:
        """Map the keys of a segment. Return whether all of them fit."""
        first, bound, offsets = self._order.first_dirty_offset, self._order.first_uncleanable_offset, self._map
        for batch in self._batches(segment):
            if batch.last_offset >= first:
                if batch.base_offset >= bound:
                    break
                batch.verify_crc()
                if not transactions.discards(batch) and not batch.is_control:
                    for key, offset in self._keys_of(batch):
                        if offset >= first and not offsets.put(key, offset):
                            # Within a batch, too: one may have more keys than there is ever room for.
                            offsets.latest_offset = offset - 1
                            return False
                offsets.latest_offset = batch.last_offset
            yield self._paced(batch.size)
        return True

    def _keys_of(self, batch: RecordBatch) -> Iterator[tuple[bytes, int]]:
        """Each key with the offset of its record. Empty if a record cannot be decoded: an unreadable record must not
        supersede readable ones."""
        try:
            return keys_of(batch)
        except (InvalidRecord, CompressionError):
            return iter(())

    def _keep_segment(self, segment: SourceSegment, problem: Exception) -> None:
        self._damaged.add(segment.base_offset)
        self._keep(f"segment {segment.base_offset}", segment.base_offset, segment.end_offset, problem)

    def _keep(self, what: str, start_offset: int, end_offset: int, problem: Exception) -> None:
        self._kept += 1
        if len(self._kept_notes) < KEPT_NOTES_MAX:
            self._kept_notes += (f"{what} stays as it is: {problem}",)
            self._kept_ranges += ((start_offset, end_offset),)

    # The copy

    def _groups(self) -> list[list[SourceSegment]]:
        """Groups of adjacent segments that fit into one segment by size, by index size and by relative offsets."""
        order = self._order
        groups: list[list[SourceSegment]] = []
        size = offsets_size = times_size = 0
        starts_group = True
        for segment in order.segments:
            if segment.base_offset > self._map.latest_offset:
                break
            if segment.base_offset in self._damaged:
                starts_group = True
                continue
            size += segment.size
            offsets_size += segment.offset_index_bytes
            times_size += segment.time_index_bytes
            fits = size <= order.segment_bytes and max(offsets_size, times_size) <= order.segment_index_bytes
            if not starts_group and fits and segment.end_offset - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX:
                groups[-1].append(segment)
            else:
                groups.append([segment])
                size, offsets_size, times_size = segment.size, segment.offset_index_bytes, segment.time_index_bytes
                starts_group = False
        return groups

    def _clean_or_keep(self, group: list[SourceSegment]) -> Iterator[StepEnd | CleaningResult]:
        """Clean a group. If one of its segments is damaged, clean the others one by one and keep the damaged segment
        unchanged."""
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
                self._transactions.skip_to(group[0].end_offset)

    def _clean_group(self, group: list[SourceSegment]) -> Iterator[StepEnd | CleaningResult]:
        order = self._order
        copy = LogSegment(
            self._cache,
            order.directory,
            group[0].base_offset,
            size=0,
            created_ms=order.now_ms,
            fresh=True,
            suffix=CLEANED_SUFFIX,
        )
        try:
            copy.delete_files()
            modified_ms = self._files.status(self._path(group[-1])).modified_ms
            writer = CleanedSegmentWriter(copy, order.index_interval_bytes, order.limits.io_buffer_bytes)
            for segment in group:
                yield from self._copy_segment(segment, writer)
            writer.flush()
            for transaction in self._transactions.kept_aborts:
                copy.transaction_index.append(transaction)
            self._transactions.kept_aborts.clear()
            copy.make_log()
            copy.close_for_appends()
            self._files.set_modified_ms(copy.path(LOG_SUFFIX), modified_ms)
            for opened in copy.files_to_sync(with_indexes=True):
                opened.file.sync()
            self._files.sync_directory(order.directory)
        except (ProtocolError, CorruptData, StorageError, OSError):
            copy.delete_files()
            raise
        finally:
            self._cache.clear()  # Names change from here on.
        yield CleanedGroup(base_offsets=tuple(segment.base_offset for segment in group), size=copy.size)

    def _copy_segment(self, segment: SourceSegment, writer: CleanedSegmentWriter) -> Steps:
        self._transactions.add_aborted(list(segment.aborted))
        for batch in self._batches(segment):
            batch.verify_crc()
            self._bytes_read += batch.size
            kept = self._filter(batch)
            if kept is not None:
                writer.add(kept)
            yield self._paced(batch.size + (kept.size if kept is not None else 0))

    def _filter(self, batch: RecordBatch) -> RecordBatch | None:
        """Filter one batch. Return the batch unchanged, rebuilt or empty, or None if nothing is kept."""
        discard = self._transactions.discards(batch)
        ended_marker = discard and batch.is_control
        if batch.is_control:
            horizon = batch.delete_horizon_ms
            discard = discard and horizon is not None and horizon <= self._over_ms
        must_stay = self._must_stay(batch)
        if discard:
            return RecordBatch(build_empty_batch(batch)) if must_stay else None
        try:
            verdict = filter_records(
                batch,
                self._map,
                over_ms=self._over_ms,
                new_horizon_ms=self._order.now_ms + self._order.delete_retention_ms,
                sets_horizon=ended_marker,
            )
        except (InvalidRecord, CompressionError) as problem:
            what = f"batch {batch.base_offset}..{batch.last_offset}"
            self._keep(what, batch.base_offset, batch.last_offset + 1, problem)
            return batch
        self._records_read += batch.count
        self._records_kept += verdict.kept
        if not verdict.kept:
            return RecordBatch(build_empty_batch(batch)) if must_stay else None
        return verdict.batch

    def _must_stay(self, batch: RecordBatch) -> bool:
        """Whether the batch is kept even when empty: it holds the last sequence or epoch of a live producer, or ends at
        the high watermark."""
        if batch.has_producer_id:
            if self._last_offsets.get(batch.producer_id, NO_OFFSET) == batch.last_offset:
                return True
            if batch.is_control and self._marker_epochs.get(batch.producer_id, NO_OFFSET) == batch.producer_epoch:
                return True
        return batch.next_offset == self._order.high_watermark

    # Files

    def _path(self, segment: SourceSegment) -> str:
        return f"{self._order.directory}/{offset_file_name(segment.base_offset, LOG_SUFFIX)}"

    def _batches(self, segment: SourceSegment) -> Iterator[RecordBatch]:
        return read_ahead(self._cache.get(self._path(segment)).file, segment.size, self._order.limits.io_buffer_bytes)

    def _paced(self, count: int) -> StepEnd:
        return StepEnd(count / self._order.limits.io_bytes_per_second)
