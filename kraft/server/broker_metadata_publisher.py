"""Applies each new metadata image to one broker: first to its replicas, then to what handlers see, so that no client is
directed to a partition that is not ready."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from kraft.common.errors import StorageError
from kraft.common.features import SHARE_VERSION, serves_share_groups
from kraft.common.ids import TopicPartition
from kraft.common.internal_topics import OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from kraft.coordinator.group.service.group_coordinator import GroupCoordinator
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.metadata_cache import MetadataCache
from kraft.metadata.publisher import MetadataUpdate
from kraft.replication.partition import Partition
from kraft.replication.replica_manager import ReplicaListener, ReplicaManager
from kraft.world.turns import TURN_PARTITIONS

if TYPE_CHECKING:
    from kraft.common.logging import Logger
    from kraft.server.share.broker_shares import BrokerShares
    from kraft.server.transactions.broker_transactions import BrokerTransactions


class BrokerMetadataPublisher:
    """The publisher of one broker. The metadata loader calls it with one image at a time."""

    def __init__(
        self,
        metadata: MetadataCache,
        replicas: ReplicaManager,
        groups: GroupCoordinator,
        transactions: BrokerTransactions,
        shares: BrokerShares,
        published: Callable[[], None],
        log: Logger,
    ) -> None:
        self._metadata = metadata
        self._replicas = replicas
        self._groups = groups
        self._transactions = transactions
        self._shares = shares
        self._published = published
        self._log = log
        self._first = True
        self._leaderships = CoordinatorLeaderships(
            {
                OFFSETS_TOPIC: groups,
                TRANSACTION_STATE_TOPIC: transactions.coordinator,
                SHARE_GROUP_STATE_TOPIC: shares.coordinator,
            }
        )
        replicas.add_listener(self._leaderships)

    def publish(self, update: MetadataUpdate) -> Iterator[None]:
        """See `kraft.metadata.publisher.MetadataPublisher`."""
        topics = update.changes.topics
        names_changed = self._first or bool(topics.created or topics.deleted)
        if self._first:
            self._first = False
            yield from self._set_strays_aside(update.image)
        yield from self._replicas.apply(update.image, update.changes)
        self._metadata.set(update.image, update.offset, update.epoch, names_changed=names_changed)
        self._leaderships.tell()
        if topics.deleted:
            self._groups.on_topics_deleted([(topic.name, topic_id) for topic_id, topic in topics.deleted.items()])
            self._shares.coordinator.on_topics_deleted(list(topics.deleted))
        if update.changes.brokers:
            self._transactions.brokers_changed(update.changes.brokers)
            self._shares.brokers_changed(update.changes.brokers)
            yield from self._replicas.brokers_changed(update.changes.brokers)
        if SHARE_VERSION in update.changes.features and not serves_share_groups(update.image.features):
            self._shares.partitions.end_all()
        self._published()

    def _set_strays_aside(self, image: MetadataImage) -> Iterator[None]:
        """Move away stray logs. A log is stray if the metadata does not assign it to this broker, or if it belongs to
        an earlier topic of the same name. Stray future logs are moved too. No client is served before this ends. It
        yields, so that requests of the quorum are served meanwhile."""
        logs, now_ms = self._replicas.logs, self._replicas.world.clock.wall_ms()
        for number, log in enumerate(list(logs.logs())):
            if number % TURN_PARTITIONS == TURN_PARTITIONS - 1:
                yield
            if not self._is_ours(image, log.topic_partition, log.topic_id):
                self._log.warning("stray log set aside", partition=str(log.topic_partition), directory=log.directory)
                yield  # Renaming and syncing a directory takes as long as hundreds of looks.
                try:
                    logs.set_aside_stray(TopicPartition(*log.topic_partition), now_ms=now_ms)
                except StorageError as problem:
                    self._replicas.directory_failed(logs.directory_of(log).path, str(problem))
        for topic_partition in list(logs.futures.interrupted_moves):
            if not self._is_ours(image, topic_partition, None):
                logs.futures.forget_interrupted(topic_partition, now_ms=now_ms)

    def _is_ours(self, image: MetadataImage, topic_partition: TopicPartition, topic_id: bytes | None) -> bool:
        topic = image.topics.by_name(topic_partition.topic)
        partition = None if topic is None else topic.partitions.get(topic_partition.partition)
        return (
            partition is not None
            and self._replicas.node_id in partition.replicas
            and topic_id in (None, topic.id if topic else None)
        )


class Coordinator(Protocol):
    def on_election(self, partition: int, leader_epoch: int) -> None: ...
    def on_resignation(self, partition: int, leader_epoch: int | None = None) -> None: ...


class CoordinatorLeaderships(ReplicaListener):
    """Makes coordinators follow the leadership of their topics' partitions. `coordinators` has each by its topic.

    A coordinator resigns immediately. It is elected only when handlers see the image with the election: in an older
    image, topics whose offsets it loads might be missing, or be earlier ones of the same name.
    """

    def __init__(self, coordinators: Mapping[str, Coordinator]) -> None:
        self._coordinators = coordinators
        self._elected: dict[tuple[str, int], int] = {}

    def became_leader(self, partition: Partition) -> None:
        if partition.topic in self._coordinators:
            self._elected[partition.topic, partition.index] = partition.leader_epoch

    def tell(self) -> None:
        """Start the elections of this update: handlers see its image now."""
        elected, self._elected = self._elected, {}
        for (topic, index), leader_epoch in elected.items():
            self._coordinators[topic].on_election(index, leader_epoch)

    def resigned(self, topic: str, index: int, leader_epoch: int) -> None:
        coordinator = self._coordinators.get(topic)
        if coordinator is not None:
            self._elected.pop((topic, index), None)
            coordinator.on_resignation(index)
