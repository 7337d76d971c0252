"""The broker of a node: its logs and replicas, coordinators, listeners, and its state at the controller.

Start: recover logs, bind listeners, catch up with the metadata, register, unfence. Stop: move leaders away, end
coordinators and listeners, close logs cleanly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import trio

from kraft.common.config.endpoints import Endpoint
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.errors import ConfigurationError, StorageError
from kraft.common.internal_topics import OFFSETS_TOPIC
from kraft.common.logging import Loggers
from kraft.common.metadata_versions import DIRECTORIES_LEVEL, METADATA_VERSION_NAMES
from kraft.coordinator.group.config import GroupCoordinatorConfig, MigrationPolicy
from kraft.coordinator.group.service.group_coordinator import GroupCoordinator
from kraft.coordinator.group.topic_directory import TopicNames
from kraft.handlers.all_handlers import broker_registry
from kraft.handlers.dispatcher import RequestDispatcher
from kraft.handlers.metadata.missing_internal_topics import MissingInternalTopics
from kraft.handlers.metadata.streams_internal_topics import StreamsInternalTopics
from kraft.handlers.services import BrokerServices, StatusReports
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.loader import MetadataLoader
from kraft.metadata.metadata_cache import MetadataCache
from kraft.metadata.publisher import MetadataUpdate
from kraft.network.limits import ConnectionCounts
from kraft.network.socket_server import SocketServer
from kraft.protocol.messages.broker_registration_request import Listener as RegisteredListener
from kraft.quota.client_quotas import ClientQuotas
from kraft.quota.quota_publisher import QuotaPublisher
from kraft.replication.alter_partition_manager import AlterPartitionManager
from kraft.replication.logs.tasks import LogTasks
from kraft.replication.replica_manager import ReplicaListener, ReplicaManager
from kraft.replication.sessions.fetch_session import FetchSessionCache
from kraft.replication.topic_configs import ConfigView
from kraft.security.sasl.plain_users import PlainUsers
from kraft.server.broker_lifecycle_manager import BrokerLifecycleManager
from kraft.server.broker_metadata_publisher import BrokerMetadataPublisher
from kraft.server.broker_replication import BrokerReplication
from kraft.server.client_telemetry import open_telemetry
from kraft.server.connection_limits import DynamicConnectionLimits, socket_servers
from kraft.server.events.audit import AuditLog, follow_metadata, make_authorizer
from kraft.server.events.event_journal import EventJournal
from kraft.server.group_configs import (
    DynamicGroupConfigs,
    consumer_settings,
    share_membership_settings,
    streams_settings,
)
from kraft.server.node_to_controller_channel import NodeToControllerChannel
from kraft.server.partition_log import PartitionLog
from kraft.server.security.live_plain_users import LivePlainUsers
from kraft.server.security.logins import NodeLogins
from kraft.server.share.broker_shares import BrokerShares
from kraft.server.tiers.remote_store import open_store
from kraft.server.transactions.broker_transactions import BrokerTransactions
from kraft.server.transactions.producer_id_manager import ProducerIdManager
from kraft.storage.log_manager import LogManager
from kraft.world.ports import Listener, World

if TYPE_CHECKING:
    from kraft.metadata.loader import MetadataLoader
    from kraft.server.tiers.broker_tiering import BrokerTiering

SECURITY_PROTOCOL_IDS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


SHUTDOWN_GRACE_SECONDS = 0.5
"""The time that clients have to receive the error, and the controller to receive the last heartbeat, before a stop."""
SHOWN_SECONDS_MAX = 30.0
"""Timeout for the metadata to show a change that the controller has confirmed."""


class TopicLookup:
    """The coordinators' view of topics in the metadata image
    (`kraft.coordinator.group.topic_directory.TopicDirectory`)."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata

    def topic_name(self, topic_id: bytes) -> str | None:
        topic = self._metadata.image.topics.by_id.get(topic_id)
        return None if topic is None else topic.name

    def topic_id(self, name: str) -> bytes | None:
        return self._metadata.image.topics.id_by_name.get(name)

    def partition_count(self, name: str) -> int:
        topic = self._metadata.image.topics.by_name(name)
        return 0 if topic is None else len(topic.partitions)

    def version(self) -> object:
        return self._metadata.image.topics

    def all_names(self) -> TopicNames:
        return TopicNames(self._metadata.image.topics.id_by_name.keys(), self._metadata.offset)

    def names_version(self) -> int:
        return self._metadata.names_offset


class BrokerServer(ReplicaListener):
    """The broker role of a node. Created once by `kraft.server.node`; `run` serves until cancelled."""

    def __init__(
        self,
        world: World,
        config: NodeConfig,
        cluster_id: str,
        logs: LogManager,
        loggers: Loggers,
        channel: NodeToControllerChannel,
        counts: ConnectionCounts,
        finalized_features: Callable[[], Mapping[str, int]],
        events: EventJournal,
        nursery: trio.Nursery,
        status: StatusReports,
    ) -> None:
        self._world, self._config, self._nursery, self.logins = world, config, nursery, NodeLogins(config)
        self.log, self._disk_lost = loggers.get("broker"), trio.Event()
        self._too_many_directories, self._directories_are_registered = trio.Event(), False
        self.metadata, self.configs = MetadataCache(world.clock, MetadataImage()), ConfigView(config)
        log = loggers.get("replicas")
        isr = AlterPartitionManager(config.node_id, lambda: self.lifecycle.epoch, channel, world, log)
        self.replicas = ReplicaManager(config.node_id, logs, self.configs, self.metadata, isr, world, log)
        self.producer_ids = ProducerIdManager(config.node_id, lambda: self.lifecycle.epoch, channel, nursery)
        self.transactions = BrokerTransactions(
            world, config, self.metadata, self.replicas, self.producer_ids, self._services, loggers
        )
        self.shares = BrokerShares(
            world,
            config,
            self.configs,
            self.metadata,
            self.replicas,
            TopicLookup(self.metadata),
            self._services,
            loggers,
        )
        self.groups = self._group_coordinator()
        self.lifecycle = self._lifecycle_manager(cluster_id, channel, finalized_features, loggers)
        self._logs, self._cordoned = logs, frozenset[str]()
        self.replicas.add_listener(self)
        self.replication = BrokerReplication(
            world, config, self.replicas, isr, self.metadata, self.lifecycle, channel, events, loggers
        )
        self.tiering = self._tiering(channel, loggers)
        self.publisher = BrokerMetadataPublisher(
            self.metadata,
            self.replicas,
            self.groups,
            self.transactions,
            self.shares,
            self._published,
            loggers.get("metadata"),
        )
        self.audit = AuditLog(events, loggers, world.clock)
        self.quotas = ClientQuotas(config, world.clock, self.audit.throttles.take)
        self.authorizer = make_authorizer(config, self.audit)
        self.services = services = self._broker_services(cluster_id, channel, finalized_features, loggers, status)
        self.dispatcher = RequestDispatcher(services.registry, services, world.clock, services.log, self.quotas)
        self.token_keys = self.logins.token_keys(world, config.broker_listeners, loggers)
        self.socket_servers = self._socket_servers(counts, loggers)
        self.log_tasks = self._log_tasks(logs, loggers)

    def _lifecycle_manager(
        self,
        cluster_id: str,
        channel: NodeToControllerChannel,
        finalized_features: Callable[[], Mapping[str, int]],
        loggers: Loggers,
    ) -> BrokerLifecycleManager:
        return BrokerLifecycleManager(
            self._world,
            self._config,
            cluster_id,
            channel,
            self._metadata_offset,
            finalized_features,
            self._cordoned_directories,
            loggers.get("lifecycle"),
        )

    def _broker_services(
        self,
        cluster_id: str,
        channel: NodeToControllerChannel,
        finalized_features: Callable[[], Mapping[str, int]],
        loggers: Loggers,
        status: StatusReports,
    ) -> BrokerServices:
        return BrokerServices(
            world=self._world,
            configs=self.configs,
            cluster_id=cluster_id,
            finalized_features=finalized_features,
            log=loggers.get("requests"),
            loggers=loggers,
            registry=broker_registry(
                self.authorizer,
                serves_telemetry=self._config.flag("kraft.telemetry.enable"),
                serves_two_phase=self._config.flag("transaction.two.phase.commit.enable"),
            ),
            metadata=self.metadata,
            status=status,
            replicas=self.replicas,
            sessions=_fetch_sessions(self._config, self._world),
            groups=self.groups,
            transactions=self.transactions.coordinator,
            controller=channel,
            producer_ids=self.producer_ids,
            transaction_partitions=self.transactions.partitions,
            quotas=self.quotas,
            shares=self.shares.partitions,
            share_coordinator=self.shares.coordinator,
            unmade_topics=MissingInternalTopics(self._world.clock),
            streams_topics=StreamsInternalTopics(),
            telemetry=open_telemetry(self._world, self._config, self.metadata, self.logins.trust, loggers),
            authorizer=self.authorizer,
        )

    @property
    def plain_users(self) -> dict[str, PlainUsers]:
        """The users of PLAIN by listener. They follow the metadata."""
        return self.logins.plain_users(self._config.broker_listeners)

    def _tiering(self, channel: NodeToControllerChannel, loggers: Loggers) -> BrokerTiering | None:
        store = open_store(self._world, self._config)
        if store is None:
            return None
        from kraft.server.tiers.broker_tiering import BrokerTiering  # Some twenty modules that most nodes never need.

        tiering = BrokerTiering(self._world, store, self.configs, self.metadata, self.replicas, channel, loggers)
        self.replicas.remote = tiering.manager
        return tiering

    def _services(self) -> BrokerServices:
        return self.services

    def _socket_servers(self, counts: ConnectionCounts, loggers: Loggers) -> dict[str, SocketServer]:
        return socket_servers(
            self._world,
            self._config,
            self._config.broker_listeners,
            counts,
            self.dispatcher,
            self.metadata,
            loggers,
            self.audit,
            self.logins,
            self.quotas.connections,
            self.token_keys,
        )

    def _log_tasks(self, logs: LogManager, loggers: Loggers) -> LogTasks:
        return LogTasks(
            self._world,
            logs,
            self.replicas.flusher,
            lambda: self.configs.effective(self.metadata.image),
            self.replicas.directory_failed,
            self.replicas.log_start_moved,
            self.replicas.all_in_sync,
            loggers.get("logs"),
        )

    def _group_coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(
            config=_group_config(self._config),
            log=PartitionLog(self.replicas),
            topics=TopicLookup(self.metadata),
            transactions=self.transactions.partitions,
            consumer_configs=DynamicGroupConfigs(self.metadata, self.configs, consumer_settings),
            share_configs=DynamicGroupConfigs(self.metadata, self.configs, share_membership_settings),
            streams_configs=DynamicGroupConfigs(self.metadata, self.configs, streams_settings),
            partition_count=self._offsets_partitions,
            share_states=self.shares.states,
            end_offsets=self.shares.end_offsets,
            world=self._world,
        )

    async def run(
        self,
        listeners: Mapping[str, Listener],
        advertised: tuple[Endpoint, ...],
        previous_epoch: int,
        loader: MetadataLoader,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve on `listeners` until cancelled. `task_status` is started when clients are served. Raises ApiError if
        the controller rejects this broker.

        No partition is led or followed, and no client served, before the metadata shows this incarnation: earlier
        metadata names the previous incarnation as leader, whose high watermarks and followers are not known here. As in
        Kafka, clients are served once the metadata shows this broker unfenced. The metadata of a fenced broker may have
        no live broker: a client that gets it has no broker to connect to (librdkafka then waits for ever).
        """
        async with trio.open_nursery() as service_nursery:
            service_nursery.start_soon(self._end_without_disk)
            service_nursery.start_soon(self._end_with_too_many_directories)
            service_nursery.start_soon(self.replicas.flusher.run)
            service_nursery.start_soon(self.replicas.writer.run)
            service_nursery.start_soon(self.groups.run)
            service_nursery.start_soon(self.transactions.run)
            service_nursery.start_soon(self.shares.run)
            service_nursery.start_soon(
                self.lifecycle.run, self._endpoints(advertised), self._directories(), previous_epoch
            )
            await self.lifecycle.registered.wait()
            await shows_registration(loader, self._config.node_id, self.lifecycle.epoch)
            follow_metadata(self.authorizer, loader)
            loader.add_publisher(self.publisher)
            loader.add_publisher(DynamicConnectionLimits(self.configs, tuple(self.socket_servers.values())))
            loader.add_publisher(LivePlainUsers(self._config, self.plain_users, self.log))
            loader.add_publisher(QuotaPublisher(self.quotas))
            service_nursery.start_soon(self.replication.run)
            service_nursery.start_soon(self.log_tasks.run)
            await self._until_live()
            await self.token_keys.start(service_nursery)
            if self.tiering is not None:
                service_nursery.start_soon(self.tiering.run)
            if (export := self.services.telemetry.export) is not None:
                service_nursery.start_soon(export.run)
            for name, server in self.socket_servers.items():
                await service_nursery.start(
                    lambda task_status, name=name, server=server: server.run(listeners[name], task_status=task_status)
                )
            task_status.started()

    async def _until_live(self) -> None:
        """Return when the controller has unfenced this broker and the broker has applied that, which may make it the
        leader of many partitions."""
        await self.lifecycle.unfenced.wait()
        await self.metadata.wait_until(lambda image: self.metadata.is_live(self._config.node_id), SHOWN_SECONDS_MAX)

    def _endpoints(self, advertised: tuple[Endpoint, ...]) -> list[RegisteredListener]:
        return [
            RegisteredListener(
                name=endpoint.name,
                host=endpoint.host,
                port=endpoint.port,
                security_protocol=SECURITY_PROTOCOL_IDS[endpoint.security_protocol],
            )
            for endpoint in advertised
            if endpoint.name in self.socket_servers
        ]

    def _directories(self) -> list[bytes]:
        return sorted(
            directory.directory_id for directory in self.replicas.logs.online() if directory.directory_id is not None
        )

    async def leave(self, deadline: float) -> None:
        """Controlled shutdown: the controller moves leaderships away and then permits the stop. Returns at `deadline`
        (clock seconds) at the latest."""
        if not self._config.flag("controlled.shutdown.enable") or self.lifecycle.epoch < 0:
            return
        self.lifecycle.begin_controlled_shutdown()
        with self._world.clock.move_on_at(deadline):
            await self.lifecycle.may_stop.wait()

    def _metadata_offset(self) -> int:
        return self.metadata.offset

    def _offsets_partitions(self) -> int:
        topic = self.metadata.image.topics.by_name(OFFSETS_TOPIC)
        return len(topic.partitions) if topic is not None else self._config.integer("offsets.topic.num.partitions")

    def directory_failed(self, path: str) -> None:
        """See `ReplicaListener`. Reports the directory to the controller. After the last directory has failed the
        broker stops."""
        directory = next(directory for directory in self.replicas.logs.directories if directory.path == path)
        if directory.directory_id is not None:
            self.lifecycle.offline_directories.append(directory.directory_id)
            self.lifecycle.poke()

        if path == self._config.metadata_log_dir or not self.replicas.logs.online():
            self._disk_lost.set()

    async def _end_without_disk(self) -> None:
        """Stop the broker when all log directories, or the directory of the metadata log, have failed, as Kafka does.
        After a restart of the process the disk may work again."""
        await self._disk_lost.wait()
        await self._world.clock.sleep(SHUTDOWN_GRACE_SECONDS)
        failures = "; ".join(
            f"{directory.path}: {directory.failure}"
            for directory in self.replicas.logs.directories
            if not directory.is_online
        )
        raise StorageError(f"log directory failed: {failures}")

    def _cordoned_directories(self) -> list[bytes] | None:
        """The ids of the cordoned log directories, for a heartbeat. None if the cluster does not know of them yet, or
        while this broker's metadata lacks its registration: its configuration may be outdated."""
        image, logs = self.metadata.image, self._logs
        own = image.cluster.brokers.get(self._config.node_id)
        if not image.features.capabilities.serves_cordons or own is None or own.epoch != self.lifecycle.epoch:
            return None
        cordoned = [directory for directory in logs.directories if directory.path in logs.cordoned]
        return [directory.directory_id for directory in cordoned if directory.directory_id is not None]

    def _published(self) -> None:
        """Apply what the new image says about other brokers, and report changed cordons.

        While this broker is fenced, or another one is in controlled shutdown, the controller waits for this broker's
        metadata offset: send a heartbeat.
        """
        self.replication.fetchers.follow_changed()
        if not self._directories_are_registered:
            self._follow_level()
        if self._logs.cordoned != self._cordoned:
            self._cordoned = self._logs.cordoned
            self.lifecycle.poke()
        if self.lifecycle.fenced or any(
            broker.in_controlled_shutdown and not broker.fenced
            for broker in self.metadata.image.cluster.brokers.values()
        ):
            self.lifecycle.poke()

    def _follow_level(self) -> None:
        """Act on the finalized metadata.version. From 3.7-IV2 on the controller knows log directories (KIP-858): a
        broker that registered without them registers again, and replicas' directories are reported. Below that level it
        has one directory."""
        features, own = self.metadata.image.features, self.metadata.image.cluster.brokers.get(self._config.node_id)
        if not features.capabilities.assigns_directories:
            if features.metadata_version is not None and len(self._logs.directories) > 1:
                self._too_many_directories.set()
            return
        self.replication.directories_are_known.set()
        if own is not None and own.epoch == self.lifecycle.epoch:
            self._directories_are_registered = bool(own.directories)
            if not own.directories:
                self.lifecycle.amend_registration()

    async def _end_with_too_many_directories(self) -> None:
        """Stop the broker if it has several log directories below 3.7-IV2, as Kafka does."""
        await self._too_many_directories.wait()
        found = self.metadata.image.features.capabilities
        raise ConfigurationError(
            [
                f"log.dirs: this broker has {len(self._logs.directories)} log directories. Multiple log directories "
                f"are not supported in the current MetadataVersion {found.name}. Need "
                f"{METADATA_VERSION_NAMES[DIRECTORIES_LEVEL]} or higher: raise metadata.version with "
                "`kraft features upgrade`, or start this broker with one directory"
            ]
        )


def _fetch_sessions(config: NodeConfig, world: World) -> FetchSessionCache:
    slots = config.integer("max.incremental.fetch.session.cache.slots")
    return FetchSessionCache(slots, first_id=world.random.stream("fetch-session").getrandbits(31))


def _group_config(config: NodeConfig) -> GroupCoordinatorConfig:
    return GroupCoordinatorConfig(
        group_min_session_timeout_ms=config.integer("group.min.session.timeout.ms"),
        group_max_session_timeout_ms=config.integer("group.max.session.timeout.ms"),
        group_initial_rebalance_delay_ms=config.integer("group.initial.rebalance.delay.ms"),
        group_max_size=config.integer("group.max.size"),
        group_consumer_max_size=config.integer("group.consumer.max.size"),
        group_consumer_assignors=config.texts("group.consumer.assignors"),
        group_consumer_migration_policy=MigrationPolicy[config.text("group.consumer.migration.policy").upper()],
        group_consumer_regex_refresh_interval_ms=config.integer("group.consumer.regex.refresh.interval.ms"),
        offset_metadata_max_bytes=config.integer("offset.metadata.max.bytes"),
        offsets_retention_minutes=config.integer("offsets.retention.minutes"),
        offsets_retention_check_interval_ms=config.integer("offsets.retention.check.interval.ms"),
        offsets_commit_timeout_ms=config.integer("offsets.commit.timeout.ms"),
        group_share_max_size=config.integer("group.share.max.size"),
        group_streams_max_size=config.integer("group.streams.max.size"),
    )


class _RegistrationWatch:
    """A publisher that sets `seen` when the metadata shows one incarnation of a broker."""

    def __init__(self, broker_id: int, epoch: int) -> None:
        self._broker_id = broker_id
        self._epoch = epoch
        self.seen = trio.Event()

    def publish(self, update: MetadataUpdate) -> None:
        """See `kraft.metadata.publisher.MetadataPublisher`."""
        broker = update.image.cluster.brokers.get(self._broker_id)
        if broker is not None and broker.epoch >= self._epoch:
            self.seen.set()


async def shows_registration(loader: MetadataLoader, broker_id: int, epoch: int) -> None:
    """Return once the metadata shows the broker with that epoch or a later one."""
    watch = _RegistrationWatch(broker_id, epoch)
    loader.add_publisher(watch)
    await watch.seen.wait()
