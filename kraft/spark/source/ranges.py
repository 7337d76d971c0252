"""The offsets that each Spark task reads, and the records per trigger. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kraft.common.ids import TopicPartition
from kraft.spark.errors import PlanIncomplete, show_partitions, start_after_end

OFFSET_MAX = 2**63 - 1
TASK_OFFSETS_MIN = 10_000
"""With fewer offsets, starting a task of a micro-batch costs more than reading them."""


class OffsetRange(NamedTuple):
    """Offsets `[start, end)` of one partition: what one Spark task reads."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: bytes | None = None
    """The id of the topic for which the range was planned; None if unknown."""

    @property
    def size(self) -> int:
        return self.end - self.start

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def whole_ranges(
    assigned: Iterable[TopicPartition], starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> list[OffsetRange]:
    """Return the range of each assigned partition, in order, including empty ranges. Raises PlanIncomplete if a start
    or end is missing or invalid, and SourceError for a start beyond its end."""
    wanted = sorted(assigned)
    for side, offsets in (("start", starts), ("end", ends)):
        if missing := [each for each in wanted if offsets.get(each, -1) < 0]:
            raise PlanIncomplete(f"partitions {show_partitions(missing)}", f"their {side} offsets are not known")
        if strange := offsets.keys() - set(wanted):
            raise PlanIncomplete(f"partitions {show_partitions(strange)}", f"only their {side} offsets are known")
    ranges = [OffsetRange(each.topic, each.partition, starts[each], ends[each]) for each in wanted]
    for each in ranges:
        if each.start > each.end:
            raise start_after_end(each.topic_partition, each.start, each.end)
    return ranges


def split_ranges(
    ranges: Iterable[OffsetRange], partitions_min: int | None, records_max: int | None
) -> list[OffsetRange]:
    """Split ranges into one per task. Each has at most `records_max` offsets. Large ranges are then split in proportion
    to get about `partitions_min` tasks. Empty ranges are dropped."""
    whole = [each for each in ranges if each.size > 0]
    if records_max is not None:
        whole = [part for each in whole for part in divide(each, -(-each.size // records_max))]
    if partitions_min is None or len(whole) >= partitions_min:
        return whole
    total = sum(each.size for each in whole)
    small = [share(each.size, total, partitions_min) == 1 for each in whole]
    rest_size = total - sum(each.size for each, is_small in zip(whole, small, strict=True) if is_small)
    rest_count = max(partitions_min - sum(small), 1)
    return [
        part
        for each, is_small in zip(whole, small, strict=True)
        for part in divide(each, 1 if is_small else share(each.size, rest_size, rest_count))
    ]


def group_ranges(ranges: Iterable[OffsetRange]) -> list[tuple[OffsetRange, ...]]:
    """Group ranges into the tasks of a micro-batch: small neighbours share a task. The result depends on the ranges
    alone, so a replayed batch has the same tasks."""
    tasks: list[tuple[OffsetRange, ...]] = []
    room = 0
    for each in ranges:
        if tasks and each.size <= room:
            tasks[-1] += (each,)
        else:
            tasks.append((each,))
            room = TASK_OFFSETS_MIN
        room -= each.size
    return tasks


def share(size: int, total: int, count: int) -> int:
    """Return how many of `count` tasks a range of `size` gets: its share of `total`, rounded half up, at least one."""
    return max(math.floor(size / total * count + 0.5), 1)


def divide(whole: OffsetRange, count: int) -> list[OffsetRange]:
    """Split `whole` into `count` adjacent ranges of about equal size. Empty ones are left out."""
    parts, start, remaining = [], whole.start, whole.size
    for index in range(count):
        size = remaining // (count - index)
        remaining -= size
        if size:
            parts.append(whole._replace(start=start, end=start + size))
        start += size
    return parts


def gone_back(known: Mapping[TopicPartition, int], told: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the partitions whose reported offset is below the known one, with the reported offset; -1 if the partition
    is missing."""
    return {
        partition: told.get(partition, -1) for partition, offset in known.items() if told.get(partition, -1) < offset
    }


def rate_limit(
    limit: int,
    start: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
    earliest_of_new: Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, int]],
) -> dict[TopicPartition, int]:
    """Return end offsets for about `limit` records, split in proportion to lag. Every lagging partition gets some."""
    begins = {**start, **earliest_of_new(sorted(latest.keys() - start.keys()))}
    lags = {
        partition: end - begins[partition]
        for partition, end in latest.items()
        if partition in begins and end > begins[partition]
    }
    total = sum(lags.values())
    if total < 1:
        return dict(latest)
    ends = dict(latest)
    for partition, lag in lags.items():
        portion = limit * (lag / total)
        taken = math.ceil(portion) if portion < 1 else math.floor(portion)
        ends[partition] = min(latest[partition], begins[partition] + taken, OFFSET_MAX)
    return ends
