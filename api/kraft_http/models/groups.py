"""Consumer groups, their members, commits and lag."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, model_validator

from kraft_http.health.health_findings import LateMember
from kraft_http.models.common import (
    INT64_MAX,
    AuthorizedOperations,
    Body,
    Collection,
    CollectionMetadata,
    PartitionId,
    Relationship,
    Resource,
    TopicName,
    UnansweredBrokers,
)
from kraft_http.requests.int64 import Int64

PARTITIONS_SHOWN_MAX = 1_000


class AssignedPartition(BaseModel):
    topic_name: str
    partition_id: int


class ConsumerGroupData(Resource):
    consumer_group_id: str
    is_simple: bool = Field(description="Whether the group only has committed offsets, and no members.")
    partition_assignor: str
    state: str = Field(examples=["STABLE", "EMPTY", "PREPARING_REBALANCE"])
    type: str = Field(examples=["CLASSIC", "CONSUMER", "STREAMS"])
    is_mixed_consumer_group: bool = Field(description="Whether the group has members of both protocols.")
    group_epoch: int | None = Field(description="null for a classic group.")
    assignment_epoch: int | None = Field(description="Group epoch of the target assignment.")
    coordinator: Relationship
    consumers: Relationship
    lag_summary: Relationship
    authorized_operations: AuthorizedOperations = Field(default_factory=list)


class ConsumerGroupDataList(Collection):
    data: list[ConsumerGroupData]
    unanswered_brokers: UnansweredBrokers


class ConsumerData(Resource):
    consumer_group_id: str
    consumer_id: str
    instance_id: str | None
    client_id: str
    host: str
    protocol: str = Field(examples=["CLASSIC", "CONSUMER", "STREAMS"])
    member_epoch: int | None = Field(
        description="null in a classic group. Below group_epoch, the member is still reconciling."
    )
    subscribed_topics: list[str] = Field(description="Empty for members of a classic group.")
    subscribed_pattern: str | None
    partitions_count: int
    partitions: list[AssignedPartition] = Field(description=f"At most {PARTITIONS_SHOWN_MAX} of them.")
    gives_up: list[AssignedPartition] = Field(
        description="Partitions that the member has to revoke, with the same limit."
    )
    waits_for: list[AssignedPartition] = Field(
        description="Partitions that the member gets once other members have revoked them, with the same limit."
    )
    assignments: Relationship


class ConsumerDataList(Collection):
    data: list[ConsumerData]


class ConsumerAssignmentData(Resource):
    consumer_group_id: str
    consumer_id: str
    topic_name: str
    partition_id: int
    partition: Relationship
    lag: Relationship


class ConsumerAssignmentDataList(Collection):
    data: list[ConsumerAssignmentData]


class GroupOffsetData(Resource):
    consumer_group_id: str
    topic_name: str
    partition_id: int
    offset: Int64
    leader_epoch: int
    committed_metadata: str


class GroupOffsetDataList(Collection):
    data: list[GroupOffsetData]


class ConsumerLagData(Resource):
    consumer_group_id: str
    topic_name: str
    partition_id: int
    current_offset: Int64
    log_end_offset: Int64
    lag: Int64
    consumer_id: str
    instance_id: str | None
    client_id: str


class ConsumerLagDataList(Collection):
    data: list[ConsumerLagData]


class ConsumerGroupLagSummaryData(Resource):
    consumer_group_id: str
    max_lag_consumer_id: str
    max_lag_instance_id: str | None
    max_lag_client_id: str
    max_lag_topic_name: str
    max_lag_partition_id: int
    max_lag: Int64
    total_lag: Int64
    max_lag_consumer: Relationship
    max_lag_partition: Relationship


class GroupLagData(BaseModel):
    """A group as one row of a list."""

    consumer_group_id: str
    state: str
    type: str
    members_count: int
    coordinator_id: int
    topics: list[str] = Field(description="Topics with commits of the group, at most 100.")
    topics_count: int
    total_lag: Int64 | None = Field(description="null if no lag is known.")
    max_lag: Int64 | None
    max_lag_topic_name: str | None
    max_lag_partition_id: int | None


class GroupPartitionData(BaseModel):
    """A partition for which a group has a committed offset, or that is assigned to one of its members."""

    topic_name: str
    partition_id: int
    current_offset: Int64 | None = Field(description="null without a commit.")
    log_end_offset: Int64 | None = Field(description="null if the leader does not respond.")
    lag: Int64 | None
    last_commit_ms: Int64 | None = Field(
        description="Time of the last commit; null if the coordinator does not report it."
    )
    pace: Literal["keeps_up", "slow", "commits_nothing", "stands_still"] | None = Field(
        description="State of the member; null without a member, or if the coordinator does not report it."
    )
    consumer_id: str | None = Field(description="null if the partition is not assigned.")
    instance_id: str | None
    client_id: str | None
    host: str | None


class GroupProgressData(BaseModel):
    consumer_group_id: str
    partitions: list[GroupPartitionData]
    late_members: list[LateMember] = Field(description="Members that are stuck or slow.")
    stuck_ms: Int64 | None = Field(
        description=(
            "kraft.group.stuck.ms of the coordinator; null if the coordinator does not report the state of members."
        )
    )


class GroupLagList(BaseModel):
    kind: str
    metadata: CollectionMetadata
    data: list[GroupLagData]
    total_lag: Int64 | None = Field(description="Sum over all pages; null unless the list is sorted by state or lag.")
    unanswered_brokers: UnansweredBrokers


class TopicGroupData(BaseModel):
    consumer_group_id: str
    state: str
    type: str
    members_count: int
    coordinator_id: int
    assigned_partitions_count: int = Field(description="Partitions of this topic that members have.")
    committed_partitions_count: int
    lag: Int64 | None = Field(description="Lag in this topic; null if unknown.")


class TopicGroupList(BaseModel):
    topic_name: str
    data: list[TopicGroupData]
    groups_count: int = Field(description="Number of groups with commits for the topic, or which may be consuming it.")
    looked_at_count: int = Field(description="Number of these groups that were examined: the first 2,000 by id.")
    unanswered_brokers: UnansweredBrokers


class ResetTopic(Body):
    topic_name: TopicName
    partitions: list[PartitionId] | None = Field(
        default=None, max_length=10_000, description="Default: all partitions."
    )


class ResetOffsetsBody(Body):
    """The new position of a group without members. `offset`, `timestamp` (ms) and `shift` need a `value`."""

    to: Literal["earliest", "latest", "offset", "timestamp", "shift"]
    value: Annotated[int, Field(ge=-INT64_MAX, le=INT64_MAX)] | None = None
    topics: list[ResetTopic] | None = Field(
        default=None, min_length=1, max_length=1_000, description="Default: every partition with a commit of the group."
    )
    validate_only: bool = Field(default=True, description="Return the changes without applying them.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        needs_value = self.to in ("offset", "timestamp", "shift")
        if needs_value != (self.value is not None):
            raise ValueError(f"{self.to} {'needs a' if needs_value else 'takes no'} value")
        if self.to in ("offset", "timestamp") and self.value is not None and self.value < 0:
            raise ValueError(f"{self.to} cannot be negative")
        return self


class OffsetResetData(BaseModel):
    topic_name: str
    partition_id: int
    current_offset: Int64 | None = Field(description="null without a commit.")
    new_offset: Int64
    log_start_offset: Int64
    log_end_offset: Int64


class OffsetResetList(BaseModel):
    consumer_group_id: str
    validate_only: bool
    data: list[OffsetResetData]
