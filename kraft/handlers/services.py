"""The parts of a node that handlers use, by name. Built by kraft/server, one for the broker's listeners and one for the
controller's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kraft.common.config.node.node_config import NodeConfig
    from kraft.common.logging import Logger, Loggers
    from kraft.controller.quorum_controller import QuorumController
    from kraft.coordinator.group.service.group_coordinator import GroupCoordinator
    from kraft.coordinator.transaction.transaction_coordinator import TransactionCoordinator
    from kraft.coordinator.transaction.transaction_partitions import TransactionPartitions
    from kraft.handlers.metadata.missing_internal_topics import MissingInternalTopics
    from kraft.handlers.registry import Registry, RequestContext
    from kraft.handlers.security.audited_changes import ChangeListener
    from kraft.metadata.metadata_cache import MetadataCache
    from kraft.quota.client_quotas import ClientQuotas, MutationQuotas
    from kraft.raft.driver import RaftDriver
    from kraft.replication.replica_manager import ReplicaManager
    from kraft.replication.sessions.fetch_session import FetchSessionCache
    from kraft.replication.topic_configs import ConfigView
    from kraft.security.authorizer import Authorizer
    from kraft.world.ports import World


class ControllerChannel(Protocol):
    """The way to the active controller: a local call where it is this node, else the network (Envelope for what
    clients asked for)."""

    async def forward(self, request: Any, context: RequestContext) -> Any:
        """Have the active controller carry out a client's request as the client's principal.

        Raises ApiError NOT_CONTROLLER or REQUEST_TIMED_OUT when it cannot be reached in time.
        """

    async def send(self, request: Any) -> Any:
        """The same for a request of this broker itself."""


class ProducerIds(Protocol):
    async def next(self) -> int:
        """A producer id never handed out before. Raises ApiError COORDINATOR_LOAD_IN_PROGRESS while no block can be
        had."""


class StatusReports(Protocol):
    """What DescribeConfigs answers to status keys (`kraft.common.status_keys`)."""

    async def report(self, key: str, topic: str | None, group: str | None) -> Any | None:
        """The JSON document of a status key, of one topic or group, or of the node or cluster; None: it is not told
        here. Raises ApiError."""


@dataclass(slots=True, kw_only=True, eq=False)
class NodeServices:
    """What handlers on any listener use."""

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
    """None: everybody may do everything."""

    @property
    def config(self) -> NodeConfig:
        """The node's configuration as it is now, dynamic values included."""
        return self.configs.effective(self.metadata.image)


@dataclass(slots=True, kw_only=True, eq=False)
class BrokerServices(NodeServices):
    """What handlers on the broker's listeners use."""

    replicas: ReplicaManager
    sessions: FetchSessionCache
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    controller: ControllerChannel
    producer_ids: ProducerIds
    transaction_partitions: TransactionPartitions
    quotas: ClientQuotas
    unmade_topics: MissingInternalTopics
    fetch_bytes_max: int = field(init=False)
    """`fetch.max.bytes`, which is as the process was given it."""
    serves_consumer_groups: bool = field(init=False)
    """Whether `group.coordinator.rebalance.protocols` has KIP-848's, likewise."""

    def __post_init__(self) -> None:
        config = self.configs.static
        self.fetch_bytes_max = config.integer("fetch.max.bytes")
        self.serves_consumer_groups = "consumer" in config.texts("group.coordinator.rebalance.protocols")


@dataclass(slots=True, kw_only=True, eq=False)
class ControllerServices(NodeServices):
    """What handlers on the controller's listener use."""

    controller: QuorumController
    raft: RaftDriver
    mutations: MutationQuotas
    audit: ChangeListener
