"""The input and output types of assignors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kraft.coordinator.group.consumer.member import Partitions


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as an assignor sees it. `topic_ids` are existing topics; `current` is the member's part of the previous
    target."""

    member_id: str
    instance_id: str | None
    topic_ids: frozenset[bytes]
    current: Partitions


Assignment = dict[str, dict[bytes, set[int]]]
"""Partitions by topic id by member id."""

Assign = Callable[[Sequence[Subscriber], Mapping[bytes, int]], Assignment]
"""Takes the subscribers by member id and the partition counts of the subscribed topics. Each partition goes to exactly
one subscriber of its topic; every subscriber has an entry."""


def subscribers_of_topics(subscribers: Sequence[Subscriber]) -> dict[bytes, list[str]]:
    """The member ids subscribed to each topic, in the order of `subscribers`; topics sorted."""
    found: dict[bytes, list[str]] = {}
    for subscriber in subscribers:
        for topic_id in subscriber.topic_ids:  # unordered: the topics are sorted below
            found.setdefault(topic_id, []).append(subscriber.member_id)
    return {topic_id: found[topic_id] for topic_id in sorted(found)}
