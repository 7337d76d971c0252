"""The target assignment: the assignment that holds once all members have reached its epoch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

from kraft.coordinator.group.consumer.assignors import range as range_assignor
from kraft.coordinator.group.consumer.assignors import uniform
from kraft.coordinator.group.consumer.assignors.subscriber import Assign, Subscriber
from kraft.coordinator.group.consumer.consumer_group import ConsumerGroup
from kraft.coordinator.group.consumer.member import Partitions
from kraft.coordinator.group.topic_directory import TopicDirectory
from kraft.world.steps import Steps

ASSIGNORS: Final[Mapping[str, Assign]] = {
    uniform.NAME: uniform.assign,
    range_assignor.NAME: range_assignor.assign,
}

TopicCounts = dict[str, tuple[bytes, int]]
"""Id and number of partitions of each topic, by name."""


def counted_topics(group: ConsumerGroup, topics: TopicDirectory) -> Steps[TopicCounts]:
    """The existing topics that the group subscribes to, sorted by name. Yields after each name."""
    found: TopicCounts = {}
    for name in sorted(group.subscribed_topics()):
        topic_id = topics.topic_id(name)
        if topic_id is not None:
            found[name] = (topic_id, topics.partition_count(name))
        yield None
    return found


def compute_target(group: ConsumerGroup, assignor: str, topics: TopicCounts) -> dict[str, Partitions]:
    """The assignment of every member, sorted by member id."""
    seen: dict[frozenset[str], frozenset[bytes]] = {}
    subscribers = []
    for member in group.members_in_order():
        names = group.topics_of(member)
        if names not in seen:
            seen[names] = frozenset(topics[name][0] for name in names if name in topics)
        subscribers.append(
            Subscriber(member.member_id, member.instance_id, seen[names], group.target_of(member.member_id))
        )
    assignment = ASSIGNORS[assignor](subscribers, dict(topics.values()))
    return {
        member_id: {topic_id: frozenset(partitions) for topic_id, partitions in parts.items()}
        for member_id, parts in assignment.items()
    }


def metadata_hash(names: Iterable[str], topics: TopicDirectory) -> int:
    """A digest of the topics that a group subscribes to. It changes when one of them is created, deleted, recreated or
    gets partitions. 0 if none of them exists. Brokers compare it only with their own, so it need not be Kafka's."""
    digest = hashlib.blake2b(digest_size=8)
    found = False
    for name in sorted(names):
        topic_id = topics.topic_id(name)
        if topic_id is not None:
            found = True
            digest.update(topic_id + topics.partition_count(name).to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True) if found else 0
