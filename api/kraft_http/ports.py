"""The interface of a node that the HTTP edge uses.

Requests of Kafka's protocol go through `AdminPort.call`. So REST has the same validation, error codes and authorization
as the wire, and the same handlers forward to the active controller. What Kafka's protocol does not have (health,
liveness, metrics) is returned as values. The edge runs in an asyncio thread of its own; an implementation bridges into
the node's loop.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from kraft.common.broker_state import ACTIVE
from kraft.common.config.dynamic.loss_reports import Report
from kraft.common.ids import TopicPartition
from kraft.protocol.schema import Message
from kraft.security.acls import AccessControlEntry
from kraft.security.scram_credentials import ScramMechanism

if TYPE_CHECKING:
    from kraft_http.health.health import ClusterHealth
    from kraft_http.health.health_findings import WaitingElections


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentity:
    """The properties of a node that do not change while it runs."""

    node_id: int
    roles: tuple[str, ...]
    cluster_id: str
    version: str
    read_only: bool = False
    """Whether the admin refuses every change (kraft.admin.read.only)."""
    admin_host: str = "localhost"
    """Bind address of the HTTP admin: a name, an address, or a wildcard (`0.0.0.0`, `::` or empty)."""
    advertised_hosts: tuple[str, ...] = ()
    """Hosts of the node's Kafka listeners. Requests to the HTTP admin may use them, too."""
    allowed_hosts: tuple[str, ...] = ()
    """Further host names for requests, whose pages may change things (kraft.admin.allowed.hosts)."""
    asks_for_password: bool = False
    """Whether clients log in by HTTP Basic (kraft.admin.authentication)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The properties of a request from which its client is authenticated."""

    host: str
    """Remote address of the connection."""
    authorization: str | None = field(default=None, repr=False)
    """The Authorization header."""
    certificate: bytes | None = field(default=None, repr=False)
    """The client's TLS certificate, as DER."""


class LoginRefused(Exception):
    """The client could not be authenticated, or not yet. The text is sent to the client, so it holds no secret."""

    def __init__(self, status: int, message: str, retry_seconds: int = 0) -> None:
        """`status` is the HTTP status. `retry_seconds` is the time after which to retry; 0 if a retry would not
        help."""
        super().__init__(message)
        self.status = status
        self.retry_seconds = retry_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One condition of a probe."""

    name: str
    ok: bool
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts:
    node_id: int
    host: str
    port: int
    rack: str | None = None
    fenced: bool = False
    shutting_down: bool = False
    epoch: int = -1
    desired_state: str = ACTIVE
    leaders: int = 0
    replicas: int = 0
    draining: DrainFacts | None = None
    """Set while the broker is being decommissioned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainFacts:
    """The remaining work of a decommissioning."""

    moving: int
    """The number of remaining replicas that are being moved to other brokers."""
    blocked: tuple[str, ...]
    """Partitions (`topic-0`) for whose replica no other broker is free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavePlan:
    """The moves that the decommissioning of a broker would make now."""

    moves: tuple[tuple[TopicPartition, int, int], ...]
    """Each replica to create on another broker: partition, target broker, and leader whose log is copied (-1 without a
    leader)."""
    blocked: tuple[str, ...]
    """Partitions (`topic-0`) for whose replica no other broker is free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentFacts:
    """A partition that is being reassigned."""

    topic: str
    partition: int
    leader: int
    replicas: tuple[int, ...]
    """Includes the replicas that are being added or removed."""
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFacts:
    """One event."""

    id: int
    time_ms: int
    kind: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    events: tuple[EventFacts, ...]
    missed: bool
    """Whether events between the requested id and the first event are missing on this node."""
    last_id: int
    """The id after which to continue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPage:
    """The last hour of some series. Each has one number for each of `times_ms`, which ascend."""

    times_ms: tuple[int, ...]
    series: Mapping[str, tuple[float, ...]]
    silent: tuple[int, ...]
    """Brokers that did not respond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierFacts:
    """A tiered partition, as its leader reports it. All but `local_bytes` is as of the leader's last round of
    tiering."""

    partition: int
    local_bytes: int
    remote_bytes: int
    copy_lag_bytes: int
    """Bytes of closed segments that are only on the disk."""
    copy_lag_segments: int
    last_error: str | None
    """Error of the last round; None if it succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTopic:
    """A topic without its partitions."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions_count: int
    replication_factor: int
    """Replication factor of the first partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """A topic's size and traffic. Rates are per second, over the last ten seconds. Groups and lag are as of the
    coordinators' last sample, at most half a minute ago."""

    name: str
    records: int
    """Number of offsets, including transaction markers and compacted records."""
    leader_bytes: int
    replica_bytes: int
    records_in: float
    bytes_in: float
    bytes_out: float
    groups: int
    """Groups with committed offsets for the topic."""
    lag: int
    """Their total lag in records."""
    tiers: tuple[TierFacts, ...]
    """Tiered partitions with a leader, ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFactsPage:
    topics: tuple[TopicFacts, ...]
    silent: tuple[int, ...]
    """Brokers that did not report the partitions that they lead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicGroups:
    """The groups that have committed offsets for a topic, or whose members may be consuming it."""

    coordinators: Mapping[str, int]
    """Coordinator of each group, by group id, in order."""
    left_out: int
    """The number of groups that are left out of `coordinators`."""
    silent: tuple[int, ...]
    """Brokers that did not report the groups that they coordinate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """A partition that is not fully healthy."""

    topic: str
    partition: int
    leader: int
    """-1 without a leader."""
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    min_in_sync: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopicFacts:
    """The replication factor of a coordinator's topic, and the one with which it would be created now."""

    topic: str
    replicas: int
    """The fewest replicas that any partition of the topic has."""
    replicas_wanted: int
    min_in_sync: int
    min_in_sync_wanted: int
    """The configured min.insync.replicas, but at most `replicas_wanted`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """The cluster as this node's metadata image shows it, and facts about this node itself."""

    controller_id: int
    """The active controller; -1 if unknown."""
    controller_epoch: int
    voters: tuple[int, ...]
    brokers: tuple[BrokerFacts, ...]
    topics_count: int
    partitions_count: int
    impaired: tuple[PartitionFacts, ...]
    """Partitions without a leader, with fewer in-sync replicas than replicas, or at or below their minimum of
    several."""
    internal_topics: tuple[InternalTopicFacts, ...] = ()
    reassignments: tuple[ReassignmentFacts, ...] = ()
    offline_log_dirs: tuple[str, ...] = ()
    disk_free_bytes: int | None = None
    disk_total_bytes: int | None = None
    metadata_offset: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanElectionFacts:
    """An unclean election that is recorded in the metadata log, and the records that it lost."""

    topic: str
    report: Report
    gone: tuple[int, ...] = ()
    """Awaited replicas that will not return: they were moved away, or their broker was unregistered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessFacts:
    """The decision of an authorizer."""

    allowed: bool
    reason: str
    """SUPER_USER, ENTRY, NO_ENTRY, NO_ENTRY_NAMES_RESOURCE or NO_AUTHORIZER."""
    entry: AccessControlEntry | None = None
    """The entry that allowed or denied the operation; None unless `reason` is ENTRY."""


class AdminPort(Protocol):
    """A node, as its HTTP admin sees it. Every method may be called from any asyncio task."""

    @property
    def identity(self) -> NodeIdentity: ...

    async def on_behalf_of(self, caller: Caller) -> AdminPort:
        """The same node for one caller: its requests have the caller's principal and address while the login is valid.
        After that they raise ApiError SASL_AUTHENTICATION_FAILED. Raises LoginRefused if the caller cannot be
        authenticated."""

    def principal(self) -> str:
        """The caller's principal."""

    def permissions(self) -> Hashable:
        """A key that is equal for callers with the same permissions: a response for one of them may be returned to
        another."""

    def tell_failed_handshake(self, host: str, reason: str) -> None:
        """Report a client's failed TLS handshake."""

    async def call(self, api_key: int, version: int, request: Message, *, node_id: int | None = None) -> Message:
        """Send a request to this node, or to broker `node_id`, as a client would. Returns the response.

        Raises ConnectionError if that broker cannot be reached, TimeoutError if it does not answer, ApiError
        UNSUPPORTED_VERSION for a request that the node does not serve.
        """

    async def access_of(self, principal: str, host: str, operation: int, kind: int, name: str) -> AccessFacts:
        """Whether this node's authorizer would allow the operation to the principal now. Raises ApiError
        CLUSTER_AUTHORIZATION_FAILED as `cluster_facts` does."""

    async def salted_password(self, mechanism: ScramMechanism, password: str, iterations: int) -> tuple[bytes, bytes]:
        """A new salt, and the salted password as SCRAM stores it. Takes milliseconds in a thread."""

    def now_ms(self) -> int:
        """The node's wall clock, in ms since 1970."""

    async def cluster_facts(self) -> ClusterFacts:
        """The facts about the cluster. Like the other methods for facts and events it raises ApiError
        CLUSTER_AUTHORIZATION_FAILED if the caller may not describe the cluster."""

    async def leave_plan(self, broker_id: int) -> LeavePlan:
        """The plan of a decommissioning by the current metadata. Raises ApiError as `cluster_facts` does."""

    async def cluster_health(self) -> ClusterHealth:
        """The health verdict, from the reports of the active controller and the other live nodes. If one does not
        answer, it takes a few seconds at most."""

    async def waiting_elections(self, topic: str | None) -> WaitingElections:
        """The partitions of one topic or of all that have no leader, as the active controller knows them. Raises
        ApiError if it does not answer."""

    async def unclean_elections(self, topic: str | None) -> Sequence[UncleanElectionFacts]:
        """The recorded unclean elections of one topic or of all, in order of topic, partition and leader epoch."""

    async def events(self, after_id: int, wait_seconds: float) -> EventPage:
        """The events after `after_id` (-1: all that this node keeps), oldest first. Waits up to `wait_seconds` if there
        is none."""

    async def newest_events(self, count: int) -> EventPage:
        """The last `count` events that this node keeps, oldest first."""

    async def listed_topics(self) -> Sequence[ListedTopic]:
        """The topics of this node's metadata that the caller may describe, sorted by name."""

    async def topic_facts(self, topics: Sequence[str]) -> TopicFactsPage:
        """The facts about those of `topics` that exist."""

    async def topic_groups(self, topic: str) -> TopicGroups:
        """The groups of one topic that the caller may describe."""

    async def log_dir_sizes(self, broker_id: int) -> Mapping[str, int] | None:
        """The total size in bytes of the replicas in each log directory of a broker, by path; None if the broker does
        not answer. Raises ApiError as `cluster_facts` does."""

    async def history(self, kind: str, name: str) -> HistoryPage:
        """The last hour of the "topic", "group" or "broker" of that name, or of the "cluster"."""

    async def liveness(self) -> Sequence[Check]:
        """Whether the process works: its event loop answers and its fault handler has not fired."""

    async def readiness(self) -> Sequence[Check]:
        """Whether this node serves: it is registered, unfenced and caught up.

        The rest of the cluster does not matter: otherwise a rolling restart would block itself.
        """

    async def replicas_in_sync(self) -> Check:
        """Whether this node is in the in-sync set of each of its partitions. Partitions without a leader, and replicas
        that wait for an operator, do not count: otherwise no later node could start."""

    async def metrics(self, by: str | None) -> Sequence[str]:
        """The Prometheus text of this node, in parts of about 64 KB. Gauges of partitions and lags are `by` "topic" or
        "partition"; None means "partition" unless there are many. Rendering yields to clients' requests. Raises
        ApiError CLUSTER_AUTHORIZATION_FAILED as `cluster_facts` does if kraft.admin.metrics.authorize is set."""
