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
        description="stop_it: it is empty and waits to be stopped."
    )
    replicas_left: int
    leaders_left: int
    moving: int = Field(description="Of the replicas left, those that are being copied to other brokers now.")
    blocked_count: int
    blocked: list[str] = Field(
        description=f"Partitions for whose replica no other broker is free; at most {LISTED_MAX} of them."
    )


class DecommissionBody(Body):
    bytes_per_second: BytesPerSecond | None = Field(
        default=None, description="A throttle: what each broker may send, and take. Left out: none is set or changed."
    )


class ThrottleBody(Body):
    bytes_per_second: BytesPerSecond = Field(description="What each broker may send, and take.")


class PlannedArrivals(BaseModel):
    broker_id: int
    replicas_count: int
    size_bytes: Int64


class DecommissionPlan(BaseModel):
    """The moves that a decommissioning would make now."""

    broker_id: int
    replicas_count: int = Field(description="That would be made on other brokers.")
    size_bytes: Int64 = Field(
        description="That would be copied: what the leaders of these partitions have on their disks."
    )
    unsized_count: int = Field(description="Of these replicas, those whose size is not known; `size_bytes` lacks them.")
    arrivals: list[PlannedArrivals] = Field(description="Brokers that would get some.")
    blocked_count: int
    blocked: list[str] = Field(
        description=f"Partitions for whose replica no other broker is free; at most {LISTED_MAX} of them."
    )
    estimated_seconds: float | None = Field(
        description="For the broker that sends or gets most, at `bytes_per_second`; null where that is not given, or a "
        "size is not known."
    )
    unanswered_brokers: UnansweredBrokers


class BrokerStateData(BaseModel):
    broker_id: int
    state: BrokerState
    desired_state: DesiredState
    epoch: Int64 = Field(description="Of its registration: it rises with every start.")
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
    error: str | None = Field(description="Why it cannot be used.")
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
        min_length=1, max_length=100, description="The brokers wanted, the preferred leader first."
    )


class ReassignedPartition(Body):
    topic: TopicName
    partition: PartitionId
    replicas: list[BrokerId] = Field(min_length=1, max_length=100)
    log_dirs: list[str] | None = Field(default=None, description="As in Kafka's file; only `any` can be had here.")


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
    topics: list[NamedTopic] | None = Field(default=None, max_length=PLACES_MAX, description="Left out: every topic.")
    brokers: list[BrokerId] | None = Field(
        default=None, max_length=10_000, description="Left out: every broker that runs and is wanted active."
    )
    bytes_per_second: BytesPerSecond | None = Field(
        default=None, description="For the estimate: what a broker may send, or take. It is not set."
    )


class PlanData(BaseModel):
    """`proposed` is a file that starts the moves, `current` one that reverts them."""

    proposed: ReassignmentFile
    current: ReassignmentFile
    impossible: list[str] = Field(description="Partitions with more replicas than there are brokers to choose from.")
    replicas_count: int = Field(description="That would be made on other brokers.")
    size_bytes: Int64 = Field(
        description="That would be copied: what the leaders of these partitions have on their disks."
    )
    unsized_count: int = Field(description="Of these replicas, those whose size is not known; `size_bytes` lacks them.")
    arrivals: list[PlannedArrivals] = Field(description="Brokers that would get some.")
    estimated_seconds: float | None = Field(
        description="For the broker that sends or gets most, at `bytes_per_second`; null where that is not given, or a "
        "size is not known."
    )
    unanswered_brokers: UnansweredBrokers


class CancelBody(Body):
    partitions: list[PlacedPartition] | None = Field(
        default=None, max_length=PLACES_MAX, description="Left out: every move under way."
    )
    keep_throttle: bool = Field(
        default=False, description="Else the throttle goes with the last move, if the caller may alter configurations."
    )


class PartitionOutcome(BaseModel):
    topic_name: str
    partition_id: int
    ok: bool
    error: str | None = Field(default=None, description="Kafka's name of what went wrong.")
    detail: str | None = None


class Outcomes(BaseModel):
    """The outcome for each partition. The status is 200 if all succeeded, else 207."""

    ok: bool
    data: list[PartitionOutcome]


class AddingReplica(BaseModel):
    broker_id: int
    is_in_sync: bool
    log_end_offset: Int64 | None
    lag: Int64 | None = Field(description="Records it has yet to copy; null where a broker cannot be asked.")
    size_bytes: Int64 | None = Field(description="What it has on its disk; null where its broker does not tell.")
    bytes_left: Int64 | None = Field(description="What it lacks of the leader's log; null where that is not known.")


class MoveData(BaseModel):
    topic_name: str
    partition_id: int
    replicas: list[int]
    adding: list[AddingReplica]
    removing: list[int]
    size_bytes: Int64 | None = Field(description="What the leader has on its disk; null where that is not known.")
    troubles: list[str] = Field(default=[], description="Why it does not get on, and what to do.")


class ThrottledBroker(BaseModel):
    broker_id: int
    bytes_per_second: Int64 = Field(description="The lower of what it may send and take.")


class ThrottleData(BaseModel):
    """The configs `leader.` and `follower.replication.throttled.rate` of brokers and `.throttled.replicas` of
    topics."""

    brokers: list[ThrottledBroker]
    topics_count: int = Field(description="Topics with replicas that are held to it.")
    topics: list[str] = Field(description=f"At most {LISTED_MAX}.")


class MoveList(BaseModel):
    """The moves in progress, from the cluster's metadata and the brokers' disks. All nodes return the same, except for
    the rate."""

    phase: Literal["idle", "moving", "remove_throttle"] = Field(
        description="moving: also while a broker is being decommissioned that holds what can move. remove_throttle: "
        "finished, and a throttle is still set, which DELETE /v1/reassignments/throttle removes."
    )
    detail: str = Field(description="The same in a sentence.")
    count: int
    data: list[MoveData] = Field(description=f"At most {LISTED_MAX}; the sums are of all.")
    bytes_left: Int64 = Field(description="What replicas being added lack of the leaders' logs.")
    unsized_count: int = Field(description="Replicas being added that `bytes_left` lacks: their size is not known.")
    bytes_per_second: float | None = Field(
        description="How fast they grow, all together, by what this node was told in the last 30 seconds; null when it "
        "is asked for the first time, or nothing is left to compare."
    )
    remaining_seconds: float | None = Field(
        description="At that rate; while that is not known, at the throttle for the broker that has most to send or "
        "to take; null where neither tells, or a size is not known. Moves of a decommissioning that have yet to begin "
        "are not counted: its plan has them."
    )
    throttle: ThrottleData | None = Field(
        description="null where none is set, or the caller may not see configurations."
    )
    unanswered_brokers: UnansweredBrokers


class ElectionBody(Body):
    """Kafka's election file, and the election type."""

    type: Literal["preferred", "unclean"] = "preferred"
    partitions: list[PlacedPartition] | None = Field(
        default=None, max_length=PLACES_MAX, description="Left out: wherever one is needed."
    )


class ReplicaStatusData(Resource):
    topic_name: str
    partition_id: int
    broker_id: int
    is_leader: bool
    is_in_isr: bool
    is_caught_up: bool
    log_start_offset: Int64 | None
    log_end_offset: Int64 | None = Field(description="null when the broker cannot be asked.")
    lag: Int64 | None = Field(description="Records behind the leader.")


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
            description="A host name or address. The node is connected to before it may vote.",
        ),
    ]
    port: Annotated[int, Field(ge=1, le=65535)]


class AddVoterBody(Body):
    node_id: BrokerId
    directory_id: Annotated[
        str, Field(pattern=r"^[A-Za-z0-9_-]{22}$", description="`kraft storage info` and /v3/.../quorum show it.")
    ]
    endpoints: list[VoterEndpoint] = Field(min_length=1, max_length=16)


class KnownEnd(BaseModel):
    """The end of a replica's log, as the replica reported it before the election."""

    replica: int
    last_epoch: int = Field(description="The leader epoch of its last record.")
    end_offset: Int64 = Field(description="One beyond its last record.")


class ReplicaLoss(BaseModel):
    """The loss of one replica by an unclean election of another one."""

    replica: int
    state: Literal["awaited", "lost", "nothing", "gone"] = Field(
        description="awaited: it may have more, and has not come back. lost: it gave up the records told here. "
        "nothing: "
        "it is in sync again and told of "
        "nothing that it gave up. gone: it was moved away or unregistered, what it had was never seen."
    )
    start_offset: Int64 | None = Field(default=None, description="The first record that it gave up.")
    end_offset: Int64 | None = Field(default=None, description="One beyond the last.")
    high_watermark: Int64 | None = Field(default=None, description="Below here it knew its records to be committed.")
    leader_epoch: int | None = Field(default=None, description="The epoch in which it followed again.")
    time: str | None = Field(default=None, description="RFC 3339, UTC, by that broker's clock.")


class UncleanElectionData(BaseModel):
    topic_name: str
    partition_id: int
    time: str = Field(description="RFC 3339, UTC, by the controller's clock.")
    leader: int
    leader_epoch: int
    former_leader: int = Field(description="-1 when nobody led any more.")
    former_epoch: int
    former_isr: list[int]
    former_elr: list[int]
    last_known: list[int]
    replicas: list[int]
    strategy: str | None = Field(
        default=None, description="null for the elections that Apache Kafka has as well: those ask nobody."
    )
    end_offset: Int64 | None = Field(
        default=None, description="Where the log of the elected replica ended, if it was asked."
    )
    last_epoch: int | None = None
    ends: list[KnownEnd] = Field(default=[], description="What replicas that were asked told before.")
    silent: list[int] = Field(default=[], description="Replicas that told nothing.")
    losses: list[ReplicaLoss]
    complete: bool = Field(description="Whether no replica is awaited any more.")


class UncleanElectionList(BaseModel):
    count: int
    data: list[UncleanElectionData] = Field(description=f"At most {REPORTS_MAX}.")


class HistoryData(BaseModel):
    times_ms: list[Int64] = Field(description="When each number was taken, in ms since 1970.")
    series: dict[str, list[float]] = Field(description="Each as long as `times_ms`.", examples=[{"bytes_in": [120.5]}])
    units: dict[str, str]
    unanswered_brokers: UnansweredBrokers


class TierData(BaseModel):
    partition_id: int
    local_bytes: Int64 = Field(description="On the leader's disk.")
    remote_bytes: Int64 = Field(description="In the object store.")
    copy_lag_bytes: Int64 = Field(description="Of closed segments that lie on the leader's disk alone.")
    copy_lag_segments: int
    last_error: str | None = Field(description="Why the last round of copying was put off; null where it was not.")


class TopicFactsData(BaseModel):
    topic_name: str
    records: Int64 = Field(description="Offsets in use: with markers of transactions, and what compaction took out.")
    leader_bytes: Int64 = Field(description="Size of one copy.")
    replica_bytes: Int64 = Field(description="Size of all copies.")
    records_in: float = Field(description="A second, over the last ten seconds; 0 where no node counts.")
    bytes_in: float
    bytes_out: float
    groups_count: int = Field(description="Groups that have committed offsets for it, as of the last half minute.")
    lag: Int64 = Field(description="Records that these are behind, together; 0 where no node counts.")
    tiers: list[TierData] = Field(description="Tiered partitions that have a leader.")


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
    missed: bool = Field(description="Whether there were events after `after` that this node does not know (any more).")
    last_id: Int64 = Field(description="Give it as `after` to read on.")
