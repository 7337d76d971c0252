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
    is_simple: bool = Field(description="Whether somebody only commits offsets under this name, without members.")
    partition_assignor: str
    state: str = Field(examples=["STABLE", "EMPTY", "PREPARING_REBALANCE"])
    type: str = Field(examples=["CLASSIC", "CONSUMER"])
    is_mixed_consumer_group: bool = Field(description="Whether members of both protocols are in it.")
    group_epoch: int | None = Field(description="null for a classic group.")
    assignment_epoch: int | None = Field(description="The group epoch that the target assignment is for.")
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
    protocol: str = Field(examples=["CLASSIC", "CONSUMER"])
    member_epoch: int | None = Field(
        description="null in a classic group. Below group_epoch the member has to catch up."
    )
    subscribed_topics: list[str] = Field(description="None are told of members of a classic group.")
    subscribed_pattern: str | None
    partitions_count: int
    partitions: list[AssignedPartition] = Field(description=f"At most {PARTITIONS_SHOWN_MAX} of them.")
    gives_up: list[AssignedPartition] = Field(description="Those that it has yet to give up, as many at most.")
    waits_for: list[AssignedPartition] = Field(description="Those that it gets once others gave them up, likewise.")
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
    topics: list[str] = Field(description="Topics that it has commits for, at most 100 of them.")
    topics_count: int
    total_lag: Int64 | None = Field(description="null where the group has no commit whose lag can be told.")
    max_lag: Int64 | None
    max_lag_topic_name: str | None
    max_lag_partition_id: int | None


class GroupPartitionData(BaseModel):
    """A partition for which a group has a committed offset, or that is assigned to one of its members."""

    topic_name: str
    partition_id: int
    current_offset: Int64 | None = Field(description="null where the group has committed none.")
    log_end_offset: Int64 | None = Field(description="null where its leader does not answer.")
    lag: Int64 | None
    last_commit_ms: Int64 | None = Field(
        description="When it was last committed; null where the coordinator does not tell."
    )
    pace: Literal["keeps_up", "slow", "commits_nothing", "stands_still"] | None = Field(
        description="How its member gets on; null for a partition without a member, and where the coordinator does "
        "not tell."
    )
    consumer_id: str | None = Field(description="null where it is assigned to nobody.")
    instance_id: str | None
    client_id: str | None
    host: str | None


class GroupProgressData(BaseModel):
    consumer_group_id: str
    partitions: list[GroupPartitionData]
    late_members: list[LateMember] = Field(description="Members that are stuck or slow.")
    stuck_ms: Int64 | None = Field(
        description="kraft.group.stuck.ms of the coordinator; null where it does not tell how members get on."
    )


class GroupLagList(BaseModel):
    kind: str
    metadata: CollectionMetadata
    data: list[GroupLagData]
    total_lag: Int64 | None = Field(
        description="Of all groups on all pages; null unless the list is sorted by what groups do."
    )
    unanswered_brokers: UnansweredBrokers


class TopicGroupData(BaseModel):
    consumer_group_id: str
    state: str
    type: str
    members_count: int
    coordinator_id: int
    assigned_partitions_count: int = Field(description="Of this topic, to its members.")
    committed_partitions_count: int
    lag: Int64 | None = Field(description="In this topic alone; null where no lag can be told.")


class TopicGroupList(BaseModel):
    topic_name: str
    data: list[TopicGroupData]
    groups_count: int = Field(description="How many groups have committed offsets for it, or may be consuming it.")
    looked_at_count: int = Field(description="How many of them, by id, were looked at: at most 2,000.")
    unanswered_brokers: UnansweredBrokers


class ResetTopic(Body):
    topic_name: TopicName
    partitions: list[PartitionId] | None = Field(default=None, max_length=10_000, description="Left out: all.")


class ResetOffsetsBody(Body):
    """The new position of a group without members. `offset`, `timestamp` (ms) and `shift` need a `value`."""

    to: Literal["earliest", "latest", "offset", "timestamp", "shift"]
    value: Annotated[int, Field(ge=-INT64_MAX, le=INT64_MAX)] | None = None
    topics: list[ResetTopic] | None = Field(
        default=None, min_length=1, max_length=1_000, description="Left out: every partition that it has a commit for."
    )
    validate_only: bool = Field(default=True, description="Only tell what would change. Nothing is written.")

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
    current_offset: Int64 | None = Field(description="null where nothing is committed.")
    new_offset: Int64
    log_start_offset: Int64
    log_end_offset: Int64


class OffsetResetList(BaseModel):
    consumer_group_id: str
    validate_only: bool
    data: list[OffsetResetData]
