"""The uniform assignor: as many partitions for each member as for any other, moving no more of them than that takes.

Where all members subscribe to the same topics, the shares differ by at most one partition. Where they do not, no
partition can be moved from its owner to another subscriber of its topic that has at least two partitions less.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from kraft.coordinator.group.consumer.assignors.subscriber import Assignment, Subscriber, subscribers_of_topics

NAME = "uniform"


def assign(subscribers: Sequence[Subscriber], partition_counts: Mapping[bytes, int]) -> Assignment:
    """See `subscriber.Assign`."""
    if not subscribers:
        return {}
    assignment, free = _keep(subscribers, partition_counts)
    if all(subscriber.topic_ids == subscribers[0].topic_ids for subscriber in subscribers):
        _share_out(assignment, free, sum(partition_counts[topic_id] for topic_id in subscribers[0].topic_ids))
    else:
        by_topic = subscribers_of_topics(subscribers)
        _fill(assignment, free, by_topic)
        _balance(assignment, by_topic)
    return assignment


def _keep(
    subscribers: Sequence[Subscriber], partition_counts: Mapping[bytes, int]
) -> tuple[Assignment, list[tuple[bytes, int]]]:
    """Who keeps what it was to have, as far as it subscribes to it; and the partitions that nobody has then."""
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
    """Equal shares for all: who has more gives up its last partitions. The odd ones stay with those who have them."""
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


def _fill(assignment: Assignment, free: list[tuple[bytes, int]], by_topic: Mapping[bytes, list[str]]) -> None:
    """Each free partition to the subscriber that has least; topics with few subscribers first."""
    loads = {member_id: _load(parts) for member_id, parts in assignment.items()}
    free.sort(key=lambda key: (len(by_topic[key[0]]), key))
    least: list[tuple[int, str]] = []
    present = None
    for topic_id, partition in free:
        if topic_id != present:
            present = topic_id
            least = [(loads[member_id], member_id) for member_id in by_topic[topic_id]]
            heapq.heapify(least)
        load, member_id = least[0]
        heapq.heapreplace(least, (load + 1, member_id))
        loads[member_id] = load + 1
        _give(assignment[member_id], topic_id, partition)


def _balance(assignment: Assignment, by_topic: Mapping[bytes, list[str]]) -> None:
    """Move partitions from those who have most to those who have least, topic after topic, until nothing moves. Each
    move makes the sum of the squares of all loads smaller, so there is an end."""
    loads = {member_id: _load(parts) for member_id, parts in assignment.items()}
    shared = {topic_id: member_ids for topic_id, member_ids in by_topic.items() if len(member_ids) > 1}
    moved = True
    while moved:
        moved = False
        for topic_id, member_ids in shared.items():
            moved = _balance_topic(assignment, loads, topic_id, member_ids) or moved


def _balance_topic(assignment: Assignment, loads: dict[str, int], topic_id: bytes, member_ids: list[str]) -> bool:
    least = [(loads[member_id], member_id) for member_id in member_ids]
    most = [(-loads[member_id], member_id) for member_id in member_ids if topic_id in assignment[member_id]]
    heapq.heapify(least)
    heapq.heapify(most)
    last_first: dict[str, list[int]] = {}
    moved = False
    while most:
        load, giver = heapq.heappop(most)
        if -load != loads[giver] or topic_id not in assignment[giver]:
            continue  # It gave since; its newer entry follows.
        while least[0][0] != loads[least[0][1]]:
            heapq.heapreplace(least, (loads[least[0][1]], least[0][1]))
        taker = least[0][1]
        if loads[giver] - loads[taker] < 2:
            return moved
        if giver not in last_first:
            last_first[giver] = sorted(-partition for partition in assignment[giver][topic_id])
        partition = -heapq.heappop(last_first[giver])
        _take(assignment[giver], topic_id, partition)
        _give(assignment[taker], topic_id, partition)
        if taker in last_first:
            heapq.heappush(last_first[taker], -partition)
        loads[giver] -= 1
        loads[taker] += 1
        heapq.heappush(most, (-loads[giver], giver))
        heapq.heappush(most, (-loads[taker], taker))
        moved = True
    return moved


def _load(parts: Mapping[bytes, set[int]]) -> int:
    return sum(map(len, parts.values()))


def _give(parts: dict[bytes, set[int]], topic_id: bytes, partition: int) -> None:
    parts.setdefault(topic_id, set()).add(partition)


def _take(parts: dict[bytes, set[int]], topic_id: bytes, partition: int) -> None:
    parts[topic_id].discard(partition)
    if not parts[topic_id]:
        del parts[topic_id]


def _take_last(parts: dict[bytes, set[int]], count: int) -> list[tuple[bytes, int]]:
    """Take away the last `count` partitions, in order of topics and numbers. Each topic is sorted once."""
    taken: list[tuple[bytes, int]] = []
    for topic_id in sorted(parts, reverse=True):
        if len(taken) >= count:
            break
        for partition in sorted(parts[topic_id], reverse=True)[: count - len(taken)]:
            _take(parts, topic_id, partition)
            taken.append((topic_id, partition))
    return taken
