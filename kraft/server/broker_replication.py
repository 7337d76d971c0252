"""The replication of one broker: following leaders, and maintaining in-sync sets."""

from __future__ import annotations

import trio

from kraft.common.config.node.node_config import NodeConfig
from kraft.common.logging import Loggers
from kraft.metadata.metadata_cache import MetadataCache
from kraft.replication.alter_partition_manager import AlterPartitionManager
from kraft.replication.fetchers.following import FetcherSettings, Truncation, TruncationListener
from kraft.replication.fetchers.replica_fetcher_manager import ReplicaFetcherManager
from kraft.replication.partition import Partition
from kraft.replication.replica_manager import ReplicaManager
from kraft.replication.sessions.fetch_session_handler import FetchLimits
from kraft.replication.unclean.loss_reporter import LossReporter
from kraft.replication.unclean.unreported_loss_files import UnreportedLossFiles
from kraft.server.broker_lifecycle_manager import BrokerLifecycleManager
from kraft.server.events.event_journal import EventJournal, EventKind
from kraft.server.node_to_controller_channel import NodeToControllerChannel
from kraft.world.ports import World


class TruncationRecorder:
    """Records each truncation in this node's event journal, and reports it to the controller if an unclean election
    caused it."""

    def __init__(self, losses: LossReporter, events: EventJournal, replica_id: int) -> None:
        self._losses = losses
        self._events = events
        self._replica_id = replica_id

    def truncating(self, partition: Partition, truncation: Truncation) -> None:
        """See `TruncationListener`."""
        self._losses.truncating(partition, truncation)

    def truncated(self, partition: Partition, truncation: Truncation) -> None:
        """See `TruncationListener`."""
        self._events.append(
            EventKind.REPLICA_TRUNCATED,
            topic=partition.topic,
            partition=partition.index,
            leader=partition.leader_id,
            leader_epoch=partition.leader_epoch,
            replica=self._replica_id,
            start_offset=truncation.start_offset,
            end_offset=truncation.end_offset,
            high_watermark=truncation.high_watermark,
        )


class BrokerReplication:
    """The replication of one broker. Created before the first metadata image. `run` works until cancelled."""

    def __init__(
        self,
        world: World,
        config: NodeConfig,
        replicas: ReplicaManager,
        isr: AlterPartitionManager,
        metadata: MetadataCache,
        lifecycle: BrokerLifecycleManager,
        channel: NodeToControllerChannel,
        events: EventJournal,
        loggers: Loggers,
    ) -> None:
        self._world = world
        self._config = config
        self._replicas = replicas
        self._metadata = metadata
        self._lifecycle = lifecycle
        self._channel = channel
        self.isr = isr
        self.directories_are_known = trio.Event()
        """Set when the finalized metadata.version assigns replicas to log directories (KIP-858)."""
        log = loggers.get("replicas")
        self.losses = LossReporter(
            config.node_id,
            lambda: metadata.image,
            channel,
            UnreportedLossFiles(replicas, log),
            world.clock,
            replicas.set_aside,
            log,
        )
        truncations = TruncationRecorder(self.losses, events, config.node_id)
        self.fetchers = ReplicaFetcherManager(replicas, self._fetcher_settings(truncations), loggers.get("fetcher"))

    async def run(self) -> None:
        """Fetch from leaders and maintain in-sync sets, after the broker is registered: every fetch carries its broker
        epoch (KIP-903)."""
        await self._lifecycle.registered.wait()
        self.losses.recall()
        async with trio.open_nursery() as replication_nursery:
            replication_nursery.start_soon(self.isr.run)
            replication_nursery.start_soon(self.fetchers.run)
            replication_nursery.start_soon(self.losses.run)
            replication_nursery.start_soon(self._assign_directories)
            replication_nursery.start_soon(self._replicas.directories.mover.run)
            replication_nursery.start_soon(self._replicas.hosting.run)
            replication_nursery.start_soon(self._replicas.damaged.run)
            while True:
                await self._world.clock.sleep(self._lag_seconds_max() / 2)
                await self.isr.reconsider_all(self._replicas)

    async def _assign_directories(self) -> None:
        """Report the directories of replicas from 3.7-IV2 on. Earlier levels do not know them: until then the reports
        of all replicas are queued."""
        await self.directories_are_known.wait()
        await self._replicas.directories.assignments.run(self._channel, self._broker_epoch)

    def _broker_epoch(self) -> int:
        return self._lifecycle.epoch

    def _lag_seconds_max(self) -> float:
        return self._config.seconds("replica.lag.time.max.ms")

    def _fetcher_settings(self, truncations: TruncationListener) -> FetcherSettings:
        config = self._config
        return FetcherSettings(
            endpoint=lambda broker: self._metadata.endpoint_of(broker, config.inter_broker_listener_name),
            broker_epoch=self._broker_epoch,
            limits=FetchLimits(
                wait_ms_max=config.integer("replica.fetch.wait.max.ms"),
                bytes_min=config.integer("replica.fetch.min.bytes"),
                response_bytes_max=config.integer("replica.fetch.response.max.bytes"),
                partition_bytes_max=config.integer("replica.fetch.max.bytes"),
            ),
            backoff_seconds=config.seconds("replica.fetch.backoff.ms"),
            socket_timeout_seconds=config.seconds("replica.socket.timeout.ms"),
            truncations=truncations,
            metadata_version=lambda: self._metadata.image.features.capabilities,
        )
