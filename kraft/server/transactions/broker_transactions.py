"""Transactions on one broker: its coordinator, and the requests of it and of the partitions' leaders to other
brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import trio

from kraft.common.errors import ApiError
from kraft.common.features import TRANSACTION_VERSION
from kraft.common.internal_topics import TRANSACTION_STATE_TOPIC
from kraft.common.quarantine import Quarantine
from kraft.coordinator.transaction.config import TransactionConfig
from kraft.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from kraft.handlers.transactions.transactions import add_partitions
from kraft.handlers.transactions.write_txn_markers import write_markers
from kraft.server.broker_channel import BrokerChannel
from kraft.server.partition_log import PartitionLog
from kraft.server.transactions.add_partitions_to_txn_manager import AddPartitionsToTxnManager
from kraft.server.transactions.marker_sender import MarkerSender

if TYPE_CHECKING:
    from kraft.common.config.node.node_config import NodeConfig
    from kraft.common.ids import TopicPartition
    from kraft.common.logging import Loggers
    from kraft.coordinator.transaction.transaction_coordinator import ProducerIds
    from kraft.handlers.services import BrokerServices
    from kraft.metadata.image.cluster_image import BrokerRegistration
    from kraft.metadata.metadata_cache import MetadataCache
    from kraft.replication.replica_manager import ReplicaManager
    from kraft.world.ports import World


class BrokerTransactions:
    """The parts of transactions on one broker. `coordinator` serves transactional ids, `partitions` verifies producers'
    writes for leaders, `markers` writes the outcomes of transactions. `services` are those of this broker, available
    once it runs."""

    def __init__(
        self,
        world: World,
        config: NodeConfig,
        metadata: MetadataCache,
        replicas: ReplicaManager,
        producer_ids: ProducerIds,
        services: Callable[[], BrokerServices],
        loggers: Loggers,
    ) -> None:
        self._world, self._config, self._metadata = world, config, metadata
        self._channels: list[BrokerChannel] = []
        self.set_aside = Quarantine(world.clock, world.log_sink)
        self.partitions = AddPartitionsToTxnManager(
            config.node_id,
            lambda request: add_partitions(request, services()),
            self._confirms,
            self._coordinator_of,
            self._channel("add-partitions-to-txn"),
            lambda: services().config.flag("transaction.partition.verification.enable"),
        )
        self.markers = MarkerSender(
            config.node_id,
            lambda request: write_markers(request, services()),
            self._leader_of,
            self._channel("write-txn-markers"),
            world.clock,
            loggers.get("transactions"),
            self.set_aside,
        )
        self.coordinator = TransactionCoordinator(
            config=_transaction_config(config),
            log=PartitionLog(replicas),
            producer_ids=producer_ids,
            markers=self.markers,
            partition_count=self._partition_count,
            level=lambda: metadata.image.features.level(TRANSACTION_VERSION),
            world=world,
        )

    async def run(self) -> None:
        """Serve until cancelled."""
        async with trio.open_nursery() as transaction_nursery:
            transaction_nursery.start_soon(self.partitions.run)
            transaction_nursery.start_soon(self.markers.run)
            transaction_nursery.start_soon(self.coordinator.run)

    def brokers_changed(self, changed: Mapping[int, BrokerRegistration | None]) -> None:
        """Close the connections to brokers that are gone, fenced or restarted. `changed` has their registrations before
        the newest image."""
        for channel in self._channels:
            channel.brokers_changed(changed, self._metadata.image.cluster.brokers)

    def _partition_count(self) -> int:
        topic = self._metadata.image.topics.by_name(TRANSACTION_STATE_TOPIC)
        if topic is None:
            return self._config.integer("transaction.state.log.num.partitions")
        return len(topic.partitions)

    def _confirms(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Sequence[TopicPartition]
    ) -> bool:
        """Whether the local coordinator has the partitions in the producer's transaction."""
        try:
            return not self.coordinator.missing_partitions(transactional_id, producer_id, producer_epoch, partitions)
        except ApiError:
            return False

    def _coordinator_of(self, transactional_id: str) -> int | None:
        """The broker that coordinates a transactional id; None while its partition has no leader."""
        leader = self._metadata.leader_of(TRANSACTION_STATE_TOPIC, self.coordinator.partition_for(transactional_id))
        return None if leader is None or leader[0] < 0 else leader[0]

    def _leader_of(self, place: TopicPartition) -> int | None:
        """The leader of a partition: -1 if there is none now, None if the partition does not exist."""
        leader = self._metadata.leader_of(*place)
        return None if leader is None else leader[0]

    def _channel(self, purpose: str) -> BrokerChannel:
        config = self._config
        channel = BrokerChannel(
            self._world,
            f"broker-{config.node_id}-{purpose}",
            lambda broker: self._metadata.endpoint_of(broker, config.inter_broker_listener_name),
            config.seconds("request.timeout.ms"),
        )
        self._channels.append(channel)
        return channel


def _transaction_config(config: NodeConfig) -> TransactionConfig:
    return TransactionConfig(
        transaction_max_timeout_ms=config.integer("transaction.max.timeout.ms"),
        transactional_id_expiration_ms=config.integer("transactional.id.expiration.ms"),
        abort_timed_out_interval_ms=config.integer("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        remove_expired_interval_ms=config.integer("transaction.remove.expired.transaction.cleanup.interval.ms"),
        request_timeout_ms=config.integer("request.timeout.ms"),
        two_phase_commit=config.flag("transaction.two.phase.commit.enable"),
    )
