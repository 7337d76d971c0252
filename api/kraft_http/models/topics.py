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
    topic_id: str = Field(description="UUID of the topic. A recreated topic has another one.")
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
        default=None, ge=1, le=INT32_MAX, description="Default: the broker's num.partitions."
    )
    replication_factor: int | None = Field(
        default=None, ge=1, le=32767, description="Default: the broker's default.replication.factor."
    )
    replicas_assignments: dict[PartitionKey, list[BrokerId]] | None = Field(
        default=None, description="Broker ids of each partition, the preferred leader first."
    )
    configs: list[TopicConfigEntry] = Field(default_factory=list)
    validate_only: bool = Field(default=False, description="Validate the topic without creating it.")


class UpdateTopicBody(Body):
    partitions_count: int = Field(ge=1, le=INT32_MAX, description="New number of partitions. It can only grow.")


class PartitionData(Resource):
    topic_name: str
    partition_id: int
    leader: Relationship | None
    replicas: Relationship
    reassignment: Relationship
    leader_epoch: int
    in_sync_replicas: list[int]
    replica_ids: list[int] = Field(description="Ids of all replicas, the preferred leader first.")
    is_under_replicated: bool


class PartitionDataList(Collection):
    data: list[PartitionData]


class PartitionOffsetsData(Resource):
    topic_name: str
    partition_id: int
    earliest_offset: Int64
    latest_offset: Int64
    offset: Int64 | None = Field(
        default=None, description="Offset at `timestamp`, if requested; -1 if every record is older."
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
    low_watermark: Int64 = Field(description="First offset of the partition after the deletion.")
