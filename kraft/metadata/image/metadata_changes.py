"""The changes of a batch of records: changed keys with their previous values. Publishers process only these, and never
compare whole images.

Every table maps a key to its value before the batch (None: it did not exist). The value after the batch is in the new
image. `merge` combines the changes of consecutive batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kraft.metadata.image.metadata_image import MetadataImage
    from kraft.metadata.image.ordered_map import OrderedMap
    from kraft.metadata.image.partition_registration import PartitionRegistration
    from kraft.metadata.image.topics_image import TopicImage

TABLES = ("brokers", "controllers", "features", "configs", "client_quotas", "acls", "scram", "delegation_tokens")


class TopicsChanges:
    """Topics created and deleted, and partitions changed. A topic that was created and deleted within the batch is
    absent."""

    __slots__ = ("created", "deleted", "partitions")

    def __init__(self) -> None:
        self.created: dict[bytes, str] = {}
        self.deleted: dict[bytes, TopicImage] = {}
        self.partitions: dict[bytes, dict[int, PartitionRegistration | None]] = {}

    def __bool__(self) -> bool:
        return bool(self.created or self.deleted or self.partitions)

    def merge(self, later: TopicsChanges) -> None:
        for topic_id, topic in later.deleted.items():
            touched = self.partitions.pop(topic_id, None)
            if self.created.pop(topic_id, None) is None:
                self.deleted[topic_id] = _before(topic, touched)
        self.created.update(later.created)
        for topic_id, partitions in later.partitions.items():
            mine = self.partitions.setdefault(topic_id, {})
            for partition_id, before in partitions.items():
                mine.setdefault(partition_id, before)


def _before(topic: TopicImage, touched: dict[int, PartitionRegistration | None] | None) -> TopicImage:
    """Return the topic as it was before the changes in `touched`."""
    if not touched:
        return topic
    partitions = topic.partitions.mutate()
    for partition_id, before in touched.items():
        if before is None:
            partitions.pop(partition_id, None)
        else:
            partitions[partition_id] = before
    return type(topic)(topic.name, topic.id, type(topic.partitions)(partitions.finish()))


class MetadataChanges:
    """The changed keys of every part of an image."""

    __slots__ = (
        "acls",
        "brokers",
        "client_quotas",
        "configs",
        "controllers",
        "delegation_tokens",
        "features",
        "producer_ids",
        "scram",
        "topics",
    )

    def __init__(self) -> None:
        self.topics = TopicsChanges()
        self.brokers: dict[int, Any] = {}
        self.controllers: dict[int, Any] = {}
        self.features: dict[str, Any] = {}
        self.configs: dict[tuple[int, str], Any] = {}
        self.client_quotas: dict[Any, Any] = {}
        self.acls: dict[bytes, Any] = {}
        self.scram: dict[tuple[str, int], Any] = {}
        self.delegation_tokens: dict[str, Any] = {}
        self.producer_ids = False

    def __bool__(self) -> bool:
        return bool(self.topics) or self.producer_ids or any(getattr(self, name) for name in TABLES)

    def merge(self, later: MetadataChanges) -> None:
        """Add the changes of the following batch. The earliest previous value is kept."""
        self.topics.merge(later.topics)
        for name in TABLES:
            mine = getattr(self, name)
            for key, before in getattr(later, name).items():
                mine.setdefault(key, before)
        self.producer_ids = self.producer_ids or later.producer_ids

    @staticmethod
    def between(before: MetadataImage, after: MetadataImage) -> MetadataChanges:
        """Return the changes from one whole image to another, as when a snapshot replaces the metadata. Images are
        compared key by key only here."""
        changes = MetadataChanges()
        tables: tuple[tuple[str, OrderedMap[Any, Any], OrderedMap[Any, Any]], ...] = (
            ("brokers", before.cluster.brokers, after.cluster.brokers),
            ("controllers", before.cluster.controllers, after.cluster.controllers),
            ("features", before.features.levels, after.features.levels),
            ("configs", before.configs.resources, after.configs.resources),
            ("client_quotas", before.client_quotas.entities, after.client_quotas.entities),
            ("acls", before.acls.by_id, after.acls.by_id),
            ("scram", before.scram.credentials, after.scram.credentials),
            ("delegation_tokens", before.delegation_tokens.by_id, after.delegation_tokens.by_id),
        )
        for name, old, new in tables:
            setattr(changes, name, _differences(old, new))
        for topic_id, topic in before.topics.by_id.items():
            if topic_id not in after.topics.by_id:
                changes.topics.deleted[topic_id] = topic
        for topic_id, topic in after.topics.by_id.items():
            known = before.topics.by_id.get(topic_id)
            if known is None:
                changes.topics.created[topic_id] = topic.name
                changes.topics.partitions[topic_id] = dict.fromkeys(topic.partitions)
            elif known.partitions != topic.partitions:
                changes.topics.partitions[topic_id] = _differences(known.partitions, topic.partitions)
        changes.producer_ids = before.producer_ids != after.producer_ids
        return changes


def _differences(before: OrderedMap[Any, Any], after: OrderedMap[Any, Any]) -> dict[Any, Any]:
    changed: dict[Any, Any] = {key: before.get(key) for key, value in after.items() if before.get(key) != value}
    changed.update((key, value) for key, value in before.items() if key not in after)
    return changed
