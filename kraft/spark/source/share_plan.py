"""The micro-batches of a share group: the acquired offsets, their form in Spark's checkpoint, and the tasks. Pure.

A micro-batch of a share group is a list of acquired ranges, not the difference of two offsets. The offset that Spark
stores before a micro-batch therefore names its ranges: a batch that is run again after a failure reads the same
records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kraft.common.ids import uuid_from_text, uuid_to_text
from kraft.spark.option_values import integer

PROCESSED_MAX: Final = 100_000
"""The offsets of earlier micro-batches that are remembered because they were not accepted; the oldest are dropped."""

Slot = tuple[bytes, int, int]
"""One offset: topic id, partition, offset."""


class ShareRange(NamedTuple):
    """Acquired offsets of one partition, `last` inclusive. `delivery_count` includes this delivery."""

    topic: str
    topic_id: bytes
    partition: int
    first: int
    last: int
    delivery_count: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def slots(self) -> Iterable[Slot]:
        return ((self.topic_id, self.partition, offset) for offset in range(self.first, self.last + 1))


class AcquiredOffset(NamedTuple):
    """One acquired offset. `delivery_count` includes this delivery."""

    topic: str
    topic_id: bytes
    partition: int
    offset: int
    delivery_count: int

    @property
    def slot(self) -> Slot:
        return self.topic_id, self.partition, self.offset


class ShareOffset(NamedTuple):
    """What Spark's checkpoint stores of a micro-batch. `ranges` are its records. `processed` are records of earlier
    micro-batches whose acceptance was not confirmed. `batch` counts micro-batches, so that no two have the same
    text."""

    group: str
    batch: int
    ranges: tuple[ShareRange, ...] = ()
    processed: tuple[ShareRange, ...] = ()

    def to_json(self) -> dict[str, Any]:
        topics = {each.topic_id: each.topic for each in (*self.ranges, *self.processed)}
        return {
            "shareGroup": self.group,
            "batch": self.batch,
            "topics": {uuid_to_text(topic_id): topics[topic_id] for topic_id in sorted(topics)},
            "ranges": [_to_list(each) for each in self.ranges],
            "processed": [_to_list(each) for each in self.processed],
        }


def share_offset(value: Mapping[str, Any], group: str) -> ShareOffset:
    """Parse `ShareOffset.to_json`. Raises ValueError for a checkpoint of another share group, or of a query without
    one."""
    if not is_share_offset(value):
        raise ValueError(
            f"The checkpoint belongs to a query without shareGroup, and this one reads from share group {group}: give "
            "the query another checkpointLocation"
        )
    if value["shareGroup"] != group:
        raise ValueError(
            f"The checkpoint belongs to share group {value['shareGroup']}, and option shareGroup is {group}: give the "
            "query another checkpointLocation"
        )
    topics = value["topics"]
    ranges, processed = (tuple(_of_list(each, topics) for each in value[name]) for name in ("ranges", "processed"))
    return ShareOffset(group, integer(value["batch"]), ranges, processed)


def is_share_offset(value: Mapping[str, Any]) -> bool:
    """Whether a checkpoint's offset is of a share group. The other offsets have a mapping for each topic."""
    return isinstance(value.get("shareGroup"), str)


def _to_list(each: ShareRange) -> list[Any]:
    return [uuid_to_text(each.topic_id), each.partition, each.first, each.last, each.delivery_count]


def _of_list(value: Sequence[Any], topics: Mapping[str, str]) -> ShareRange:
    topic_id, *numbers = value
    partition, first, last, delivery_count = map(integer, numbers)
    return ShareRange(topics[topic_id], uuid_from_text(topic_id), partition, first, last, delivery_count)


def refuse_share_offset(value: Mapping[str, Any]) -> None:
    """Check the checkpoint of a query without shareGroup. Raises ValueError if a share group's query wrote it."""
    if is_share_offset(value):
        raise ValueError(
            f"The checkpoint belongs to share group {value['shareGroup']}, and this query has no option shareGroup: "
            "give the query another checkpointLocation"
        )


def with_finished(unsettled: Mapping[Slot, str], ended: ShareOffset) -> dict[Slot, str]:
    """Return the unsettled offsets, the oldest first, after a micro-batch has ended: those from before, and the
    micro-batch's own. At most the newest PROCESSED_MAX of those from before are kept."""
    kept = {**unsettled, **{slot: each.topic for each in ended.processed for slot in each.slots()}}
    kept = dict(list(kept.items())[-PROCESSED_MAX:])
    return {**kept, **{slot: each.topic for each in ended.ranges for slot in each.slots()}}


def next_batch(before: ShareOffset, held: Iterable[AcquiredOffset], unsettled: Mapping[Slot, str]) -> ShareOffset:
    """Return the micro-batch that reads the held offsets. It also stores the unsettled ones, the oldest first."""
    processed = _joined(AcquiredOffset(topic, *slot, 0) for slot, topic in unsettled.items())
    return ShareOffset(before.group, before.batch + 1, _joined(sorted(held)), processed)


def _joined(offsets: Iterable[AcquiredOffset]) -> tuple[ShareRange, ...]:
    """Join adjacent offsets that have the same delivery count, in the given order."""
    joined: list[ShareRange] = []
    for topic, topic_id, partition, offset, count in offsets:
        last = joined[-1] if joined else None
        if last is not None and last == (topic, topic_id, partition, last.first, offset - 1, count):
            joined[-1] = last._replace(last=offset)
        else:
            joined.append(ShareRange(topic, topic_id, partition, offset, offset, count))
    return tuple(joined)


def split_into_tasks(ranges: Iterable[ShareRange], readers: int) -> list[tuple[ShareRange, ...]]:
    """Split ranges into at most `readers` tasks with about as many offsets each. A partition may have several tasks.
    The result depends on the arguments alone, so a batch that is run again has the same tasks."""
    rest = list(ranges)[::-1]
    total = sum(each.size for each in rest)
    count = min(readers, total)
    tasks = []
    for index in range(count):
        room = -(-total // (count - index))
        total -= room
        task = []
        while room:
            each = rest.pop()
            if each.size > room:
                rest.append(each._replace(first=each.first + room))
                each = each._replace(last=each.first + room - 1)
            task.append(each)
            room -= each.size
        tasks.append(tuple(task))
    return tasks
