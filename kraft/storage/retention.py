"""The segments that may be deleted, and when a segment is full. Pure decisions over facts."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from kraft.storage.log_config import LogConfig
from kraft.storage.log_segment import RELATIVE_OFFSET_MAX, LogSegment, SegmentBounds


class DeletedSegments:
    """Segments taken out of a log, and why. `paths` are their files, to be removed after file.delete.delay.ms."""

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
) -> tuple[int, str]:
    """(how many of the oldest segments may go, why). Never beyond the high watermark, never an empty active segment.

    A tiered log is left to the remote tier's retention: it loses what lies before its log start. What is older than its
    first segment may be in the remote tier alone. Where copying is switched off and nothing is left there, the log is
    like any other.

    A topic that only compacts loses what lies before its log start; one that deletes also what is too old or too
    much. Time counts by a segment's largest timestamp (the file's time when it has none), so that one timestamp in
    the future pins its segment and all that follow.
    """
    replicated = _replicated(segments, high_watermark, log_end_offset)
    if not config.delete:
        if not config.compact:
            return 0, ""
        return _before_log_start(replicated, segments, log_start_offset), "log start offset breach"
    if config.remote_storage_enable and not (
        config.remote_log_copy_disable and log_start_offset >= segments[0].base_offset
    ):
        return _before_log_start(replicated, segments, log_start_offset), "log start offset breach"
    reasons = [
        (_too_old(replicated, config.retention_ms, now_ms), "retention time breach"),
        (_too_much(replicated, segments, config.retention_bytes), "retention size breach"),
        (_before_log_start(replicated, segments, log_start_offset), "log start offset breach"),
    ]
    return max(reasons, key=lambda reason: reason[0])


def must_close_to_expire(
    segments: Sequence[LogSegment], config: LogConfig, *, high_watermark: int, log_end_offset: int, now_ms: int
) -> bool:
    """Whether a tiered log has nothing on the disk but its active segment, and that one is to leave the disk: only a
    closed one is copied, and may go."""
    if not config.remote_storage_enable or len(segments) > 1:
        return False
    retention_ms, retention_bytes = config.local_retention
    replicated = _replicated(segments, high_watermark, log_end_offset)
    return _too_old(replicated, retention_ms, now_ms) + _too_much(replicated, segments, retention_bytes) > 0


def _replicated(segments: Sequence[LogSegment], high_watermark: int, log_end_offset: int) -> Sequence[LogSegment]:
    """The leading segments that lie wholly below the high watermark; the active one only if it has records."""
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
    """Whether `size` bytes that end at `last_offset` belong into a new segment: by size, age, a full index, or
    offsets too far from the base."""
    if last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
        return True
    if segment.size == 0:
        return False
    if segment.size > config.segment_bytes - size or segment.index_is_full(config.segment_index_bytes):
        return True
    return is_old_enough_to_roll(segment, config, max_timestamp, now_ms)


def open_bounds(segment: LogSegment, config: LogConfig) -> SegmentBounds | None:
    """The bounds within which `must_roll` is False for a segment until its next index entry. None where they say too
    little: it is empty, has a full index, or no timestamp to count its age from."""
    first = segment.rolling_timestamp if segment.size else -1
    if first < 0 or segment.index_is_full(config.segment_index_bytes):
        return None
    return SegmentBounds(
        config, config.segment_bytes, segment.base_offset + RELATIVE_OFFSET_MAX, first + _age_max(segment, config)
    )


def is_old_enough_to_roll(segment: LogSegment, config: LogConfig, max_timestamp: int, now_ms: int) -> bool:
    """Age runs from the first batch's timestamp to the newest record's; from the segment's creation to now where
    there are no timestamps."""
    first = segment.rolling_timestamp
    age = max_timestamp - first if first >= 0 and max_timestamp >= 0 else now_ms - segment.created_ms
    return age > _age_max(segment, config)


def _age_max(segment: LogSegment, config: LogConfig) -> int:
    bound = config.segment_ms_max
    return bound - _jitter_ms(segment, min(config.segment_jitter_ms, bound))


def _jitter_ms(segment: LogSegment, bound: int) -> int:
    """A part of segment.jitter.ms (`bound`) that differs between segments and stays the same for one."""
    return crc32(segment.path("").encode()) % bound if bound > 0 else 0
