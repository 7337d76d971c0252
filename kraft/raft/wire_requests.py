"""Converts the quorum's requests between Kafka's messages and the core's values: `to_core` as a server, `to_wire` as a
client.

There is one partition, `__cluster_metadata-0`. Requests about any other are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kraft.common.errors import ApiError
from kraft.common.ids import METADATA_TOPIC, METADATA_TOPIC_ID, OffsetAndEpoch
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import (
    add_raft_voter_request,
    api_versions_request,
    begin_quorum_epoch_request,
    end_quorum_epoch_request,
    fetch_request,
    fetch_snapshot_request,
    remove_raft_voter_request,
    update_raft_voter_request,
    vote_request,
)
from kraft.protocol.schema import Message
from kraft.raft.core import messages as core
from kraft.raft.core.voter_set import Endpoint, Endpoints, ReplicaKey, Voter


def only_partition(topics: list[Any], name_field: str, index_field: str) -> Any:
    """Return the one partition of a request. Raises ApiError if the request is about any other."""
    if len(topics) == 1 and len(topics[0].partitions) == 1:
        partition = topics[0].partitions[0]
        expected = METADATA_TOPIC_ID if name_field == "topic_id" else METADATA_TOPIC
        if getattr(topics[0], name_field) == expected and getattr(partition, index_field) == 0:
            return partition
    raise ApiError(
        ErrorCode.INVALID_REQUEST,
        f"the quorum has the one partition {METADATA_TOPIC}-0, and a request is about exactly that",
    )


def endpoints_of(listeners: list[Any]) -> Endpoints:
    return tuple(Endpoint(listener.name, listener.host, listener.port) for listener in listeners)


def vote_to_core(message: vote_request.VoteRequest) -> core.VoteRequest:
    part = only_partition(message.topics, "topic_name", "partition_index")
    candidate = ReplicaKey(part.replica_id, part.replica_directory_id)
    return core.VoteRequest(
        part.replica_epoch,
        candidate,
        part.last_offset_epoch,
        part.last_offset,
        part.pre_vote,
        message.voter_id,
        part.voter_directory_id,
        message.cluster_id,
    )


def vote_to_wire(request: core.VoteRequest) -> Message:
    part = vote_request.PartitionData(
        replica_epoch=request.epoch,
        replica_id=request.candidate.id,
        replica_directory_id=request.candidate.directory_id,
        voter_directory_id=request.voter_directory_id,
        last_offset_epoch=request.last_epoch,
        last_offset=request.end_offset,
        pre_vote=request.pre_vote,
    )
    topic = vote_request.TopicData(topic_name=METADATA_TOPIC, partitions=[part])
    return vote_request.VoteRequest(cluster_id=request.cluster_id, voter_id=request.voter_id, topics=[topic])


def begin_to_core(message: begin_quorum_epoch_request.BeginQuorumEpochRequest) -> core.BeginQuorumEpochRequest:
    part = only_partition(message.topics, "topic_name", "partition_index")
    endpoints = endpoints_of(message.leader_endpoints)
    return core.BeginQuorumEpochRequest(
        part.leader_epoch, part.leader_id, endpoints, message.voter_id, part.voter_directory_id, message.cluster_id
    )


def begin_to_wire(request: core.BeginQuorumEpochRequest) -> Message:
    wire = begin_quorum_epoch_request
    part = wire.PartitionData(
        voter_directory_id=request.voter_directory_id, leader_id=request.leader_id, leader_epoch=request.epoch
    )
    return wire.BeginQuorumEpochRequest(
        cluster_id=request.cluster_id,
        voter_id=request.voter_id,
        topics=[wire.TopicData(topic_name=METADATA_TOPIC, partitions=[part])],
        leader_endpoints=[
            wire.LeaderEndpoint(name=name, host=host, port=port) for name, host, port in request.endpoints
        ],
    )


def end_to_core(message: end_quorum_epoch_request.EndQuorumEpochRequest) -> core.EndQuorumEpochRequest:
    part = only_partition(message.topics, "topic_name", "partition_index")
    preferred = tuple(ReplicaKey(c.candidate_id, c.candidate_directory_id) for c in part.preferred_candidates)
    preferred = preferred or tuple(ReplicaKey(node_id) for node_id in part.preferred_successors)
    return core.EndQuorumEpochRequest(
        part.leader_epoch, part.leader_id, preferred, endpoints_of(message.leader_endpoints), message.cluster_id
    )


def end_to_wire(request: core.EndQuorumEpochRequest) -> Message:
    wire = end_quorum_epoch_request
    part = wire.PartitionData(
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_successors=[key.id for key in request.preferred],
        preferred_candidates=[
            wire.ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id) for key in request.preferred
        ],
    )
    return wire.EndQuorumEpochRequest(
        cluster_id=request.cluster_id,
        topics=[wire.TopicData(topic_name=METADATA_TOPIC, partitions=[part])],
        leader_endpoints=[
            wire.LeaderEndpoint(name=name, host=host, port=port) for name, host, port in request.endpoints
        ],
    )


def fetch_to_core(message: fetch_request.FetchRequest) -> core.FetchRequest:
    """Convert a Fetch. From version 15 on replicas are named by ReplicaState, before by ReplicaId. From version 13 on
    topics are named by id."""
    by_id = bool(message.topics) and message.topics[0].topic_id == METADATA_TOPIC_ID
    part = only_partition(message.topics, "topic_id" if by_id else "topic", "partition")
    replica_id = message.replica_state.replica_id if message.replica_state is not None else message.replica_id
    return core.FetchRequest(
        ReplicaKey(replica_id, part.replica_directory_id),
        part.current_leader_epoch,
        part.fetch_offset,
        part.last_fetched_epoch,
        part.high_watermark,
        message.max_wait_ms,
        min(message.max_bytes, part.partition_max_bytes or message.max_bytes),
        message.cluster_id,
    )


def fetch_to_wire(request: core.FetchRequest) -> Message:
    part = fetch_request.FetchPartition(
        current_leader_epoch=request.epoch,
        fetch_offset=request.offset,
        last_fetched_epoch=request.last_fetched_epoch,
        partition_max_bytes=request.max_bytes,
        replica_directory_id=request.replica.directory_id,
        high_watermark=request.high_watermark,
    )
    return fetch_request.FetchRequest(
        cluster_id=request.cluster_id,
        replica_state=fetch_request.ReplicaState(replica_id=request.replica.id),
        max_wait_ms=request.max_wait_ms,
        max_bytes=request.max_bytes,
        topics=[fetch_request.FetchTopic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[part])],
    )


def fetch_snapshot_to_core(message: fetch_snapshot_request.FetchSnapshotRequest) -> core.FetchSnapshotRequest:
    part = only_partition(message.topics, "name", "partition")
    snapshot = OffsetAndEpoch(part.snapshot_id.end_offset, part.snapshot_id.epoch)
    replica = ReplicaKey(message.replica_id, part.replica_directory_id)
    return core.FetchSnapshotRequest(
        replica, part.current_leader_epoch, snapshot, part.position, message.max_bytes, message.cluster_id
    )


def fetch_snapshot_to_wire(request: core.FetchSnapshotRequest) -> Message:
    wire = fetch_snapshot_request
    part = wire.PartitionSnapshot(
        current_leader_epoch=request.epoch,
        snapshot_id=wire.SnapshotId(end_offset=request.snapshot.offset, epoch=request.snapshot.epoch),
        position=request.position,
        replica_directory_id=request.replica.directory_id,
    )
    return wire.FetchSnapshotRequest(
        cluster_id=request.cluster_id,
        replica_id=request.replica.id,
        max_bytes=request.max_bytes,
        topics=[wire.TopicSnapshot(name=METADATA_TOPIC, partitions=[part])],
    )


def add_voter_to_core(message: add_raft_voter_request.AddRaftVoterRequest) -> core.AddVoterRequest:
    voter = Voter(ReplicaKey(message.voter_id, message.voter_directory_id), endpoints_of(message.listeners))
    return core.AddVoterRequest(voter, message.timeout_ms, message.ack_when_committed, message.cluster_id)


def add_voter_to_wire(request: core.AddVoterRequest) -> Message:
    wire, voter = add_raft_voter_request, request.voter
    return wire.AddRaftVoterRequest(
        cluster_id=request.cluster_id,
        timeout_ms=request.timeout_ms,
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        listeners=[wire.Listener(name=name, host=host, port=port) for name, host, port in voter.endpoints],
        ack_when_committed=request.ack_when_committed,
    )


def remove_voter_to_core(message: remove_raft_voter_request.RemoveRaftVoterRequest) -> core.RemoveVoterRequest:
    return core.RemoveVoterRequest(
        ReplicaKey(message.voter_id, message.voter_directory_id), cluster_id=message.cluster_id
    )


def remove_voter_to_wire(request: core.RemoveVoterRequest) -> Message:
    return remove_raft_voter_request.RemoveRaftVoterRequest(
        cluster_id=request.cluster_id, voter_id=request.key.id, voter_directory_id=request.key.directory_id
    )


def update_voter_to_core(message: update_raft_voter_request.UpdateRaftVoterRequest) -> core.UpdateVoterRequest:
    versions = message.kraft_version_feature
    key = ReplicaKey(message.voter_id, message.voter_directory_id)
    voter = Voter(key, endpoints_of(message.listeners), versions.min_supported_version, versions.max_supported_version)
    return core.UpdateVoterRequest(message.current_leader_epoch, voter, message.cluster_id)


def update_voter_to_wire(request: core.UpdateVoterRequest) -> Message:
    wire, voter = update_raft_voter_request, request.voter
    return wire.UpdateRaftVoterRequest(
        cluster_id=request.cluster_id,
        current_leader_epoch=request.epoch,
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        listeners=[wire.Listener(name=name, host=host, port=port) for name, host, port in voter.endpoints],
        kraft_version_feature=wire.KRaftVersionFeature(
            min_supported_version=voter.min_version, max_supported_version=voter.max_version
        ),
    )


def probe_to_wire(request: core.ProbeVersionsRequest) -> Message:
    return api_versions_request.ApiVersionsRequest(client_software_name="kraft-raft", client_software_version="1")


TO_CORE: dict[type[Message], Callable[[Any], core.Request]] = {
    vote_request.VoteRequest: vote_to_core,
    begin_quorum_epoch_request.BeginQuorumEpochRequest: begin_to_core,
    end_quorum_epoch_request.EndQuorumEpochRequest: end_to_core,
    fetch_request.FetchRequest: fetch_to_core,
    fetch_snapshot_request.FetchSnapshotRequest: fetch_snapshot_to_core,
    add_raft_voter_request.AddRaftVoterRequest: add_voter_to_core,
    remove_raft_voter_request.RemoveRaftVoterRequest: remove_voter_to_core,
    update_raft_voter_request.UpdateRaftVoterRequest: update_voter_to_core,
}
TO_WIRE: dict[type, Callable[[Any], Message]] = {
    core.VoteRequest: vote_to_wire,
    core.BeginQuorumEpochRequest: begin_to_wire,
    core.EndQuorumEpochRequest: end_to_wire,
    core.FetchRequest: fetch_to_wire,
    core.FetchSnapshotRequest: fetch_snapshot_to_wire,
    core.AddVoterRequest: add_voter_to_wire,
    core.RemoveVoterRequest: remove_voter_to_wire,
    core.UpdateVoterRequest: update_voter_to_wire,
    core.ProbeVersionsRequest: probe_to_wire,
}
