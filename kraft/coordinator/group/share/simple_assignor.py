"""The simple assignor of share groups (KIP-932): every partition has a member, and every member has a partition.

Partitions are divided if there are at least as many as members, else shared by members in equal numbers. A member keeps
what it has as far as that allows. Topics that not all members subscribe to are assigned topic by topic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kraft.coordinator.group.consumer.member import Partitions

NAME: Final = "simple"

Place = tuple[bytes, int]
"""A topic id and a partition."""


def assign(
    subscriptions: Mapping[str, frozenset[bytes]],
    partitions: Mapping[bytes, frozenset[int]],
    target_of: Callable[[str], Partitions],
) -> dict[str, Partitions]:
    """Return the target of each member of `subscriptions` (member id: topic ids). `partitions` are those that may be
    assigned; `target_of` returns a member's target so far."""
    by_topic: dict[bytes, list[str]] = {}
    for member_id in sorted(subscriptions):
        for topic_id in subscriptions[member_id]:  # unordered: each topic's members are listed in order
            by_topic.setdefault(topic_id, []).append(member_id)
    together: dict[tuple[str, ...], list[Place]] = {}
    for topic_id in sorted(by_topic):
        places = together.setdefault(tuple(by_topic[topic_id]), [])
        places += [(topic_id, partition) for partition in sorted(partitions.get(topic_id, ()))]
    targets: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in sorted(subscriptions)}
    for members, places in together.items():
        if not places:
            continue
        held = {
            member_id: [place for place in places if place[1] in target_of(member_id).get(place[0], ())]
            for member_id in members
        }
        divide = _divided if len(places) >= len(members) else _shared
        for member_id, taken in divide(members, places, held).items():
            for topic_id, partition in taken:
                targets[member_id].setdefault(topic_id, set()).add(partition)
    return {
        member_id: {topic_id: frozenset(found) for topic_id, found in topics.items()}
        for member_id, topics in targets.items()
    }


def _divided(
    members: Sequence[str], places: Sequence[Place], held: Mapping[str, Sequence[Place]]
) -> dict[str, list[Place]]:
    """Assign each partition to one member. The members' numbers of partitions differ by at most one."""
    least, more = divmod(len(places), len(members))
    taken: dict[str, list[Place]] = {member_id: [] for member_id in members}
    free = dict.fromkeys(places)
    # Those that have the most keep one more than the others.
    for member_id in sorted(members, key=lambda each: (-len(held[each]), each)):
        quota = least + (1 if more else 0)
        for place in held[member_id]:
            if place in free and len(taken[member_id]) < quota:
                del free[place]
                taken[member_id].append(place)
        if more and len(taken[member_id]) == quota:
            more -= 1
    waiting = list(free)
    for quota in (least, least + 1):
        for member_id in members:
            while waiting and len(taken[member_id]) < quota:
                taken[member_id].append(waiting.pop(0))
    return taken


def _shared(
    members: Sequence[str], places: Sequence[Place], held: Mapping[str, Sequence[Place]]
) -> dict[str, list[Place]]:
    """Assign one partition to each member. The partitions' numbers of members differ by at most one."""
    least, more = divmod(len(members), len(places))
    counts = dict.fromkeys(places, 0)
    taken: dict[str, list[Place]] = {}
    for member_id in members:
        for place in held[member_id]:
            if counts[place] < least or (more and counts[place] == least):
                more -= counts[place] == least
                counts[place] += 1
                taken[member_id] = [place]
                break
    for member_id in members:
        if member_id not in taken:
            place = min(places, key=lambda each: (counts[each], each))
            counts[place] += 1
            taken[member_id] = [place]
    return taken
