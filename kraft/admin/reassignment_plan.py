"""Plans for moving partitions between brokers. Pure, and the same for equal input.

A replica is moved only if its broker is not among the wanted ones, or to level the load. A moved replica keeps its
place in the list, so that preferred leaders change as little as possible. Load is counted in replicas. No two replicas
of a partition share a broker, and a move never makes its replicas share more racks than before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


class PlanBroker(NamedTuple):
    id: int
    rack: str | None = None


Place = tuple[str, int]
"""Topic and partition."""
Assignment = Mapping[Place, Sequence[int]]
"""The replicas of partitions, the preferred leader first."""


class Plan(NamedTuple):
    """`moves` holds the new replicas of the partitions that change; `impossible` the partitions for which there are too
    few brokers."""

    moves: dict[Place, tuple[int, ...]]
    impossible: tuple[Place, ...]


def replica_counts(partitions: Iterable[Sequence[int]]) -> dict[int, int]:
    """The number of replicas on each broker."""
    counts: dict[int, int] = {}
    for replicas in partitions:
        for broker in replicas:
            counts[broker] = counts.get(broker, 0) + 1
    return counts


def substitute(
    replicas: Sequence[int], brokers: Sequence[PlanBroker], racks: Mapping[int, str | None], load: dict[int, int]
) -> tuple[int, ...] | None:
    """`replicas` with each replica that is not on one of `brokers` replaced by the least loaded of them; None if there
    are too few. Updates `load`."""
    wanted = {broker.id for broker in brokers}
    result = list(replicas)
    for index, replica in enumerate(replicas):
        if replica in wanted:
            continue
        used = [racks.get(other) for position, other in enumerate(result) if position != index and other in wanted]
        candidates = [broker for broker in brokers if broker.id not in result]
        if not candidates:
            return None
        chosen = min(
            candidates,
            key=lambda broker: (broker.rack is not None and broker.rack in used, load.get(broker.id, 0), broker.id),
        ).id
        result[index] = chosen
        load[chosen] = load.get(chosen, 0) + 1
        load[replica] = load.get(replica, 0) - 1
    return tuple(result)


def move_off(partitions: Assignment, brokers: Sequence[PlanBroker], load: Mapping[int, int]) -> Plan:
    """A plan after which `partitions` are only on `brokers`; nothing else is moved. `load` counts replicas of the whole
    cluster."""
    racks = {broker.id: broker.rack for broker in brokers}
    counts = dict(load)
    moves: dict[Place, tuple[int, ...]] = {}
    impossible = []
    for place, replicas in sorted(partitions.items()):
        target = substitute(replicas, brokers, racks, counts)
        if target is None:
            impossible.append(place)
        elif target != tuple(replicas):
            moves[place] = target
    return Plan(moves, tuple(impossible))


def with_copies(partitions: Assignment, brokers: Sequence[PlanBroker], count: int, load: Mapping[int, int]) -> Plan:
    """A plan after which every partition has `count` replicas; of its present ones the first are kept.

    New replicas go to `brokers`: first to racks without a replica, then to the least loaded. `load` counts replicas of
    the whole cluster.
    """
    racks = {broker.id: broker.rack for broker in brokers}
    counts = dict(load)
    moves: dict[Place, tuple[int, ...]] = {}
    impossible = []
    for place, replicas in sorted(partitions.items()):
        target = list(replicas[:count])
        while len(target) < count and (candidates := [broker for broker in brokers if broker.id not in target]):
            used = {racks.get(replica) for replica in target} - {None}
            chosen = min(candidates, key=lambda each: (each.rack in used, counts.get(each.id, 0), each.id)).id
            target.append(chosen)
            counts[chosen] = counts.get(chosen, 0) + 1
        if len(target) < count:
            impossible.append(place)
        elif target != list(replicas):
            moves[place] = tuple(target)
    return Plan(moves, tuple(impossible))


def spread(partitions: Assignment, brokers: Sequence[PlanBroker]) -> Plan:
    """A plan after which `partitions` are only on `brokers`, and each broker has the same number of their replicas and
    of their preferred leaders, give or take one."""
    racks = {broker.id: broker.rack for broker in brokers}
    off = move_off(partitions, brokers, replica_counts(partitions.values()))
    targets = {
        place: list(off.moves.get(place, tuple(replicas)))
        for place, replicas in sorted(partitions.items())
        if place not in off.impossible
    }
    _level_replicas(targets, [broker.id for broker in brokers], racks)
    _level_leaders(targets, [broker.id for broker in brokers])
    moves = {
        place: tuple(replicas) for place, replicas in targets.items() if tuple(replicas) != tuple(partitions[place])
    }
    return Plan(moves, off.impossible)


def _level_replicas(targets: dict[Place, list[int]], brokers: Sequence[int], racks: Mapping[int, str | None]) -> None:
    counts = dict.fromkeys(brokers, 0) | replica_counts(targets.values())
    held: dict[int, list[Place]] = {broker: [] for broker in brokers}
    for place, replicas in targets.items():
        for replica in replicas:
            held[replica].append(place)
    while (move := _next_move(targets, counts, held, racks)) is not None:
        place, source, target = move
        targets[place][targets[place].index(source)] = target
        held[source].remove(place)
        held[target].append(place)
        counts[source] -= 1
        counts[target] += 1


def _next_move(
    targets: Mapping[Place, Sequence[int]],
    counts: Mapping[int, int],
    held: Mapping[int, Sequence[Place]],
    racks: Mapping[int, str | None],
) -> tuple[Place, int, int] | None:
    """A partition with its source and target broker: from the most loaded broker that can be relieved to the least
    loaded that can take the replica."""
    ascending = sorted(counts, key=lambda broker: (counts[broker], broker))
    for source in reversed(ascending):
        for target in ascending:
            if counts[source] - counts[target] < 2:
                break
            for place in reversed(held[source]):
                if _may_move(targets[place], source, target, racks):
                    return place, source, target
    return None


def _may_move(replicas: Sequence[int], source: int, target: int, racks: Mapping[int, str | None]) -> bool:
    if target in replicas:
        return False
    others = [racks.get(replica) for replica in replicas if replica != source]
    return racks.get(target) is None or racks.get(target) not in others or racks.get(source) in others


def _level_leaders(targets: dict[Place, list[int]], brokers: Sequence[int]) -> None:
    """Change the first replica of partitions whose first replica leads more than its share. Terminates: each step
    brings two counts closer to each other."""
    leads = dict.fromkeys(brokers, 0)
    for replicas in targets.values():
        leads[replicas[0]] += 1
    changed = True
    while changed:
        changed = False
        for replicas in targets.values():
            best = min(replicas, key=lambda replica: (leads[replica], replica))
            if leads[replicas[0]] - leads[best] >= 2:
                leads[replicas[0]] -= 1
                leads[best] += 1
                replicas.remove(best)
                replicas.insert(0, best)
                changed = True
