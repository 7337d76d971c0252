"""Which member of a group reads which partition: the range assignor of Kafka's clients, so that mixed groups agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kraft.common.ids import TopicPartition

RANGE = "range"


class Subscriber(NamedTuple):
    """A member as the group's leader sees it. `instance_id` is set for static members (KIP-345)."""

    member_id: str
    instance_id: str | None
    topics: tuple[str, ...]


def assign_range(
    subscribers: Sequence[Subscriber], partition_counts: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Of each topic, neighbouring partitions to each subscriber, the first ones getting one more where they don't
    divide; members static first, then by id."""
    ordered = sorted(subscribers, key=lambda each: (each.instance_id is None, each.instance_id or "", each.member_id))
    assigned: dict[str, list[TopicPartition]] = {subscriber.member_id: [] for subscriber in ordered}
    for topic in sorted({topic for subscriber in subscribers for topic in subscriber.topics}):
        readers = [subscriber for subscriber in ordered if topic in subscriber.topics]
        share, more = divmod(partition_counts.get(topic, 0), len(readers))
        first = 0
        for position, reader in enumerate(readers):
            count = share + (position < more)
            assigned[reader.member_id] += [TopicPartition(topic, index) for index in range(first, first + count)]
            first += count
    return assigned
