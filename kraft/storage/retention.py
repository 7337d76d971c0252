"""Selects the segments that may be deleted, and decides when a segment is full. Pure decisions."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from kraft.storage.log_config import LogConfig
from kraft.storage.log_segment import RELATIVE_OFFSET_MAX, LogSegment, SegmentBounds


class DeletedSegments:
    """Segments removed from a log, and why. `paths` are their files, to be removed after file.delete.delay.ms."""

    __slots__ = ("count", "paths", "reason")

    def __init__(self, paths: Sequence[str], count: int, reason: str) -> None:
        self.paths = paths
        self.count = count
        self.reason = reason


NOTHING_DELETED = DeletedSegments((), 0, "")


def deletable_segments(
    segments: Sequence[LogSegment],
    config: LogConfig,
    *,
    high_watermark: int,
    log_start_offset: int,
    log_end_offset: int,
    now_ms: int,
    log_start_only: bool = False,
) -> tuple[int, str]:
    """Return (how many of the oldest segments may be deleted, why). Never deletes beyond the high watermark, and never
    an empty active segment.

    A tiered log loses only segments before its log start; the retention of the remote tier deletes the others there.
    Its oldest data may exist in the remote tier alone. If copying is disabled and the remote tier is empty, the log is
    treated as one without tiers.

    A topic with cleanup.policy=compact alone loses only segments before its log start. With `delete` it also loses
    segments beyond the retention time or size. A segment's time is its largest timestamp, or the file's time if it has
    none. So a timestamp in the future keeps its segment and all later ones. `log_start_only` disables retention by time
    and size.
    """
    replicated = _replicated(segments, high_watermark, log_end_offset)
    before_start = _before_log_start(replicated, segments, log_start_offset), "log start offset breach"
    if not config.delete:
        return before_start if config.compact else (0, "")
    is_tiered = config.remote_storage_enable and not (
        config.remote_log_copy_disable and log_start_offset >= segments[0].base_offset
    )
    if is_tiered or log_start_only:
        return before_start
    reasons = [
        (_too_old(replicated, config.retention_ms, now_ms), "retention time breach"),
        (_too_much(replicated, segments, config.retention_bytes), "retention size breach"),
        before_start,
    ]
    return max(reasons, key=lambda reason: reason[0])


def must_close_to_expire(
    segments: Sequence[LogSegment], config: LogConfig, *, high_watermark: int, log_end_offset: int, now_ms: int
) -> bool:
    """Whether the active segment of a tiered log must be closed, because it is the only local segment and is due to
    leave the disk. Only a closed segment can be copied and removed."""
    if not config.remote_storage_enable or len(segments) > 1:
        return False
    retention_ms, retention_bytes = config.local_retention
    replicated = _replicated(segments, high_watermark, log_end_offset)
    return _too_old(replicated, retention_ms, now_ms) + _too_much(replicated, segments, retention_bytes) > 0


def _replicated(segments: Sequence[LogSegment], high_watermark: int, log_end_offset: int) -> Sequence[LogSegment]:
    """The leading segments entirely below the high watermark. The active segment is included only if it has records."""
    count = 0
    for index, segment in enumerate(segments):
        is_active = index + 1 == len(segments)
        end_offset = log_end_offset if is_active else segments[index + 1].base_offset
        if end_offset > high_watermark or (is_active and segment.size == 0):
            break
        count += 1
    return segments[:count]


def _too_old(segments: Sequence[LogSegment], retention_ms: int, now_ms: int) -> int:
    count = 0
    if retention_ms >= 0:
        for segment in segments:
            timestamp = segment.largest_timestamp
            if now_ms - (timestamp if timestamp >= 0 else segment.modified_ms()) <= retention_ms:
                break
            count += 1
    return count


def _too_much(candidates: Sequence[LogSegment], segments: Sequence[LogSegment], retention_bytes: int) -> int:
    count = 0
    if retention_bytes >= 0:
        excess = sum(segment.size for segment in segments) - retention_bytes
        for segment in candidates:
            if excess - segment.size < 0:
                break
            excess -= segment.size
            count += 1
    return count


def _before_log_start(candidates: Sequence[LogSegment], segments: Sequence[LogSegment], log_start_offset: int) -> int:
    count = 0
    for index in range(len(candidates)):
        if index + 1 == len(segments) or segments[index + 1].base_offset > log_start_offset:
            break
        count += 1
    return count


def must_roll(
    segment: LogSegment, config: LogConfig, size: int, last_offset: int, max_timestamp: int, now_ms: int
) -> bool:
    """Whether `size` bytes that end at `last_offset` need a new segment: by size, age, a full index, or the range of
    relative offsets."""
    if last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
        return True
    if segment.size == 0:
        return False
    if segment.size > config.segment_bytes - size or segment.index_is_full(config.segment_index_bytes):
        return True
    return is_old_enough_to_roll(segment, config, max_timestamp, now_ms)


def open_bounds(segment: LogSegment, config: LogConfig) -> SegmentBounds | None:
    """The bounds within which `must_roll` is False for a segment until its next index entry. None if it is empty, has a
    full index, or has no timestamp for its age."""
    first = segment.rolling_timestamp if segment.size else -1
    if first < 0 or segment.index_is_full(config.segment_index_bytes):
        return None
    return SegmentBounds(
        config, config.segment_bytes, segment.base_offset + RELATIVE_OFFSET_MAX, first + _age_max(segment, config)
    )


def is_old_enough_to_roll(segment: LogSegment, config: LogConfig, max_timestamp: int, now_ms: int) -> bool:
    """Whether the segment has reached its maximum age. The age runs from the first batch's timestamp to the newest
    record's, or without timestamps from the segment's creation to now."""
    first = segment.rolling_timestamp
    age = max_timestamp - first if first >= 0 and max_timestamp >= 0 else now_ms - segment.created_ms
    return age > _age_max(segment, config)


def _age_max(segment: LogSegment, config: LogConfig) -> int:
    bound = config.segment_ms_max
    return bound - _jitter_ms(segment, min(config.segment_jitter_ms, bound))


def _jitter_ms(segment: LogSegment, bound: int) -> int:
    """A value below segment.jitter.ms (`bound`) that varies between segments and is constant for one."""
    return crc32(segment.path("").encode()) % bound if bound > 0 else 0
