"""The controller of a node: the quorum controller, its listeners, and its own registration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import trio

from kraft.common.config.endpoints import Endpoint
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.errors import ApiError
from kraft.common.features import METADATA_VERSION
from kraft.common.internal_topics import GROWTH_ENABLE
from kraft.common.logging import Loggers
from kraft.controller.controller_view import ControllerSettings
from kraft.controller.controls.config_table import ConfigTable
from kraft.controller.controls.feature_control import Quorum
from kraft.controller.quorum_controller import QuorumController
from kraft.handlers.all_handlers import controller_registry
from kraft.handlers.dispatcher import RequestDispatcher
from kraft.handlers.services import ControllerServices, StatusReports
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.loader import MetadataLoader
from kraft.metadata.metadata_cache import MetadataCache
from kraft.metadata.publisher import MetadataUpdate
from kraft.network.limits import ConnectionCounts
from kraft.network.socket_server import SocketServer
from kraft.quota.client_quotas import MutationQuotas, connection_quota
from kraft.quota.quota_publisher import QuotaPublisher
from kraft.raft.driver import RaftDriver
from kraft.replication.topic_configs import ConfigView
from kraft.security.sasl.plain_users import PlainUsers
from kraft.server.connection_limits import DynamicConnectionLimits, socket_servers
from kraft.server.controller_registrar import ControllerRegistrar
from kraft.server.events.audit import AuditLog, follow_metadata, make_authorizer
from kraft.server.events.event_journal import EventJournal, EventKind
from kraft.server.node_to_controller_channel import NodeToControllerChannel
from kraft.server.security.live_plain_users import LivePlainUsers
from kraft.server.security.logins import NodeLogins
from kraft.server.shared_server import SharedServer
from kraft.world.ports import Listener as BoundListener
from kraft.world.ports import World


class RecoveryEvents:
    """Adds the controller's reports about recoveries to the node's event journal."""

    def __init__(self, events: EventJournal) -> None:
        self._events = events

    def handle_recovered(self, fields: Mapping[str, Any]) -> None:
        """See `kraft.controller.unclean.reports.RecoveryListener`."""
        self._events.append(EventKind.UNCLEAN_RECOVERY, **fields)

    def handle_waiting(self, fields: Mapping[str, Any]) -> None:
        """See `kraft.controller.unclean.reports.RecoveryListener`."""
        self._events.append(EventKind.ELECTION_WAITING, **fields)


class ControllerServer:
    """The controller role of a node. Created once by `kraft.server.node`; `run` serves until cancelled."""

    def __init__(
        self,
        world: World,
        config: NodeConfig,
        cluster_id: str,
        shared: SharedServer,
        bootstrap: Sequence[Any],
        channel: NodeToControllerChannel,
        counts: ConnectionCounts,
        events: EventJournal,
        loggers: Loggers,
        status: StatusReports,
    ) -> None:
        """`bootstrap` are the records that formatting wrote for the first controller of the cluster. `events` receives
        the controller's reports about recoveries."""
        self._world, self._config, self._logins = world, config, NodeLogins(config)
        self._log = loggers.get("controller")
        self.controller = QuorumController(
            controller_settings(config, cluster_id),
            ConfigTable(config),
            shared.raft,
            shared.loader,
            quorum_of(shared.raft),
            world,
            bootstrap=bootstrap,
            listener=RecoveryEvents(events),
            logger=self._log,
        )
        self.metadata, self.audit = MetadataCache(world.clock, MetadataImage()), AuditLog(events, loggers, world.clock)
        authorizer = make_authorizer(config, self.audit)
        self.registry = controller_registry(authorizer)
        mutations = MutationQuotas(config, world.clock, self.audit.throttles.take)
        self.services = ControllerServices(
            world=world,
            configs=ConfigView(config),
            cluster_id=cluster_id,
            finalized_features=shared.finalized_features,
            log=loggers.get("requests"),
            loggers=loggers,
            registry=self.registry,
            metadata=self.metadata,
            status=status,
            controller=self.controller,
            raft=shared.raft,
            mutations=mutations,
            audit=self.audit,
            authorizer=authorizer,
        )
        self.dispatcher = RequestDispatcher(self.registry, self.services, world.clock, loggers.get("requests"))
        self.token_keys = self._logins.token_keys(world, config.controller_listeners, loggers)
        self.plain_users: dict[str, PlainUsers] = {}
        self.socket_servers = self._socket_servers(counts, loggers)
        self._registration = ControllerRegistrar(config.node_id, world, channel, self._log)
        self._add_publishers(shared.loader, mutations)
        follow_metadata(authorizer, shared.loader)
        channel.use_local(self.registry, self.services)

    def _add_publishers(self, loader: MetadataLoader, mutations: MutationQuotas) -> None:
        for publisher in (
            ControllerMetadataPublisher(self.metadata, self._registration),
            DynamicConnectionLimits(self.services.configs, tuple(self.socket_servers.values())),
            LivePlainUsers(self._config, self.plain_users, self._log),
            QuotaPublisher(mutations),
        ):
            loader.add_publisher(publisher)

    def _socket_servers(self, counts: ConnectionCounts, loggers: Loggers) -> dict[str, SocketServer]:
        config, logins = self._config, self._logins
        self.plain_users = logins.plain_users(config.controller_listeners)
        return socket_servers(
            self._world,
            config,
            config.controller_listeners,
            counts,
            self.dispatcher,
            self.metadata,
            loggers,
            self.audit,
            logins,
            connection_quota(config, self._world.clock),
            self.token_keys,
        )

    async def run(self, listeners: Mapping[str, BoundListener], advertised: tuple[Endpoint, ...]) -> None:
        """Serve on `listeners` until cancelled."""
        async with trio.open_nursery() as controller_nursery:
            controller_nursery.start_soon(self.controller.run)
            await self.token_keys.start(controller_nursery)
            for name, server in self.socket_servers.items():
                await controller_nursery.start(
                    lambda task_status, name=name, server=server: server.run(listeners[name], task_status=task_status)
                )
            await self._registration.run([each for each in advertised if each.name in self.socket_servers])


def quorum_of(raft: RaftDriver) -> Quorum:
    """The controller's interface to the quorum."""

    async def raise_kraft_version(level: int, validate_only: bool) -> None:
        answer = await raft.requests.update_kraft_version(level, validate_only=validate_only)
        if answer.error:
            raise ApiError(answer.error, answer.message)

    return Quorum(lambda: raft.voters.ids, lambda: raft.kraft_version, raise_kraft_version)


def controller_settings(config: NodeConfig, cluster_id: str) -> ControllerSettings:
    """The controller's settings, from Kafka's keys."""
    balances = config.flag("auto.leader.rebalance.enable")
    return ControllerSettings(
        node_id=config.node_id,
        cluster_id=cluster_id,
        default_replication_factor=config.integer("default.replication.factor"),
        num_partitions=config.integer("num.partitions"),
        delete_topic_enable=config.flag("delete.topic.enable"),
        broker_session_timeout_ms=config.integer("broker.session.timeout.ms"),
        metadata_max_idle_interval_ms=config.integer("metadata.max.idle.interval.ms"),
        leader_imbalance_check_interval_ms=config.integer("leader.imbalance.check.interval.seconds") * 1000
        if balances
        else 0,
        unclean_leader_election_interval_ms=config.integer("unclean.leader.election.interval.ms"),
        unclean_recovery_timeout_ms=config.integer("kraft.unclean.recovery.timeout.ms"),
        delegation_token_secret_key=config.optional_text("delegation.token.secret.key") or None,
        delegation_token_max_lifetime_ms=config.integer("delegation.token.max.lifetime.ms"),
        delegation_token_expiry_time_ms=config.integer("delegation.token.expiry.time.ms"),
        delegation_token_expiry_check_interval_ms=config.integer("delegation.token.expiry.check.interval.ms"),
        internal_topics_grow=config.flag(GROWTH_ENABLE),
        remote_storage_enabled=config.flag("remote.log.storage.system.enable"),
        inter_broker_listener_name=config.inter_broker_listener_name,
    )


class ControllerMetadataPublisher:
    """Passes each new metadata image to the controller's handlers, and changes of controllers to the registrar."""

    def __init__(self, metadata: MetadataCache, registrar: ControllerRegistrar) -> None:
        self._metadata = metadata
        self._registrar = registrar

    def publish(self, update: MetadataUpdate) -> None:
        """See `kraft.metadata.publisher.MetadataPublisher`."""
        self._metadata.set(update.image, update.offset, update.epoch)
        if METADATA_VERSION in update.changes.features:
            self._registrar.take_level(update.image.features.capabilities)
        if update.changes.controllers:
            self._registrar.take_changes(update.changes.controllers, update.image.cluster.controllers)
