"""Compaction: a compacted topic's log keeps only the last record of each key, and the records that later readers need
to understand the rest. Offsets never change.

One cleaning of one log has two passes. The first maps the keys of the dirty part to their last offsets. The second
copies the segments up to there, in groups, and leaves out every record that the map supersedes:

- A tombstone stays until delete.retention.ms after the first cleaning that saw it. That cleaning writes the time into
  the batch (KIP-534).
- Aborted data is removed immediately. A marker is removed when no record of its transaction is left, also after
  delete.retention.ms.
- Tombstones and markers also stay until every replica has them, because a replica without them may still have the
  records that they end. (Kafka considers only the time.)
- The last batch of each active producer and the batch that ends at the high watermark stay even if they are empty.

`SegmentCleaner` makes the copies of closed segments in a work process: it writes them as `.cleaned` and syncs them.
This module decides what is cleaned and puts the copies in place. It renames them to `.swap`, then removes the
originals, then gives the copies their names, with a directory sync after each step. A start after a crash at any moment
finds all originals or all copies (`log_loader` step 1). A failure before the first rename is harmless: the `.cleaned`
files are removed. A failure after it takes the log directory offline, since another cleaning would rename its copies
over the files of this one.

Unreadable data stays as it is, and the cleaning continues. A batch with a valid CRC is copied byte for byte if its
records cannot be decoded, or decompress to more than a limit. A segment with a damaged batch (wrong CRC or impossible
length) is not changed. None of these records supersede others.

A cleaning is a generator (`world/steps.py`). It raises CleaningAborted if the log was truncated or deleted meanwhile,
or if retention removed its segments.
"""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from kraft.common.errors import CorruptData, KraftError, ProtocolError, StorageError
from kraft.common.ids import TopicPartition
from kraft.storage.cleaner.cleaning_order import (
    NO_OFFSET,
    CleanedGroup,
    CleanerLimits,
    CleaningEnd,
    CleaningOrder,
    CleaningResult,
    SourceSegment,
)
from kraft.storage.cleaner.log_to_clean import LogToClean
from kraft.storage.cleaner.segment_cleaner import clean_segments
from kraft.storage.log_files import CLEANED_SUFFIX, DELETED_SUFFIX, SWAP_SUFFIX
from kraft.storage.log_segment import LogSegment
from kraft.storage.unified_log import UnifiedLog
from kraft.world.ports import FileSystem, StepEnd, WorkFailed
from kraft.world.steps import Steps

PRODUCERS_PER_STEP = 1000
UNCLEANABLE_RETRY_MS = 3_600_000
"""The time after which a log that could not be cleaned is tried again."""
WORK_FAILED_RETRY_MS = 60_000
"""The time after which a log is tried again whose computation has crashed. Other logs are cleaned first."""


class CleaningAborted(KraftError):
    """Raised when the log changed during its cleaning. Segments replaced so far are valid, and the log may be cleaned
    again."""


class Uncleanable(KraftError):
    """Raised when the log cannot be cleaned for now: an index is damaged (a restart rebuilds it), or the computation
    failed. The log is skipped for `retry_ms`."""

    def __init__(self, what: str, retry_ms: int) -> None:
        super().__init__(what)
        self.retry_ms = retry_ms


@dataclass(slots=True)
class CleanerStats:
    """The result of one cleaning. The log is clean below `end_offset`. `replaced` are files to remove after
    file.delete.delay.ms. `kept`, `kept_notes` and `kept_ranges` are as in CleaningEnd."""

    topic_partition: TopicPartition
    end_offset: int = 0
    records_read: int = 0
    records_kept: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    replaced: tuple[str, ...] = ()
    kept: int = 0
    kept_notes: tuple[str, ...] = ()
    kept_ranges: tuple[tuple[int, int], ...] = ()


class CleaningWork:
    """The computation of one cleaning, as a job of `Steps`. Each call computes a small part in this process. A driver
    with a worker process runs `order` there and passes each result to `tell`."""

    __slots__ = ("_files", "_here", "_result", "order")

    def __init__(self, files: FileSystem, order: CleaningOrder) -> None:
        self.order = order
        self._files = files
        self._here: Iterator[StepEnd | CleaningResult] | None = None
        self._result: CleaningResult | None = None

    def __call__(self) -> None:
        if self._here is None:
            self._here = clean_segments(self._files, self.order)
        found = next(self._here)
        if not isinstance(found, StepEnd):
            self.tell(found)

    def tell(self, result: CleaningResult) -> None:
        assert self._result is None, "one result at a time"
        self._result = result

    def next_result(self) -> Steps[CleaningResult]:
        """Return the next result. Raises OSError, WorkFailed."""
        while self._result is None:
            yield self
        result, self._result = self._result, None
        return result


class Cleaning:
    """One cleaning of one log. Call `run` once and drive it to its end."""

    def __init__(
        self, candidate: LogToClean, *, now_ms: int, limits: CleanerLimits | None = None, keeps_ends: bool = False
    ) -> None:
        """`keeps_ends` as in CleaningOrder."""
        self._log: UnifiedLog = candidate.log
        self._first_dirty = candidate.first_dirty_offset
        self._first_uncleanable = candidate.first_uncleanable_offset
        self._now_ms = now_ms
        self._limits = limits or CleanerLimits()
        self._keeps_ends = keeps_ends
        self._directory = self._log.directory
        self._files = self._log.local.cache.files
        self._sync_names = partial(self._files.sync_directory, self._directory)
        self._truncations = self._log.truncations
        self._sources: dict[int, LogSegment] = {}
        """Segments of the log that are still to be read, by base offset."""
        self.stats = CleanerStats(self._log.topic_partition)

    def run(self) -> Steps[None]:
        """Clean the log, in steps. Raises CleaningAborted, Uncleanable, OSError, StorageError.

        Groups replaced before an error stay replaced: each group is valid on its own.
        """
        if any(segment.suffix for segment in self._log.segments):
            raise StorageError(
                f"{self._directory}: an earlier cleaning has not finished: restart the node to finish it"
            )
        try:
            work = CleaningWork(self._files, (yield from self._order()))
            result = yield from work.next_result()
            while not isinstance(result, CleaningEnd):
                self._check()
                if isinstance(result, CleanedGroup):
                    yield from self._replace(result)
                result = yield from work.next_result()
        except (ProtocolError, CorruptData) as problem:
            raise self._given_up(problem, UNCLEANABLE_RETRY_MS) from problem
        except WorkFailed as problem:
            self._remove_copies()
            self._check()
            raise self._given_up(problem, WORK_FAILED_RETRY_MS) from problem
        except CleaningAborted:
            self._remove_copies()
            raise
        except FileNotFoundError:
            self._check()  # A directory that has another name meanwhile is not found by the one it had.
            raise
        self._finish(result)

    def _given_up(self, problem: Exception, retry_ms: int) -> Uncleanable:
        return Uncleanable(f"{self._log.topic_partition}: {problem}", retry_ms)

    def _finish(self, end: CleaningEnd) -> None:
        self._check()  # Else what was truncated meanwhile would be remembered as clean.
        stats = self.stats
        stats.end_offset = end.end_offset
        stats.records_read, stats.records_kept, stats.bytes_read = end.records_read, end.records_kept, end.bytes_read
        stats.kept, stats.kept_notes, stats.kept_ranges = end.kept, end.kept_notes, end.kept_ranges

    def _check(self) -> None:
        """Raise CleaningAborted if the log's segments changed since the cleaning started."""
        log = self._log
        if log.directory == self._directory and log.truncations == self._truncations:
            there = {segment.base_offset: segment for segment in log.segments}
            if all(there.get(base_offset) is source for base_offset, source in self._sources.items()):
                return
        raise CleaningAborted(
            f"{log.topic_partition}: the log was truncated or deleted, or retention deleted its segments"
        )

    def _remove_copies(self) -> None:
        """Remove the copies of groups that were not swapped in. Nothing writes to them any more."""
        with contextlib.suppress(OSError):  # Of a directory that is gone, or whose failure another will find.
            for name in self._files.list_directory(self._directory):
                if name.endswith(CLEANED_SUFFIX):
                    self._files.remove(f"{self._directory}/{name}")

    # The order

    def _order(self) -> Steps[CleaningOrder]:
        log = self._log
        segments = [segment for segment in log.segments[:-1] if segment.base_offset < self._first_uncleanable]
        self._sources = {segment.base_offset: segment for segment in segments}
        ends = [segment.base_offset for segment in log.segments[1 : len(segments) + 1]]
        sources = []
        for segment, end_offset in zip(segments, ends, strict=True):
            if not segment.has_transaction_index_file:
                raise CorruptData(f"the transaction index of {segment} is missing")
            sources.append(
                SourceSegment(
                    base_offset=segment.base_offset,
                    end_offset=end_offset,
                    size=segment.size,
                    offset_index_bytes=segment.offset_index.size,
                    time_index_bytes=segment.time_index.size,
                    aborted=tuple(log.local.aborted_transactions(segment.base_offset, end_offset)),
                )
            )
            yield None
            self._check()
        config = log.config
        return CleaningOrder(
            directory=self._directory,
            segments=tuple(sources),
            first_dirty_offset=self._first_dirty,
            first_uncleanable_offset=self._first_uncleanable,
            high_watermark=log.high_watermark,
            producers=(yield from self._live_producers(ends[-1] if ends else 0)),
            now_ms=self._now_ms,
            delete_retention_ms=config.delete_retention_ms,
            keeps_ends=self._keeps_ends,
            segment_bytes=config.segment_bytes,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            limits=self._limits,
        )

    def _live_producers(self, end_offset: int) -> Steps[bytes]:
        """The producers whose last batch may be below `end_offset`, in the form of `CleaningOrder.producers`. If a
        producer appends meanwhile, one empty batch more than necessary is kept."""
        found = array("q")
        if self._log.has_producers:
            producers = self._log.producers.producers
            for count, producer_id in enumerate(list(producers), 1):
                entry = producers.get(producer_id)
                if entry is not None and not entry.batches:
                    found.extend((producer_id, NO_OFFSET, entry.producer_epoch))
                elif entry is not None and entry.last_offset < end_offset:
                    found.extend((producer_id, entry.last_offset, entry.producer_epoch))
                if count % PRODUCERS_PER_STEP == 0:
                    yield None
                    self._check()
        return found.tobytes()

    # The swap

    def _replace(self, cleaned: CleanedGroup) -> Steps[None]:
        group = [self._sources[base_offset] for base_offset in cleaned.base_offsets]
        copy = LogSegment(
            self._log.local.cache,
            self._directory,
            group[0].base_offset,
            size=cleaned.size,
            created_ms=self._now_ms,
            fresh=False,
            suffix=CLEANED_SUFFIX,
        )
        self.stats.bytes_written += copy.size
        for base_offset in cleaned.base_offsets:  # From here on it is the copy that is in the log.
            del self._sources[base_offset]
        try:
            self._decide(group, copy)
            yield self._sync_names  # The copy is read under its `.swap` name meanwhile.
            if copy in self._log.segments:  # It may have been truncated away, or retention took it.
                copy.change_suffix("")
            yield self._sync_names  # Until then a restart renames the copy again.
        except OSError as problem:
            if isinstance(problem, FileNotFoundError):
                self._check()
            raise StorageError(f"{self._directory}: cannot swap in the cleaned segments: {problem}") from problem
        self._check()

    def _decide(self, group: list[LogSegment], copy: LogSegment) -> None:
        """Replace the originals by the copy. Runs without yielding: a truncation between the steps would be undone by a
        restart that finds the decided swap."""
        copy.change_suffix(SWAP_SUFFIX)
        self._sync_names()
        self._log.local.replace(group, [copy])
        for segment in group:
            self.stats.replaced += tuple(segment.change_suffix(DELETED_SUFFIX))
        if self._log.has_producers:
            for segment in group[1:]:
                self._log.producers.remove_snapshot(segment.base_offset)
