"""Consumer groups, their members, commits and lag."""

from __future__ import annotations

from pydantic import Field

from kraft_http.models.common import Collection, Relationship, Resource


class ConsumerGroupData(Resource):
    consumer_group_id: str
    is_simple: bool = Field(description="Whether somebody only commits offsets under this name, without members.")
    partition_assignor: str
    state: str = Field(examples=["STABLE", "EMPTY", "PREPARING_REBALANCE"])
    type: str = Field(examples=["CLASSIC", "CONSUMER"])
    is_mixed_consumer_group: bool
    coordinator: Relationship
    consumers: Relationship
    lag_summary: Relationship


class ConsumerGroupDataList(Collection):
    data: list[ConsumerGroupData]


class ConsumerData(Resource):
    consumer_group_id: str
    consumer_id: str
    instance_id: str | None
    client_id: str
    host: str
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
    offset: int
    leader_epoch: int
    committed_metadata: str


class GroupOffsetDataList(Collection):
    data: list[GroupOffsetData]


class ConsumerLagData(Resource):
    consumer_group_id: str
    topic_name: str
    partition_id: int
    current_offset: int
    log_end_offset: int
    lag: int
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
    max_lag: int
    total_lag: int
    max_lag_consumer: Relationship
    max_lag_partition: Relationship
