"""The range assignor: each topic is cut into one range of partitions for each of its subscribers.

The order of subscribers is stable while membership is: static members by instance id, then the others by member id. So
a subscriber gets the same range of every topic with the same partition count and subscribers, which joins of
co-partitioned topics need. A static member that restarts with another member id keeps its partitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kraft.coordinator.group.consumer.assignors.subscriber import Assignment, Subscriber, subscribers_of_topics

NAME = "range"


def assign(subscribers: Sequence[Subscriber], partition_counts: Mapping[bytes, int]) -> Assignment:
    """Assign by ranges. Implements `subscriber.Assign`."""
    assignment: Assignment = {subscriber.member_id: {} for subscriber in subscribers}
    for topic_id, member_ids in subscribers_of_topics(sorted(subscribers, key=_rank)).items():
        share, extra = divmod(partition_counts[topic_id], len(member_ids))
        start = 0
        for position, member_id in enumerate(member_ids):
            end = start + share + (position < extra)
            if end > start:
                assignment[member_id][topic_id] = set(range(start, end))
            start = end
    return assignment


def _rank(subscriber: Subscriber) -> tuple[bool, str]:
    if subscriber.instance_id is not None:
        return False, subscriber.instance_id
    return True, subscriber.member_id
