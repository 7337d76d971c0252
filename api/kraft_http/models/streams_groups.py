"""Streams groups (KIP-1071): topology, members and tasks."""

from __future__ import annotations

from pydantic import BaseModel, Field

from kraft_http.models.common import Collection, Relationship, Resource, UnansweredBrokers


class InternalTopicData(BaseModel):
    topic_name: str
    partitions_count: int = Field(description="0 while the topics that the subtopology reads are not known.")
    replication_factor: int = Field(description="0 for the cluster's default.")
    configs: dict[str, str]


class SubtopologyData(BaseModel):
    subtopology_id: str
    source_topics: list[str]
    repartition_source_topics: list[InternalTopicData]
    repartition_sink_topics: list[str]
    changelog_topics: list[InternalTopicData]


class StreamsGroupData(Resource):
    streams_group_id: str
    state: str = Field(examples=["STABLE", "NOT_READY", "RECONCILING", "EMPTY"])
    assignor: str
    group_epoch: int = Field(description="Grows with each change of members, topology, topics or settings.")
    assignment_epoch: int = Field(description="Group epoch of the target assignment.")
    topology_epoch: int | None
    member_count: int
    subtopologies: list[SubtopologyData]
    coordinator: Relationship
    members: Relationship
    consumer_group: Relationship = Field(description="The same group with committed offsets and lag.")


class StreamsGroupDataList(Collection):
    data: list[StreamsGroupData]
    unanswered_brokers: UnansweredBrokers


class StreamsTasksData(BaseModel):
    """Tasks as SUBTOPOLOGY_PARTITION."""

    active: list[str] = Field(examples=[["0_0", "1_0"]])
    standby: list[str]
    warmup: list[str]


class StreamsGroupMemberData(Resource):
    streams_group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    rack_id: str | None
    process_id: str
    endpoint: str | None = Field(description="HOST:PORT of interactive queries (application.server).")
    client_tags: dict[str, str]
    member_epoch: int = Field(description="Below assignment_epoch, the member is still reconciling.")
    topology_epoch: int
    tasks: StreamsTasksData
    target_tasks: StreamsTasksData


class StreamsGroupMemberDataList(Collection):
    data: list[StreamsGroupMemberData]
