"""A whole node from a configuration and a world: `run_node` builds all parts and runs them until it is asked to stop.

Start: bind ports, lock and identify (or format) directories, join the quorum, catch up with the metadata, load logs,
register and unfence the broker. Each step needs the one before. A failure ends the start with its reason, and leaves
directories as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from kraft.common.config.endpoints import Endpoint
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.errors import ConfigurationError
from kraft.common.ids import TopicPartition
from kraft.common.logging import Loggers
from kraft.metadata.publisher import MetadataUpdate
from kraft.network.limits import ConnectionCounts
from kraft.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kraft.replication.logs.loading import load_logs
from kraft.replication.topic_configs import ConfigView
from kraft.rpc_client.connection import Disconnected, connect
from kraft.security.certificates import HTTP_ADMIN
from kraft.server.broker_server import BrokerServer
from kraft.server.controller_server import ControllerServer
from kraft.server.events.event_journal import EventJournal
from kraft.server.events.metadata_events import MetadataEvents
from kraft.server.facts.node_status import ControllerStatus, NodeStatus
from kraft.server.formatting import (
    format_empty_directories,
    open_metadata_directory,
    read_bootstrap_records,
    refuse_foreign_directories,
    require_metadata_directory,
)
from kraft.server.http_admin.remote_requests import RemoteRequests
from kraft.server.node_to_controller_channel import NodeToControllerChannel
from kraft.server.security.logins import NodeLogins
from kraft.server.security.own_principal import check_own_principal, own_subject
from kraft.server.security.tls_keys import TlsKeys
from kraft.server.shared_server import SharedServer
from kraft.server.shutdown import close_logs, leave
from kraft.server.stall_monitor import StallMonitor
from kraft.server.tiers.remote_store import open_store
from kraft.storage.directories.meta_properties import read_meta_properties
from kraft.storage.log_manager import LogManager
from kraft.world.ports import Listener, World

if TYPE_CHECKING:
    from kraft.server.facts.group_progress import GroupProgress
    from kraft.server.history.history import History
    from kraft.server.http_admin.service import AdminService
    from kraft.server.metrics.group_lags import GroupLags

CLUSTER_ID_RETRY_SECONDS = 0.2
UNREACHED_TELL_SECONDS = 10.0
CONTROLLER_ENDPOINTS = 2

BACKLOG_LEAST: Final = 1024
"""The number of connections that the kernel completes before the node accepts them. The loop also serves other work. A
client that finds the queue full retries a second later."""


class Node:
    """A serving node, as its process sees it."""

    def __init__(
        self,
        world: World,
        config: NodeConfig,
        cluster_id: str,
        endpoints: tuple[Endpoint, ...],
        shared: SharedServer,
        loggers: Loggers,
        channel: NodeToControllerChannel,
        keys: TlsKeys,
        stop: trio.Event,
    ) -> None:
        self.world = world
        self.keys = keys
        self.config = config
        self.cluster_id = cluster_id
        self.endpoints = endpoints
        self.shared = shared
        self.loggers = loggers
        self.events = EventJournal(world.clock)
        self.broker: BrokerServer | None = None
        self.controller: ControllerServer | None = None
        self.stalls = StallMonitor(world.clock, loggers.get("loop"), self._last_request)
        self.remote = RemoteRequests(self)
        self.status = NodeStatus(self, channel)
        self.history: History | None = None
        self.group_progress: GroupProgress | None = None
        """Progress of groups in the last hour, on a node with an HTTP admin."""
        self.nursery: trio.Nursery | None = None
        """The nursery for tasks that run until the node stops."""
        self._stop = stop
        self._admin: AdminService | None = None

    @property
    def admin_service(self) -> AdminService:
        """The node as the HTTP edge sees it. Created on the node's loop at the first call."""
        if self._admin is None:
            from kraft.server.http_admin.service import AdminService  # Only nodes with an HTTP admin need it.

            self._admin = AdminService(self)
        return self._admin

    def record_history(self, lags: GroupLags) -> None:
        """Record history until the node stops."""
        from kraft.server.history.recorder import HistoryRecorder

        recorder = HistoryRecorder(self, lags)
        self.history = recorder.history
        self.group_progress = recorder.progress
        assert self.nursery is not None
        self.nursery.start_soon(recorder.run)

    def watch_admin_certificate(self, chain: Callable[[], str]) -> None:
        """Report the expiry of the HTTP admin's certificate, as for listeners. `chain` returns it in PEM form."""
        self.keys.watch(HTTP_ADMIN, chain)

    def begin_shutdown(self) -> None:
        """Hand over leaderships, flush, and let `run_node` return. Idempotent."""
        self._stop.set()

    def _last_request(self) -> str | None:
        return None if self.broker is None else self.broker.dispatcher.last_request


async def run_node(
    config: NodeConfig, world: World, *, task_status: trio.TaskStatus[Node] = trio.TASK_STATUS_IGNORED
) -> None:
    """Run until `Node.begin_shutdown`, then stop cleanly and return. `task_status` gets the Node once it serves.

    Raises ConfigurationError if it cannot start, ApiError if the cluster rejects it, StorageError or OSError if the
    disk fails permanently.
    """
    loggers = Loggers(world.log_sink, world.clock, config.text("kraft.log.level").lower(), node=config.node_id)
    keys = TlsKeys(world, config)
    logins = NodeLogins(config)
    check_own_principal(config, keys, logins, await own_subject(world, config, logins, loggers.get("node")))
    open_store(world, config)  # Here it can be said why it cannot be.
    broker_name, controller_name = config.inter_broker_listener_name, config.controller_listener_names[0]
    to_brokers = keys.world_towards(broker_name, logins.towards(broker_name))
    to_controllers = keys.world_towards(controller_name, logins.towards(controller_name))
    listeners = await _bind(world, config, keys)
    view = ConfigView(config)
    shared: SharedServer | None = None
    stack = ExitStack()
    logs = LogManager(
        world.files,
        config.log_dirs,
        node_id=config.node_id,
        new_uuid=lambda: world.random.uuid("directory"),
        config_of=lambda topic: (
            view.topic(shared.loader.image, topic).log if shared is not None else view.topic_default().log
        ),
        producer_expiration_ms=config.integer("producer.id.expiration.ms"),
        on_event=lambda place, sentence: loggers.get("logs").warning("log directory", directory=place, note=sentence),
    )
    try:
        bound = {name: listener.port for name, listener in listeners.items()}
        advertised = config.advertised_listeners(bound)
        controllers = tuple(endpoint for endpoint in advertised if endpoint.name in config.controller_listener_names)
        cluster_id, directory_id = await _identify(world, to_controllers, config, logs, controllers, loggers, stack)
        shared = SharedServer(to_controllers, config, cluster_id, directory_id, controllers, loggers)
        endpoints = tuple(endpoint._replace(port=bound[endpoint.name]) for endpoint in config.listeners)
        await _serve(
            _Parts(
                to_brokers,
                to_controllers,
                keys,
                config,
                cluster_id,
                logs,
                shared,
                loggers,
                listeners,
                advertised,
                endpoints,
                logins,
            ),
            task_status,
        )
    finally:
        for listener in listeners.values():
            listener.close()
        logs.release()
        stack.close()


async def _bind(world: World, config: NodeConfig, keys: TlsKeys) -> dict[str, Listener]:
    """Listen on every port of the configuration. Raises ConfigurationError naming the option of each port that cannot
    be bound."""
    listeners: dict[str, Listener] = {}
    backlog = max(config.integer("socket.listen.backlog.size"), BACKLOG_LEAST)
    problems = []
    for endpoint in config.listeners:
        try:
            tls = keys.of_listener(endpoint.name)
            listeners[endpoint.name] = await (
                world.network.listen(endpoint.host, endpoint.port, backlog)
                if tls is None
                else world.network.listen(endpoint.host, endpoint.port, backlog, tls)
            )
        except ValueError as problem:
            problems.append(f"listener {endpoint.name}: {problem}")
        except OSError as problem:
            option = "--controller-listen" if endpoint.name in config.controller_listener_names else "--listen"
            problems.append(f"{option} (listeners): cannot listen on {endpoint}: {problem.strerror or problem}")
    if problems:
        for listener in listeners.values():
            listener.close()
        raise ConfigurationError(problems)
    return listeners


async def _identify(
    world: World,
    to_controllers: World,
    config: NodeConfig,
    logs: LogManager,
    controllers: tuple[Endpoint, ...],
    loggers: Loggers,
    stack: ExitStack,
) -> tuple[str, bytes]:
    """The cluster id of this node's directories, and the id of the metadata directory. Formats empty ones if that is
    safe. Raises ConfigurationError."""
    files = world.files
    refuse_foreign_directories(files, config)
    metadata = open_metadata_directory(files, config, stack)
    known = config.cluster_id if metadata is None else metadata.cluster_id
    cluster_id = logs.open(known) or (None if metadata is None else metadata.cluster_id)
    if cluster_id is not None:
        require_metadata_directory(config, cluster_id, metadata)
    elif config.is_controller:
        cluster_id = format_empty_directories(world, config, controllers)
        loggers.get("node").info("directories formatted", cluster=cluster_id, directories=",".join(config.log_dirs))
    else:
        cluster_id = config.cluster_id or await _learn_cluster_id(to_controllers, config, loggers)
    logs.format_missing(cluster_id)
    metadata = read_meta_properties(files, config.metadata_log_dir)
    return cluster_id, bytes(16) if metadata is None or metadata.directory_id is None else metadata.directory_id


async def _learn_cluster_id(world: World, config: NodeConfig, loggers: Loggers) -> str:
    """Request the cluster id from the quorum, until it answers. A broker without a controller role gets the id in this
    way, since its directories need not be formatted."""
    addresses = [(voter.host, voter.port) for voter in config.voters] + [
        (address.host, address.port) for address in config.bootstrap_controllers
    ]
    tell_at = world.clock.now() + UNREACHED_TELL_SECONDS
    while True:
        if world.clock.now() >= tell_at:
            tell_at += UNREACHED_TELL_SECONDS
            loggers.get("node").warning(
                "no controller answers: the node waits for the cluster id",
                controllers=",".join(f"{host}:{port}" for host, port in addresses),
                remedy="start a controller, or correct --voters or --bootstrap-controllers",
            )
        for host, port in addresses:
            try:
                async with connect(world, host, port, timeout=2.0) as connection:
                    response = await connection.call(
                        DescribeClusterRequest(endpoint_type=CONTROLLER_ENDPOINTS), timeout=2.0
                    )
                if not response.error_code:
                    return str(response.cluster_id)
            except (Disconnected, TimeoutError) as problem:
                loggers.get("node").debug("controller not reached", address=f"{host}:{port}", reason=str(problem))
        await world.clock.sleep(CLUSTER_ID_RETRY_SECONDS)


class _FirstImage:
    """A publisher that sets `arrived` when the metadata has caught up."""

    def __init__(self) -> None:
        self.arrived = trio.Event()

    def publish(self, update: MetadataUpdate) -> None:
        self.arrived.set()


class _Parts:
    """The parts that `_serve` connects."""

    def __init__(
        self,
        world: World,
        to_controllers: World,
        keys: TlsKeys,
        config: NodeConfig,
        cluster_id: str,
        logs: LogManager,
        shared: SharedServer,
        loggers: Loggers,
        listeners: Mapping[str, Listener],
        advertised: tuple[Endpoint, ...],
        endpoints: tuple[Endpoint, ...],
        logins: NodeLogins,
    ) -> None:
        self.world = world
        """The world of connections to brokers."""
        self.to_controllers = to_controllers
        self.keys = keys
        self.config = config
        self.cluster_id = cluster_id
        self.logs = logs
        self.shared = shared
        self.loggers = loggers
        self.listeners = listeners
        self.advertised = advertised
        self.endpoints = endpoints
        self.logins = logins


def _renew_keys(parts: _Parts, nursery: trio.Nursery) -> None:
    """Start renewing this node's TLS keys and tokens."""
    parts.keys.start(nursery, parts.listeners, parts.loggers.get("network"))
    for tokens in parts.logins.tokens:
        nursery.start_soon(tokens.renew, parts.world, parts.loggers.get("tokens"))


async def _serve(parts: _Parts, task_status: trio.TaskStatus[Node]) -> None:
    world, config, shared, stop = parts.world, parts.config, parts.shared, trio.Event()
    log, timeout = parts.loggers.get("channel"), config.seconds("request.timeout.ms")
    channel = NodeToControllerChannel(parts.to_controllers, config.node_id, shared.leader_endpoint, log, timeout)
    node = Node(world, config, parts.cluster_id, parts.endpoints, shared, parts.loggers, channel, parts.keys, stop)
    with closing(channel), closing(node.remote), world.loop.watch(node.stalls):
        async with trio.open_nursery() as node_nursery:
            node.nursery = node_nursery
            _renew_keys(parts, node_nursery)
            async with trio.open_nursery() as broker_nursery:
                if config.is_controller:
                    bootstrap = read_bootstrap_records(world.files, config.metadata_log_dir)
                    node.controller = ControllerServer(
                        world,
                        config,
                        parts.cluster_id,
                        shared,
                        bootstrap,
                        channel,
                        ConnectionCounts(),
                        node.events,
                        parts.loggers,
                        ControllerStatus(node, node.status),
                    )
                    node_nursery.start_soon(node.controller.run, parts.listeners, parts.advertised)
                first = _FirstImage()
                shared.loader.add_publisher(first)
                shared.loader.add_publisher(MetadataEvents(node.events, lambda: shared.raft.leader_and_epoch))
                await node_nursery.start(lambda task_status: shared.run(task_status=task_status))
                if config.is_broker:
                    features, counts = shared.finalized_features, ConnectionCounts()
                    node.broker = BrokerServer(
                        world,
                        config,
                        parts.cluster_id,
                        parts.logs,
                        parts.loggers,
                        channel,
                        counts,
                        features,
                        node.events,
                        broker_nursery,
                        node.status,
                    )
                    await _start_broker(node.broker, parts, first, broker_nursery)
                task_status.started(node)
                await stop.wait()
                if node.broker is not None:
                    deadline = world.clock.now() + config.seconds("kraft.shutdown.timeout.ms") / 2
                    await leave(node.broker, world, deadline, shared.raft.voter_endpoints, config.node_id)
                broker_nursery.cancel_scope.cancel()
            if node.broker is not None:
                # Outside the broker's nursery: what was cancelled with it could not close anything.
                await close_logs(node.broker.replicas, world)
            await shared.raft.shutdown()
            node_nursery.cancel_scope.cancel()
    if node.broker is not None:
        # Last of all: it lets go of the locks, under which the metadata log lives as well.
        parts.logs.finish_shutdown(node.broker.lifecycle.epoch)
    parts.loggers.get("node").info("stopped")


async def _start_broker(broker: BrokerServer, parts: _Parts, first: _FirstImage, nursery: trio.Nursery) -> None:
    """Start the broker. Returns when it serves."""
    await first.arrived.wait()
    topics = parts.shared.loader.image.topics

    def assigned(topic_partition: TopicPartition) -> bytes | None:
        topic = topics.by_name(topic_partition.topic)
        registration = None if topic is None else topic.partitions.get(topic_partition.partition)
        return (
            registration.directory(broker_id)
            if registration is not None and broker_id in registration.replicas
            else None
        )

    broker_id = parts.config.node_id
    await load_logs(
        parts.logs, parts.world, lambda name: None if (topic := topics.by_name(name)) is None else topic.id, assigned
    )
    await nursery.start(
        partial(broker.run, parts.listeners, parts.advertised, parts.logs.clean_shutdown_epoch, parts.shared.loader)
    )
