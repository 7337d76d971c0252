"""Clusters, brokers and the metadata quorum."""

from __future__ import annotations

from pydantic import BaseModel, Field

from kraft_http.models.common import AuthorizedOperations, Collection, Relationship, Resource
from kraft_http.requests.int64 import Int64


class ClusterData(Resource):
    controller: Relationship | None = Field(
        description="The broker that is the active controller; null without one, or if the controller is no broker."
    )
    acls: Relationship
    brokers: Relationship
    broker_configs: Relationship
    consumer_groups: Relationship
    share_groups: Relationship
    topics: Relationship
    partition_reassignments: Relationship
    authorized_operations: AuthorizedOperations = Field(default_factory=list)


class ClusterDataList(Collection):
    data: list[ClusterData]


class BrokerData(Resource):
    broker_id: int
    host: str | None
    port: int | None
    rack: str | None
    is_fenced: bool = Field(
        description="Whether the controller has fenced the broker: it sends no heartbeats, or is not caught up."
    )
    configs: Relationship
    partition_replicas: Relationship


class BrokerDataList(Collection):
    data: list[BrokerData]


class QuorumEndpoint(BaseModel):
    name: str
    host: str
    port: int


class QuorumReplica(BaseModel):
    node_id: int
    directory_id: str | None = Field(description="Metadata directory of the voter; null in a quorum of static voters.")
    is_leader: bool
    log_end_offset: Int64
    lag: Int64
    last_fetch_timestamp: Int64 = Field(description="Milliseconds since 1970; -1 if unknown.")
    last_caught_up_timestamp: Int64
    endpoints: list[QuorumEndpoint]


class QuorumData(Resource):
    leader_id: int = Field(description="The active controller; -1 without one.")
    leader_epoch: int
    high_watermark: Int64
    voters: list[QuorumReplica]
    observers: list[QuorumReplica]
