"""The partitions of which each broker has a replica, kept in step with the topics from the first query on.

Only an active controller asks: when a broker comes, goes, or is emptied. It has the index made in turns before its
first decision, and each image that follows from there carries it on, at the price of the replicas that changed. Of a
million partitions on a hundred brokers the index takes 0.4 s to make, and a broker's share a few ms to read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kraft.metadata.image.ordered_map import OrderedMap
from kraft.metadata.image.partition_registration import PartitionRegistration
from kraft.world.steps import Steps

PartitionIds = OrderedMap[int, OrderedMap[bytes, tuple[int, ...]]]
PARTITIONS_A_TURN = 5_000


class PartitionsByBroker:
    """Immutable. By broker and topic id the partition ids, ascending."""

    __slots__ = ("_partitions",)

    def __init__(self, held: PartitionIds | None = None) -> None:
        self._partitions: PartitionIds = OrderedMap() if held is None else held

    def of(self, broker_id: int) -> Iterator[tuple[bytes, int]]:
        """Every partition with a replica there, in order of topic id and partition."""
        topics = self._partitions.get(broker_id, _NOTHING)
        return ((topic_id, index) for topic_id, indexes in topics.items() for index in indexes)


class PartitionsByBrokerDraft:
    """The replicas that come and go while topics are under change."""

    __slots__ = ("_base", "_changed")

    def __init__(self, base: PartitionsByBroker) -> None:
        self._base = base
        self._changed: dict[int, dict[bytes, dict[int, bool]]] = {}

    def moved(
        self, key: tuple[bytes, int], old: PartitionRegistration | None, new: PartitionRegistration | None
    ) -> None:
        """One partition was made, has other replicas than before, or was deleted."""
        before, after = () if old is None else old.replicas, () if new is None else new.replicas
        if before is after:
            return
        topic_id, index = key
        for broker_id in before:
            if broker_id not in after:
                self._changed.setdefault(broker_id, {}).setdefault(topic_id, {})[index] = False
        for broker_id in after:
            if broker_id not in before:
                self._changed.setdefault(broker_id, {}).setdefault(topic_id, {})[index] = True

    def finish(self) -> PartitionsByBroker:
        if not self._changed:
            return self._base
        held = self._base._partitions.mutate()
        for broker_id, by_topic in self._changed.items():
            topics = held.get(broker_id, _NOTHING).mutate()
            for topic_id, changed in by_topic.items():
                indexes = _merged(topics.get(topic_id, ()), changed)
                if indexes:
                    topics[topic_id] = indexes
                else:
                    topics.pop(topic_id, None)
            held[broker_id] = OrderedMap(topics.finish())
        return PartitionsByBroker(OrderedMap(held.finish()))


_NOTHING: OrderedMap[bytes, tuple[int, ...]] = OrderedMap()


def _merged(indexes: tuple[int, ...], changed: dict[int, bool]) -> tuple[int, ...]:
    """What is left of `indexes` and what has come, ascending."""
    kept = [index for index in indexes if index not in changed]
    return tuple(sorted([*kept, *(index for index, is_here in changed.items() if is_here)]))


def index_of(
    topics: Iterable[tuple[bytes, OrderedMap[int, PartitionRegistration]]],
) -> Steps[PartitionsByBroker]:
    """The index of all partitions, made anew. Yields after every few thousand."""
    held: dict[int, dict[bytes, list[int]]] = {}
    left = PARTITIONS_A_TURN
    for topic_id, partitions in topics:
        for index, partition in partitions.items():
            for broker_id in partition.replicas:
                held.setdefault(broker_id, {}).setdefault(topic_id, []).append(index)
            left -= 1
            if not left:
                left = PARTITIONS_A_TURN
                yield None
    by_broker: dict[int, OrderedMap[bytes, tuple[int, ...]]] = {}
    for broker_id, by_topic in held.items():
        by_broker[broker_id] = OrderedMap({topic_id: tuple(indexes) for topic_id, indexes in by_topic.items()})
        yield None
    return PartitionsByBroker(OrderedMap(by_broker))
