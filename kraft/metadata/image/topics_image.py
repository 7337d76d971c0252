"""Topics, their partitions, and indexes for the controller's queries.

The sets of leaderless, imbalanced (not led by the preferred replica) and reassigning partitions are derived from the
partitions and updated only by `TopicsDraft`. They are small in a healthy cluster, and change only when a partition
enters or leaves that state. The partitions of a broker are indexed at the first query of an image, and kept up to date
from there (`partitions_by_broker`): only fencing, shutdown and decommissioning query them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kraft.metadata.image.metadata_changes import TopicsChanges
from kraft.metadata.image.ordered_map import OrderedMap
from kraft.metadata.image.partition_registration import NO_LEADER, PartitionRegistration, registration_of
from kraft.metadata.image.partitions_by_broker import (
    PartitionsByBroker,
    PartitionsByBrokerDraft,
    index_of,
)
from kraft.metadata.image.writer_options import WriterOptions
from kraft.metadata.records.clear_elr_record import ClearElrRecord
from kraft.metadata.records.partition_change_record import PartitionChangeRecord
from kraft.metadata.records.partition_record import PartitionRecord
from kraft.metadata.records.remove_topic_record import RemoveTopicRecord
from kraft.metadata.records.topic_record import TopicRecord
from kraft.world.steps import Steps

if TYPE_CHECKING:
    from immutables import MapMutation

TopicIdPartition = tuple[bytes, int]
PartitionSet = OrderedMap[TopicIdPartition, None]


@dataclass(frozen=True, slots=True)
class TopicImage:
    """One topic. Partition ids run from 0 without gaps."""

    name: str
    id: bytes
    partitions: OrderedMap[int, PartitionRegistration] = field(default_factory=OrderedMap)


@dataclass(frozen=True, slots=True)
class TopicsImage:
    """All topics and partitions as of one metadata offset."""

    by_id: OrderedMap[bytes, TopicImage] = field(default_factory=OrderedMap)
    id_by_name: OrderedMap[str, bytes] = field(default_factory=OrderedMap)
    colliding: OrderedMap[str, tuple[str, ...]] = field(default_factory=OrderedMap)
    """Names with '.' or '_', by their form in metrics systems, where every '.' becomes a '_'."""
    leaderless: PartitionSet = field(default_factory=OrderedMap)
    imbalanced: PartitionSet = field(default_factory=OrderedMap)
    reassigning: PartitionSet = field(default_factory=OrderedMap)
    _by_broker: PartitionsByBroker | None = field(default=None, compare=False, repr=False)

    def by_name(self, name: str) -> TopicImage | None:
        topic_id = self.id_by_name.get(name)
        return None if topic_id is None else self.by_id.get(topic_id)

    def partition(self, topic_id: bytes, partition_id: int) -> PartitionRegistration | None:
        topic = self.by_id.get(topic_id)
        return None if topic is None else topic.partitions.get(partition_id)

    def partitions_on(self, broker_id: int) -> Iterator[TopicIdPartition]:
        """Return every partition with a replica on the broker, ordered by topic id and partition."""
        if self._by_broker is None:
            for _ in self.index_brokers():
                pass
        assert self._by_broker is not None
        return self._by_broker.of(broker_id)

    @property
    def has_brokers_indexed(self) -> bool:
        """Whether `partitions_on` can answer without scanning all partitions."""
        return self._by_broker is not None

    def index_brokers(self) -> Steps[None]:
        """Build the index for `partitions_on`, in steps. Images derived from this one have it too."""
        index = yield from index_of((topic_id, topic.partitions) for topic_id, topic in self.by_id.items())
        object.__setattr__(self, "_by_broker", index)

    def topics_by_name(self) -> Iterator[TopicImage]:
        return (self.by_id[topic_id] for topic_id in self.id_by_name.values())

    def write(self, options: WriterOptions) -> Iterator[Any]:
        """Return records that recreate this image: each topic, ordered by name, followed by its partitions."""
        for topic in self.topics_by_name():
            yield TopicRecord(name=topic.name, topic_id=topic.id)
            for partition_id, partition in topic.partitions.items():
                yield partition.to_record(topic.id, partition_id, options)


class _OpenTopic:
    """A topic while records are replayed onto its partitions."""

    __slots__ = ("changed", "id", "name", "partitions")

    def __init__(self, topic: TopicImage, changed: dict[int, PartitionRegistration | None]) -> None:
        self.name = topic.name
        self.id = topic.id
        self.partitions = topic.partitions.mutate()
        self.changed = changed


class TopicsDraft:
    """A topics image while records are replayed onto it. Private to one `replay_batch`; no other code sees an
    intermediate state."""

    __slots__ = (
        "_base",
        "_by_broker",
        "_by_id",
        "_colliding",
        "_directories",
        "_id_by_name",
        "_imbalanced",
        "_interned",
        "_leaderless",
        "_open",
        "_reassigning",
        "changes",
    )

    def __init__(self, base: TopicsImage) -> None:
        self._base = base
        self._by_broker = None if base._by_broker is None else PartitionsByBrokerDraft(base._by_broker)
        self._by_id = base.by_id.mutate()
        self._id_by_name = base.id_by_name.mutate()
        self._colliding = base.colliding
        self._leaderless: MapMutation[TopicIdPartition, None] | None = None
        self._imbalanced: MapMutation[TopicIdPartition, None] | None = None
        self._reassigning: MapMutation[TopicIdPartition, None] | None = None
        self._open: dict[bytes, _OpenTopic] = {}
        self._interned: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._directories: dict[tuple[bytes, ...], tuple[bytes, ...]] = {}
        self.changes = TopicsChanges()

    def topic(self, record: TopicRecord) -> None:
        if self._id_by_name.get(record.name) is not None:
            raise ValueError(f"topic {record.name!r} is created while a topic of that name exists")
        self._id_by_name[record.name] = record.topic_id
        self._by_id[record.topic_id] = TopicImage(record.name, record.topic_id)
        if "." in record.name or "_" in record.name:
            form = record.name.replace(".", "_")
            self._colliding = self._colliding.set(form, tuple(sorted((*self._colliding.get(form, ()), record.name))))
        self.changes.created[record.topic_id] = record.name

    def partition(self, record: PartitionRecord) -> None:
        self._set(
            self._opened(record.topic_id),
            record.partition_id,
            registration_of(record, self._interned, self._directories),
        )

    def partition_change(self, record: PartitionChangeRecord) -> None:
        topic = self._opened(record.topic_id)
        current = topic.partitions.get(record.partition_id)
        if current is None:
            raise ValueError(
                f"a change names partition {record.partition_id} of topic {topic.name!r}, which does not exist"
            )
        self._set(topic, record.partition_id, current.merge(record))

    def remove_topic(self, record: RemoveTopicRecord) -> str:
        """Remove a topic and its partitions. Returns its name."""
        topic = self._close(record.topic_id)
        for partition_id, partition in topic.partitions.items():
            self._index((topic.id, partition_id), partition, None)
        del self._by_id[topic.id]
        del self._id_by_name[topic.name]
        if "." in topic.name or "_" in topic.name:
            form = topic.name.replace(".", "_")
            others = tuple(name for name in self._colliding[form] if name != topic.name)
            self._colliding = self._colliding.set(form, others) if others else self._colliding.without(form)
        self.changes.partitions.pop(topic.id, None)
        if self.changes.created.pop(topic.id, None) is None:
            self.changes.deleted[topic.id] = self._base.by_id[topic.id]
        return topic.name

    def clear_elr(self, record: ClearElrRecord) -> None:
        """Clear the ELR fields of one topic, or of every topic if the name is empty (KIP-966)."""
        if record.topic_name:
            topic_ids = [self._id_by_name[record.topic_name]]
        else:
            topic_ids = sorted(self._id_by_name.finish().values())
            self._id_by_name = self._reopened(self._id_by_name)
        for topic_id in topic_ids:
            topic = self._close(topic_id)
            for partition_id, partition in topic.partitions.items():
                if partition.elr or partition.last_known_elr:
                    change = PartitionChangeRecord(
                        topic_id=topic_id, partition_id=partition_id, eligible_leader_replicas=[], last_known_elr=[]
                    )
                    self._set(self._opened(topic_id), partition_id, partition.merge(change))

    def finish(self) -> TopicsImage:
        for topic_id in list(self._open):
            self._close(topic_id)
        base = self._base
        return TopicsImage(
            OrderedMap(self._by_id.finish()),
            OrderedMap(self._id_by_name.finish()),
            self._colliding,
            base.leaderless if self._leaderless is None else OrderedMap(self._leaderless.finish()),
            base.imbalanced if self._imbalanced is None else OrderedMap(self._imbalanced.finish()),
            base.reassigning if self._reassigning is None else OrderedMap(self._reassigning.finish()),
            None if self._by_broker is None else self._by_broker.finish(),
        )

    @staticmethod
    def _reopened(mutation: MapMutation[str, bytes]) -> MapMutation[str, bytes]:
        return mutation.finish().mutate()

    def _opened(self, topic_id: bytes) -> _OpenTopic:
        opened = self._open.get(topic_id)
        if opened is None:
            topic = self._by_id.get(topic_id)
            if topic is None:
                raise ValueError(f"a record names topic id {topic_id.hex()}, which does not exist")
            opened = self._open[topic_id] = _OpenTopic(topic, self.changes.partitions.setdefault(topic_id, {}))
        return opened

    def _close(self, topic_id: bytes) -> TopicImage:
        opened = self._open.pop(topic_id, None)
        if opened is None:
            topic = self._by_id.get(topic_id)
            if topic is None:
                raise ValueError(f"a record names topic id {topic_id.hex()}, which does not exist")
            return topic
        closed = TopicImage(opened.name, opened.id, OrderedMap(opened.partitions.finish()))
        self._by_id[topic_id] = closed
        return closed

    def _set(self, topic: _OpenTopic, partition_id: int, new: PartitionRegistration) -> None:
        old = topic.partitions.get(partition_id)
        topic.partitions[partition_id] = new
        if partition_id not in topic.changed:
            topic.changed[partition_id] = old
        self._index((topic.id, partition_id), old, new)

    def _index(
        self, key: TopicIdPartition, old: PartitionRegistration | None, new: PartitionRegistration | None
    ) -> None:
        had_none, has_none = old is not None and old.leader == NO_LEADER, new is not None and new.leader == NO_LEADER
        if had_none != has_none:
            self._leaderless = self._toggle(self._leaderless, self._base.leaderless, key, has_none)
        was_off, is_off = (
            old is not None and not old.has_preferred_leader,
            new is not None and not new.has_preferred_leader,
        )
        if was_off != is_off:
            self._imbalanced = self._toggle(self._imbalanced, self._base.imbalanced, key, is_off)
        was_moving, is_moving = old is not None and old.is_reassigning, new is not None and new.is_reassigning
        if was_moving != is_moving:
            self._reassigning = self._toggle(self._reassigning, self._base.reassigning, key, is_moving)
        if self._by_broker is not None:
            self._by_broker.moved(key, old, new)

    @staticmethod
    def _toggle(
        mutation: MapMutation[TopicIdPartition, None] | None, base: PartitionSet, key: TopicIdPartition, present: bool
    ) -> MapMutation[TopicIdPartition, None]:
        if mutation is None:
            mutation = base.mutate()
        if present:
            mutation[key] = None
        else:
            mutation.pop(key, None)
        return mutation
