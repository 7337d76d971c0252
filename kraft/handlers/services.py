"""The parts of a node that handlers use. kraft/server builds one object for the broker's listeners and one for the
controller's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from kraft.common.features import serves_share_groups, serves_streams_groups

if TYPE_CHECKING:
    from kraft.common.config.node.node_config import NodeConfig
    from kraft.common.logging import Logger, Loggers
    from kraft.controller.quorum_controller import QuorumController
    from kraft.coordinator.group.service.group_coordinator import GroupCoordinator
    from kraft.coordinator.share.share_coordinator import ShareCoordinator
    from kraft.coordinator.transaction.transaction_coordinator import TransactionCoordinator
    from kraft.coordinator.transaction.transaction_partitions import TransactionPartitions
    from kraft.handlers.metadata.missing_internal_topics import MissingInternalTopics
    from kraft.handlers.metadata.streams_internal_topics import StreamsInternalTopics
    from kraft.handlers.registry import Registry, RequestContext
    from kraft.handlers.security.audited_changes import ChangeListener
    from kraft.handlers.telemetry import Telemetry
    from kraft.metadata.metadata_cache import MetadataCache
    from kraft.quota.client_quotas import ClientQuotas, MutationQuotas
    from kraft.raft.driver import RaftDriver
    from kraft.replication.replica_manager import ReplicaManager
    from kraft.replication.sessions.fetch_session import FetchSessionCache
    from kraft.replication.topic_configs import ConfigView
    from kraft.security.authorizer import Authorizer
    from kraft.share.share_partitions import SharePartitions
    from kraft.world.ports import World


class ControllerChannel(Protocol):
    """Sends requests to the active controller: by a local call if it is this node, else over the network (clients'
    requests in an Envelope)."""

    async def forward(self, request: Any, context: RequestContext) -> Any:
        """Have the active controller serve a client's request, with the client's principal.

        Raises ApiError NOT_CONTROLLER or REQUEST_TIMED_OUT if it cannot be reached in time.
        """

    async def send(self, request: Any) -> Any:
        """Send a request of this broker itself. Raises as `forward` does."""


class ProducerIds(Protocol):
    async def next(self) -> int:
        """A producer id that was never returned before. Raises ApiError COORDINATOR_LOAD_IN_PROGRESS while no block of
        ids is available."""


class StatusReports(Protocol):
    """The answers of DescribeConfigs to status keys (`kraft.common.status_keys`)."""

    async def report(self, key: str, topic: str | None, group: str | None, client: str | None = None) -> Any | None:
        """The JSON document of a status key: of one topic, group or client (by its instance id), or of the node or
        cluster. None if this node does not serve the key. Raises ApiError."""


@dataclass(slots=True, kw_only=True, eq=False)
class NodeServices:
    """The services that handlers on any listener use."""

    world: World
    configs: ConfigView
    cluster_id: str
    finalized_features: Callable[[], Mapping[str, int]]
    log: Logger
    loggers: Loggers
    registry: Registry
    metadata: MetadataCache
    status: StatusReports
    authorizer: Authorizer | None = None
    """The authorizer; None if all operations are allowed."""

    @property
    def config(self) -> NodeConfig:
        """The node's current configuration, with dynamic values."""
        return self.configs.effective(self.metadata.image)


@dataclass(slots=True, kw_only=True, eq=False)
class BrokerServices(NodeServices):
    """The services that handlers on the broker's listeners use."""

    replicas: ReplicaManager
    sessions: FetchSessionCache
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    controller: ControllerChannel
    producer_ids: ProducerIds
    transaction_partitions: TransactionPartitions
    quotas: ClientQuotas
    shares: SharePartitions
    share_coordinator: ShareCoordinator
    unmade_topics: MissingInternalTopics
    streams_topics: StreamsInternalTopics
    telemetry: Telemetry
    fetch_bytes_max: int = field(init=False)
    """`fetch.max.bytes`, as configured at the start."""
    serves_consumer_groups: bool = field(init=False)
    """Whether `group.coordinator.rebalance.protocols`, as configured at the start, includes KIP-848's."""

    _lets_streams_join: bool = field(init=False)

    @property
    def serves_streams_groups(self) -> bool:
        """Whether streams groups are on: the feature `streams.version` is at least 1, and
        `group.coordinator.rebalance.protocols`, as configured at the start, includes theirs."""
        return self._lets_streams_join and serves_streams_groups(self.metadata.image.features)

    @property
    def serves_share_groups(self) -> bool:
        """Whether share groups are on: the feature `share.version` is at least 1."""
        return serves_share_groups(self.metadata.image.features)

    def __post_init__(self) -> None:
        config = self.configs.static
        self.fetch_bytes_max = config.integer("fetch.max.bytes")
        self._lets_streams_join = "streams" in config.texts("group.coordinator.rebalance.protocols")
        self.serves_consumer_groups = "consumer" in config.texts("group.coordinator.rebalance.protocols")


@dataclass(slots=True, kw_only=True, eq=False)
class ControllerServices(NodeServices):
    """The services that handlers on the controller's listener use."""

    controller: QuorumController
    raft: RaftDriver
    mutations: MutationQuotas
    audit: ChangeListener
