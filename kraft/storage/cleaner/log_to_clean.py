"""Selects the log to clean and its cleanable range. Pure decisions."""

from __future__ import annotations

from dataclasses import dataclass

from kraft.storage.log_segment import LogSegment
from kraft.storage.unified_log import UnifiedLog


@dataclass(frozen=True, slots=True, kw_only=True)
class LogToClean:
    """A log whose range from `first_dirty_offset` to `first_uncleanable_offset` is dirty and may be cleaned. `must` is
    set once max.compaction.lag.ms has passed."""

    log: UnifiedLog
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    must: bool

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        return self.cleanable_bytes > 0 and (self.must or self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio)


def log_to_clean(log: UnifiedLog, checkpoint: int | None, now_ms: int) -> LogToClean:
    """The cleanable range of `log`, which is clean below `checkpoint` (None: never cleaned)."""
    first_dirty = log.log_start_offset
    if checkpoint is not None and log.segments[0].base_offset <= checkpoint <= log.log_end_offset:
        first_dirty = max(checkpoint, first_dirty)
    first_uncleanable = max(_first_uncleanable(log, first_dirty, now_ms), first_dirty)
    clean = cleanable = 0
    for segment, end_offset in _with_ends(log):
        if end_offset <= first_dirty:
            clean += segment.size
        elif segment.base_offset < first_uncleanable and first_dirty < first_uncleanable:
            # A cleaning that filled its map ended inside a segment: that counts as dirty whole.
            cleanable += segment.size
    return LogToClean(
        log=log,
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=first_uncleanable,
        clean_bytes=clean,
        cleanable_bytes=cleanable,
        must=_is_overdue(log, first_dirty, first_uncleanable, now_ms),
    )


def _first_uncleanable(log: UnifiedLog, first_dirty: int, now_ms: int) -> int:
    """The end of the cleanable range. Excluded are the active segment, undecided transactions, records that are not
    durable, and records younger than min.compaction.lag.ms."""
    bound = min(log.last_stable_offset, log.active_segment.base_offset, log.recovery_point)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in log.segments:
            if segment.base_offset >= first_dirty and segment.largest_timestamp > now_ms - lag_ms:
                return min(bound, segment.base_offset)
    return bound


def _is_overdue(log: UnifiedLog, first_dirty: int, first_uncleanable: int, now_ms: int) -> bool:
    for segment, end_offset in _with_ends(log)[:-1]:
        if end_offset > first_dirty and segment.base_offset < first_uncleanable and segment.size:
            first_timestamp = segment.rolling_timestamp
            if 0 < first_timestamp < now_ms - log.config.max_compaction_lag_ms:
                return True
    return False


def _with_ends(log: UnifiedLog) -> list[tuple[LogSegment, int]]:
    """Each segment with the base offset of the next one."""
    ends = [segment.base_offset for segment in log.segments[1:]]
    return list(zip(log.segments, [*ends, log.log_end_offset], strict=True))
