"""The uniform assignor: balances the number of partitions per member, with as few moves as possible.

If all members subscribe to the same topics, the shares differ by at most one partition. Otherwise they differ as little
as the subscriptions allow: no chain of moves leads from a member to one with at least two partitions less. Among such
assignments, one that moves the fewest partitions is chosen. (Very large groups may move a few more, because the search
is bounded.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kraft.coordinator.group.consumer.assignors.chains import even_out
from kraft.coordinator.group.consumer.assignors.returns import bring_back
from kraft.coordinator.group.consumer.assignors.shares import Shares
from kraft.coordinator.group.consumer.assignors.subscriber import Assignment, Subscriber, subscribers_of_topics

NAME = "uniform"


def assign(subscribers: Sequence[Subscriber], partition_counts: Mapping[bytes, int]) -> Assignment:
    """Assign uniformly. Implements `subscriber.Assign`."""
    if not subscribers:
        return {}
    assignment, free = _keep(subscribers, partition_counts)
    if all(subscriber.topic_ids == subscribers[0].topic_ids for subscriber in subscribers):
        _share_out(assignment, free, sum(partition_counts[topic_id] for topic_id in subscribers[0].topic_ids))
    else:
        _balance(assignment, free, subscribers_of_topics(subscribers))
    return assignment


def _keep(
    subscribers: Sequence[Subscriber], partition_counts: Mapping[bytes, int]
) -> tuple[Assignment, list[tuple[bytes, int]]]:
    """Return the current partitions that each member keeps because it still subscribes to them, and the partitions
    without an owner."""
    taken: dict[bytes, set[int]] = {topic_id: set() for topic_id in partition_counts}
    assignment: Assignment = {}
    for subscriber in subscribers:
        kept = assignment[subscriber.member_id] = {}
        for topic_id in sorted(subscriber.current):
            if topic_id not in subscriber.topic_ids:
                continue
            count = partition_counts[topic_id]
            mine = {partition for partition in subscriber.current[topic_id] if partition < count} - taken[topic_id]
            if mine:
                kept[topic_id] = mine
                taken[topic_id] |= mine
    free = [
        (topic_id, partition)
        for topic_id in sorted(partition_counts)
        for partition in range(partition_counts[topic_id])
        if partition not in taken[topic_id]
    ]
    return assignment, free


def _share_out(assignment: Assignment, free: list[tuple[bytes, int]], total: int) -> None:
    """Balance equal subscriptions. Members above their share give up their last partitions. The remainder stays with
    members that have it."""
    share, extra = divmod(total, len(assignment))
    loads = {member_id: _load(parts) for member_id, parts in assignment.items()}
    quotas = dict.fromkeys(assignment, share)
    for member_id in sorted(assignment, key=lambda member_id: (loads[member_id] <= share, member_id))[:extra]:
        quotas[member_id] += 1
    for member_id, parts in assignment.items():
        free += _take_last(parts, loads[member_id] - quotas[member_id])
    free.sort(reverse=True)
    for member_id, parts in assignment.items():
        for _ in range(quotas[member_id] - loads[member_id]):
            _give(parts, *free.pop())


def _balance(
    assignment: Assignment, free: Sequence[tuple[bytes, int]], by_topic: Mapping[bytes, Sequence[str]]
) -> None:
    """Balance different subscriptions: first compute how many partitions of each topic each member gets, then move
    them."""
    topics = {topic_id: number for number, topic_id in enumerate(by_topic)}
    members = {member_id: number for number, member_id in enumerate(assignment)}
    left: list[list[int]] = [[] for _ in topics]
    for topic_id, partition in free:
        left[topics[topic_id]].append(partition)
    shares = Shares(
        [[members[member_id] for member_id in member_ids] for member_ids in by_topic.values()],
        [{topics[topic_id]: len(parts[topic_id]) for topic_id in parts} for parts in assignment.values()],
    )
    shares.fill(list(map(len, left)))
    shares.level()
    even_out(shares)
    bring_back(shares)
    _move(assignment, left, shares, list(by_topic))


def _move(assignment: Assignment, left: list[list[int]], shares: Shares, topic_ids: Sequence[bytes]) -> None:
    """Move partitions to match the shares. A member with too many gives up its last ones. These and the partitions
    `left` of each topic are assigned."""
    for parts, had, has in zip(assignment.values(), shares.had, shares.has, strict=True):
        for topic, before in had.items():
            less = before - has.get(topic, 0)
            if less > 0:
                for partition in sorted(parts[topic_ids[topic]], reverse=True)[:less]:
                    _take(parts, topic_ids[topic], partition)
                    left[topic].append(partition)
    for partitions in left:
        partitions.sort(reverse=True)
    for parts, had, has in zip(assignment.values(), shares.had, shares.has, strict=True):
        for topic in sorted(has):
            for _ in range(has[topic] - had.get(topic, 0)):
                _give(parts, topic_ids[topic], left[topic].pop())


def _load(parts: Mapping[bytes, set[int]]) -> int:
    return sum(map(len, parts.values()))


def _give(parts: dict[bytes, set[int]], topic_id: bytes, partition: int) -> None:
    parts.setdefault(topic_id, set()).add(partition)


def _take(parts: dict[bytes, set[int]], topic_id: bytes, partition: int) -> None:
    parts[topic_id].discard(partition)
    if not parts[topic_id]:
        del parts[topic_id]


def _take_last(parts: dict[bytes, set[int]], count: int) -> list[tuple[bytes, int]]:
    """Remove the last `count` partitions, by topic and number. Each topic is sorted once."""
    taken: list[tuple[bytes, int]] = []
    for topic_id in sorted(parts, reverse=True):
        if len(taken) >= count:
            break
        for partition in sorted(parts[topic_id], reverse=True)[: count - len(taken)]:
            _take(parts, topic_id, partition)
            taken.append((topic_id, partition))
    return taken
