"""Topics, partitions, replicas, reassignments."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from kraft_http.models.common import (
    INT32_MAX,
    AuthorizedOperations,
    Body,
    BrokerId,
    Collection,
    Relationship,
    Resource,
    TopicName,
)
from kraft_http.requests.int64 import Int64


class TopicData(Resource):
    topic_name: str
    topic_id: str = Field(description="The topic's UUID: a topic that is deleted and created again has another.")
    is_internal: bool
    replication_factor: int
    partitions_count: int
    partitions: Relationship
    configs: Relationship
    partition_reassignments: Relationship
    authorized_operations: AuthorizedOperations = Field(default_factory=list)


class TopicDataList(Collection):
    data: list[TopicData]


class TopicConfigEntry(Body):
    name: str = Field(examples=["cleanup.policy"])
    value: str | None = Field(default=None, examples=["compact"])


PartitionKey = Annotated[str, Field(pattern=r"^[0-9]{1,9}$")]


class CreateTopicBody(Body):
    topic_name: TopicName
    partitions_count: int | None = Field(
        default=None, ge=1, le=INT32_MAX, description="Left out: the broker's num.partitions."
    )
    replication_factor: int | None = Field(
        default=None, ge=1, le=32767, description="Left out: the broker's default.replication.factor."
    )
    replicas_assignments: dict[PartitionKey, list[BrokerId]] | None = Field(
        default=None, description="Brokers of each partition, the preferred leader first."
    )
    configs: list[TopicConfigEntry] = Field(default_factory=list)
    validate_only: bool = Field(default=False, description="Check everything, create nothing.")


class UpdateTopicBody(Body):
    partitions_count: int = Field(ge=1, le=INT32_MAX, description="The new number of partitions; it can only grow.")


class PartitionData(Resource):
    topic_name: str
    partition_id: int
    leader: Relationship | None
    replicas: Relationship
    reassignment: Relationship
    leader_epoch: int
    in_sync_replicas: list[int]
    replica_ids: list[int] = Field(description="All replicas, the preferred leader first.")
    is_under_replicated: bool


class PartitionDataList(Collection):
    data: list[PartitionData]


class PartitionOffsetsData(Resource):
    topic_name: str
    partition_id: int
    earliest_offset: Int64
    latest_offset: Int64
    offset: Int64 | None = Field(
        default=None, description="The offset at `timestamp`, when that was asked for; -1 when no record is that young."
    )


class ReplicaData(Resource):
    topic_name: str
    partition_id: int
    broker_id: int
    is_leader: bool
    is_in_sync: bool
    broker: Relationship


class ReplicaDataList(Collection):
    data: list[ReplicaData]


class DeleteRecordsData(BaseModel):
    topic_name: str
    partition_id: int
    low_watermark: Int64 = Field(description="The partition's first offset now.")
