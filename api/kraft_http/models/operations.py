"""Operators' tasks: maintenance and decommissioning of brokers, moves of partitions, elections, voters, events."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from kraft_http.models.common import (
    HOST,
    INT64_MAX,
    Body,
    BrokerId,
    Collection,
    PartitionId,
    Relationship,
    Resource,
    TopicName,
    UnansweredBrokers,
)
from kraft_http.requests.int64 import Int64

BrokerState = Literal["running", "fenced", "shutting_down"]
DesiredState = Literal["active", "maintenance", "fenced", "decommission"]
BytesPerSecond = Annotated[int, Field(ge=1, le=INT64_MAX)]
LISTED_MAX = 100
REPORTS_MAX = 1_000
PLACES_MAX = 10_000


class DrainData(BaseModel):
    """The progress of a decommissioning. It is computed from the cluster's metadata, so every node returns the same,
    also after a fail-over."""

    phase: Literal["draining", "blocked", "stop_it", "unregistering"] = Field(
        description="stop_it: the broker has no replicas and can be stopped."
    )
    replicas_left: int
    leaders_left: int
    moving: int = Field(description="Number of these replicas that are being moved to other brokers.")
    blocked_count: int
    blocked: list[str] = Field(
        description=f"Partitions for whose replica no other broker is free; at most {LISTED_MAX} of them."
    )


class DecommissionBody(Body):
    bytes_per_second: BytesPerSecond | None = Field(
        default=None, description="Throttle: what each broker may send, and what it may receive. Default: no change."
    )


class ThrottleBody(Body):
    bytes_per_second: BytesPerSecond = Field(description="What each broker may send, and what it may receive.")


class PlannedArrivals(BaseModel):
    broker_id: int
    replicas_count: int
    size_bytes: Int64


class DecommissionPlan(BaseModel):
    """The moves that a decommissioning would make now."""

    broker_id: int
    replicas_count: int = Field(description="Number of replicas to create on other brokers.")
    size_bytes: Int64 = Field(description="Bytes to copy: the size of the leaders' logs.")
    unsized_count: int = Field(description="Number of replicas of unknown size, which `size_bytes` lacks.")
    arrivals: list[PlannedArrivals] = Field(description="Brokers that would get replicas.")
    blocked_count: int
    blocked: list[str] = Field(
        description=f"Partitions for whose replica no other broker is free; at most {LISTED_MAX} of them."
    )
    estimated_seconds: float | None = Field(
        description=(
            "Estimate for the busiest broker at `bytes_per_second`; null without that, or if a size is unknown."
        )
    )
    unanswered_brokers: UnansweredBrokers


class BrokerStateData(BaseModel):
    broker_id: int
    state: BrokerState
    desired_state: DesiredState
    epoch: Int64 = Field(description="Broker epoch. It grows with every start of the broker.")
    host: str
    port: int
    rack: str | None
    leaders_count: int
    replicas_count: int
    decommission: DrainData | None = None


class BrokerStateList(BaseModel):
    data: list[BrokerStateData]


class BrokerRemovalData(Resource):
    """A broker that is being removed: its replicas are moved to other brokers; it is unregistered after it has
    stopped."""

    broker_id: int
    broker: Relationship
    broker_task: Relationship


class LogDirReplica(BaseModel):
    topic_name: str
    partition_id: int
    size_bytes: Int64
    offset_lag: Int64
    is_future: bool


class LogDirData(BaseModel):
    path: str
    error: str | None = Field(description="Why the directory cannot be used.")
    is_cordoned: bool = Field(description="Whether the directory takes no new replicas (`cordoned.log.dirs`).")
    total_bytes: Int64 | None
    usable_bytes: Int64 | None
    size_bytes: Int64
    replicas: list[LogDirReplica]


class LogDirList(BaseModel):
    broker_id: int
    data: list[LogDirData]


class ReassignmentData(Resource):
    topic_name: str
    partition_id: int
    adding_replicas: list[int]
    removing_replicas: list[int]
    replicas: Relationship


class ReassignmentDataList(Collection):
    data: list[ReassignmentData]


class StartReassignmentBody(Body):
    replica_ids: list[BrokerId] = Field(
        min_length=1, max_length=100, description="Ids of the target brokers, the preferred leader first."
    )


class ReassignedPartition(Body):
    topic: TopicName
    partition: PartitionId
    replicas: list[BrokerId] = Field(min_length=1, max_length=100)
    log_dirs: list[str] | None = Field(default=None, description="As in Kafka's file. Only `any` is supported.")


class ReassignmentFile(Body):
    """The JSON file of kafka-reassign-partitions.sh."""

    version: Literal[1] = 1
    partitions: list[ReassignedPartition] = Field(max_length=PLACES_MAX)


class PlacedPartition(Body):
    topic: TopicName
    partition: PartitionId


class NamedTopic(Body):
    topic: TopicName


class PlanBody(Body):
    """Kafka's topics-to-move file, and the brokers of `--broker-list`."""

    version: Literal[1] = 1
    topics: list[NamedTopic] | None = Field(default=None, max_length=PLACES_MAX, description="Default: every topic.")
    brokers: list[BrokerId] | None = Field(default=None, max_length=10_000, description="Default: every active broker.")
    bytes_per_second: BytesPerSecond | None = Field(
        default=None, description="Rate for the estimate: what a broker may send, or receive. It is not applied."
    )


class PlanData(BaseModel):
    """`proposed` is a file that starts the moves, `current` one that reverts them."""

    proposed: ReassignmentFile
    current: ReassignmentFile
    impossible: list[str] = Field(description="Partitions with more replicas than available brokers.")
    replicas_count: int = Field(description="Number of replicas to create on other brokers.")
    size_bytes: Int64 = Field(description="Bytes to copy: the size of the leaders' logs.")
    unsized_count: int = Field(description="Number of replicas of unknown size, which `size_bytes` lacks.")
    arrivals: list[PlannedArrivals] = Field(description="Brokers that would get replicas.")
    estimated_seconds: float | None = Field(
        description=(
            "Estimate for the busiest broker at `bytes_per_second`; null without that, or if a size is unknown."
        )
    )
    unanswered_brokers: UnansweredBrokers


class CancelBody(Body):
    partitions: list[PlacedPartition] | None = Field(
        default=None, max_length=PLACES_MAX, description="Default: every move in progress."
    )
    keep_throttle: bool = Field(
        default=False,
        description=(
            "Keep the throttle. By default it is removed with the last move, if the caller may alter configurations."
        ),
    )


class PartitionOutcome(BaseModel):
    topic_name: str
    partition_id: int
    ok: bool
    error: str | None = Field(default=None, description="Kafka's name of the error.")
    detail: str | None = None


class Outcomes(BaseModel):
    """The outcome for each partition. The status is 200 if all succeeded, else 207."""

    ok: bool
    data: list[PartitionOutcome]


class AddingReplica(BaseModel):
    broker_id: int
    is_in_sync: bool
    log_end_offset: Int64 | None
    lag: Int64 | None = Field(
        description="Records that the replica has not copied yet; null if a broker does not respond."
    )
    size_bytes: Int64 | None = Field(description="Size of the replica's log; null if its broker does not report it.")
    bytes_left: Int64 | None = Field(description="Bytes of the leader's log that the replica lacks; null if unknown.")


class MoveData(BaseModel):
    topic_name: str
    partition_id: int
    replicas: list[int]
    adding: list[AddingReplica]
    removing: list[int]
    size_bytes: Int64 | None = Field(description="Size of the leader's log; null if unknown.")
    troubles: list[str] = Field(default=[], description="Why the move does not progress, and what to do.")


class ThrottledBroker(BaseModel):
    broker_id: int
    bytes_per_second: Int64 = Field(description="The lower of the limits for sending and receiving.")


class ThrottleData(BaseModel):
    """The configs `leader.` and `follower.replication.throttled.rate` of brokers and `.throttled.replicas` of
    topics."""

    brokers: list[ThrottledBroker]
    topics_count: int = Field(description="Number of topics with throttled replicas.")
    topics: list[str] = Field(description=f"At most {LISTED_MAX}.")


class MoveList(BaseModel):
    """The moves in progress, from the cluster's metadata and the brokers' disks. All nodes return the same, except for
    the rate."""

    phase: Literal["idle", "moving", "remove_throttle"] = Field(
        description=(
            "moving: moves are in progress, or a broker that is being decommissioned has replicas to move. "
            "remove_throttle: all moves have finished and a throttle is still set; DELETE "
            "/v1/reassignments/throttle removes it."
        )
    )
    detail: str = Field(description="The phase as a sentence.")
    count: int
    data: list[MoveData] = Field(description=f"At most {LISTED_MAX}; the sums are of all.")
    bytes_left: Int64 = Field(description="Bytes of the leaders' logs that the added replicas lack.")
    unsized_count: int = Field(description="Number of added replicas of unknown size, which `bytes_left` lacks.")
    bytes_per_second: float | None = Field(
        description=(
            "Total growth of the added replicas, measured by this node over the last 30 seconds; null at the "
            "first request, or without moves."
        )
    )
    remaining_seconds: float | None = Field(
        description=(
            "Estimate at that rate; while the rate is unknown, at the throttle of the busiest broker. null "
            "without a rate and a throttle, or if a size is unknown. Moves of a decommissioning that have not "
            "started are not counted: its plan has them."
        )
    )
    throttle: ThrottleData | None = Field(
        description="null without a throttle, or if the caller may not describe configurations."
    )
    unanswered_brokers: UnansweredBrokers


class ElectionBody(Body):
    """Kafka's election file, and the election type."""

    type: Literal["preferred", "unclean"] = "preferred"
    partitions: list[PlacedPartition] | None = Field(
        default=None, max_length=PLACES_MAX, description="Default: every partition that needs one."
    )


class ReplicaStatusData(Resource):
    topic_name: str
    partition_id: int
    broker_id: int
    is_leader: bool
    is_in_isr: bool
    is_caught_up: bool
    log_start_offset: Int64 | None
    log_end_offset: Int64 | None = Field(description="null if the broker does not respond.")
    lag: Int64 | None = Field(description="Records that the replica is behind the leader.")


class ReplicaStatusDataList(Collection):
    data: list[ReplicaStatusData]
    unanswered_brokers: UnansweredBrokers


class VoterEndpoint(Body):
    name: Annotated[str, Field(min_length=1, max_length=249)] = "CONTROLLER"
    host: Annotated[
        str,
        Field(
            pattern=HOST,
            min_length=1,
            max_length=253,
            description="Host name or address. The controller connects to it before it adds the voter.",
        ),
    ]
    port: Annotated[int, Field(ge=1, le=65535)]


class AddVoterBody(Body):
    node_id: BrokerId
    directory_id: Annotated[
        str, Field(pattern=r"^[A-Za-z0-9_-]{22}$", description="Shown by `kraft storage info` and /v3/.../quorum.")
    ]
    endpoints: list[VoterEndpoint] = Field(min_length=1, max_length=16)


class KnownEnd(BaseModel):
    """The end of a replica's log, as the replica reported it before the election."""

    replica: int
    last_epoch: int = Field(description="Leader epoch of the last record.")
    end_offset: Int64 = Field(description="Offset after the last record.")


class ReplicaLoss(BaseModel):
    """The records that one replica lost because another replica was elected uncleanly."""

    replica: int
    state: Literal["awaited", "lost", "nothing", "gone"] = Field(
        description=(
            "awaited: the replica may have more records, and has not returned. lost: it has deleted the records "
            "given here. nothing: it is in sync again and has reported no loss. gone: it was moved away or "
            "unregistered; its records were never seen."
        )
    )
    start_offset: Int64 | None = Field(default=None, description="First deleted offset.")
    end_offset: Int64 | None = Field(default=None, description="Offset after the last deleted one.")
    high_watermark: Int64 | None = Field(
        default=None, description="Offset below which the replica knew its records to be committed."
    )
    leader_epoch: int | None = Field(
        default=None, description="Leader epoch in which the replica became a follower again."
    )
    time: str | None = Field(default=None, description="RFC 3339, UTC, by the clock of that broker.")


class UncleanElectionData(BaseModel):
    topic_name: str
    partition_id: int
    time: str = Field(description="RFC 3339, UTC, by the clock of the controller.")
    leader: int
    leader_epoch: int
    former_leader: int = Field(description="-1 if there was no leader.")
    former_epoch: int
    former_isr: list[int]
    former_elr: list[int]
    last_known: list[int]
    replicas: list[int]
    strategy: str | None = Field(default=None, description="null for elections without a strategy, as in Apache Kafka.")
    end_offset: Int64 | None = Field(
        default=None, description="Log end of the elected replica, if the controller knew it."
    )
    last_epoch: int | None = None
    ends: list[KnownEnd] = Field(default=[], description="What replicas that were asked told before.")
    silent: list[int] = Field(default=[], description="Replicas that told nothing.")
    losses: list[ReplicaLoss]
    complete: bool = Field(description="Whether the report is final: no replica is awaited.")


class UncleanElectionList(BaseModel):
    count: int
    data: list[UncleanElectionData] = Field(description=f"At most {REPORTS_MAX}.")


class HistoryData(BaseModel):
    times_ms: list[Int64] = Field(description="Times of the samples, in milliseconds since 1970.")
    series: dict[str, list[float]] = Field(
        description="Series with one value for each of `times_ms`.", examples=[{"bytes_in": [120.5]}]
    )
    units: dict[str, str]
    unanswered_brokers: UnansweredBrokers


class TierData(BaseModel):
    partition_id: int
    local_bytes: Int64 = Field(description="Bytes on the leader's disk.")
    remote_bytes: Int64 = Field(description="Bytes in the object store.")
    copy_lag_bytes: Int64 = Field(description="Bytes of closed segments that are not in the object store yet.")
    copy_lag_segments: int
    last_error: str | None = Field(description="Error of the last round of copying; null if it succeeded.")


class TopicFactsData(BaseModel):
    topic_name: str
    records: Int64 = Field(description="Number of offsets, including transaction markers and compacted records.")
    leader_bytes: Int64 = Field(description="Bytes of one copy.")
    replica_bytes: Int64 = Field(description="Bytes of all copies.")
    records_in: float = Field(description="Records a second over the last ten seconds; 0 if no node reports it.")
    bytes_in: float
    bytes_out: float
    groups_count: int = Field(description="Groups with commits for the topic within the last half minute.")
    lag: Int64 = Field(description="Total lag of these groups, in records; 0 if no node reports it.")
    tiers: list[TierData] = Field(description="Tiered partitions with a leader.")


class TopicFactsList(BaseModel):
    data: list[TopicFactsData]
    unanswered_brokers: UnansweredBrokers


class EventData(BaseModel):
    id: Int64
    time: str = Field(description="RFC 3339, UTC.")
    kind: str = Field(examples=["leader.changed"])
    fields: dict[str, Any]


class EventList(BaseModel):
    data: list[EventData]
    missed: bool = Field(description="Whether events after `after` are missing because the node no longer has them.")
    last_id: Int64 = Field(description="Use it as `after` for the next request.")
