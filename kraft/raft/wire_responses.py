"""Converts the quorum's responses between the core's values and Kafka's messages: `to_wire` as a server, `to_core` as a
client.

Encoding needs the `version`, because node endpoints exist only from certain versions on (KIP-853).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kraft.common.ids import METADATA_TOPIC, METADATA_TOPIC_ID, OffsetAndEpoch
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import (
    add_raft_voter_request,
    add_raft_voter_response,
    api_versions_response,
    begin_quorum_epoch_response,
    end_quorum_epoch_response,
    fetch_response,
    fetch_snapshot_response,
    remove_raft_voter_request,
    remove_raft_voter_response,
    update_raft_voter_request,
    update_raft_voter_response,
    vote_response,
)
from kraft.protocol.records.record_batch import RecordBatch, batches
from kraft.protocol.schema import Message
from kraft.raft.control_batches import decode_control
from kraft.raft.core import messages as core
from kraft.raft.core.log_state import Batch
from kraft.raft.core.messages import LeaderHint
from kraft.raft.core.voter_set import Endpoint

KRAFT_VERSION_FEATURE = "kraft.version"


def node_endpoints(kind: Callable[..., Any], hint: LeaderHint) -> list[Any]:
    return (
        [kind(node_id=hint.leader_id, host=hint.endpoints[0].host, port=hint.endpoints[0].port)]
        if hint.leader_id >= 0 and hint.endpoints
        else []
    )


def hint_of(leader_id: int, epoch: int, endpoints: list[Any]) -> LeaderHint:
    return LeaderHint(
        leader_id, epoch, tuple(Endpoint("", node.host, node.port) for node in endpoints if node.node_id == leader_id)
    )


def leader_of(leader: Any, endpoints: list[Any]) -> LeaderHint:
    """Return the CurrentLeader of a response; epoch 0 and no leader if it has none."""
    return LeaderHint() if leader is None else hint_of(leader.leader_id, max(leader.leader_epoch, 0), endpoints)


def batch_of(view: RecordBatch) -> Batch:
    """Return the core's view of a received batch. Raises ProtocolError if it is damaged."""
    view.verify_crc()
    content = decode_control(view) if view.is_control else None
    voters, kraft_version = (content.voters, content.kraft_version) if content is not None else (None, None)
    return Batch(
        view.base_offset, view.last_offset, view.partition_leader_epoch, bytes(view.view), voters, kraft_version
    )


# As a server


def simple_to_wire(wire: Any, name: str) -> Callable[[Any, int], Message]:
    """Return the encoder of BeginQuorumEpoch or EndQuorumEpoch responses, which have the same form."""

    def to_wire(response: Any, version: int) -> Message:
        part = wire.PartitionData(
            error_code=response.error, leader_id=response.hint.leader_id, leader_epoch=response.hint.epoch
        )
        endpoints = node_endpoints(wire.NodeEndpoint, response.hint) if version >= 1 else []
        message: Message = getattr(wire, name)(
            topics=[wire.TopicData(topic_name=METADATA_TOPIC, partitions=[part])], node_endpoints=endpoints
        )
        return message

    return to_wire


def vote_to_wire(response: core.VoteResponse, version: int) -> Message:
    wire, hint = vote_response, response.hint
    part = wire.PartitionData(
        error_code=response.error, leader_id=hint.leader_id, leader_epoch=hint.epoch, vote_granted=response.granted
    )
    endpoints = node_endpoints(wire.NodeEndpoint, hint) if version >= 1 else []
    return wire.VoteResponse(
        topics=[wire.TopicData(topic_name=METADATA_TOPIC, partitions=[part])], node_endpoints=endpoints
    )


def fetch_to_wire(response: core.FetchResponse, version: int, records: bytes = b"") -> Message:
    wire, hint = fetch_response, response.hint
    part = wire.PartitionData(
        error_code=response.error,
        high_watermark=response.high_watermark,
        last_stable_offset=response.high_watermark,
        log_start_offset=response.log_start_offset,
        current_leader=wire.LeaderIdAndEpoch(leader_id=hint.leader_id, leader_epoch=hint.epoch),
        records=records,
    )
    if response.diverging is not None:
        part.diverging_epoch = wire.EpochEndOffset(epoch=response.diverging.epoch, end_offset=response.diverging.offset)
    if response.snapshot is not None:
        part.snapshot_id = wire.SnapshotId(end_offset=response.snapshot.offset, epoch=response.snapshot.epoch)
    topic = wire.FetchableTopicResponse(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[part])
    return wire.FetchResponse(
        responses=[topic], node_endpoints=node_endpoints(wire.NodeEndpoint, hint) if version >= 17 else []
    )


def fetch_snapshot_to_wire(response: core.FetchSnapshotResponse, version: int) -> Message:
    wire, hint = fetch_snapshot_response, response.hint
    snapshot = response.snapshot or OffsetAndEpoch(0, 0)
    part = wire.PartitionSnapshot(
        error_code=response.error,
        snapshot_id=wire.SnapshotId(end_offset=snapshot.offset, epoch=snapshot.epoch),
        current_leader=wire.LeaderIdAndEpoch(leader_id=hint.leader_id, leader_epoch=hint.epoch),
        size=max(response.size, 0),
        position=response.position,
        unaligned_records=response.data,
    )
    topic = wire.TopicSnapshot(name=METADATA_TOPIC, partitions=[part])
    return wire.FetchSnapshotResponse(
        topics=[topic], node_endpoints=node_endpoints(wire.NodeEndpoint, hint) if version >= 1 else []
    )


def update_voter_to_wire(response: core.VoterResponse) -> Message:
    wire, hint = update_raft_voter_response, response.hint
    leader = wire.CurrentLeader(leader_id=hint.leader_id, leader_epoch=hint.epoch)
    if hint.endpoints:
        leader.host, leader.port = hint.endpoints[0].host, hint.endpoints[0].port
    return wire.UpdateRaftVoterResponse(error_code=response.error, current_leader=leader)


def add_voter_to_wire(response: core.VoterResponse) -> Message:
    return add_raft_voter_response.AddRaftVoterResponse(
        error_code=response.error, error_message=response.message or None
    )


def remove_voter_to_wire(response: core.VoterResponse) -> Message:
    return remove_raft_voter_response.RemoveRaftVoterResponse(
        error_code=response.error, error_message=response.message or None
    )


begin_to_wire = simple_to_wire(begin_quorum_epoch_response, "BeginQuorumEpochResponse")
end_to_wire = simple_to_wire(end_quorum_epoch_response, "EndQuorumEpochResponse")


def answer_to(request: Message, response: core.Response | None, version: int, records: bytes) -> Message:
    """Return the message that answers `request` of `version`."""
    if isinstance(response, core.FetchResponse):
        return fetch_to_wire(response, version, records)
    if isinstance(response, core.FetchSnapshotResponse):
        return fetch_snapshot_to_wire(response, version)
    if isinstance(response, core.VoteResponse):
        return vote_to_wire(response, version)
    if isinstance(response, core.BeginQuorumEpochResponse):
        return begin_to_wire(response, version)
    if isinstance(response, core.EndQuorumEpochResponse):
        return end_to_wire(response, version)
    assert isinstance(response, core.VoterResponse), f"{response!r} answers no request that is served"
    return VOTER_ANSWERS[type(request)](response)


VOTER_ANSWERS: dict[type[Message], Callable[[core.VoterResponse], Message]] = {
    add_raft_voter_request.AddRaftVoterRequest: add_voter_to_wire,
    remove_raft_voter_request.RemoveRaftVoterRequest: remove_voter_to_wire,
    update_raft_voter_request.UpdateRaftVoterRequest: update_voter_to_wire,
}


# As a client


def simple_to_core(make: Callable[[LeaderHint, int], core.Response], own_epoch: int, message: Any) -> core.Response:
    if message.error_code != ErrorCode.NONE or not message.topics:
        return make(LeaderHint(epoch=own_epoch), message.error_code or ErrorCode.INVALID_REQUEST)
    part = message.topics[0].partitions[0]
    return make(hint_of(part.leader_id, part.leader_epoch, message.node_endpoints), part.error_code)


def vote_to_core(request: core.VoteRequest, message: vote_response.VoteResponse) -> core.Response:
    granted = bool(message.topics) and message.topics[0].partitions[0].vote_granted
    return simple_to_core(lambda hint, error: core.VoteResponse(hint, granted, error), request.epoch, message)


def begin_to_core(request: core.BeginQuorumEpochRequest, message: Any) -> core.Response:
    return simple_to_core(core.BeginQuorumEpochResponse, request.epoch, message)


def end_to_core(request: core.EndQuorumEpochRequest, message: Any) -> core.Response:
    return simple_to_core(core.EndQuorumEpochResponse, request.epoch, message)


def fetch_to_core(request: core.FetchRequest, message: fetch_response.FetchResponse) -> core.Response:
    """Convert a Fetch response. A batch that is cut off at the end is left for the next Fetch. Raises ProtocolError for
    damaged records."""
    if message.error_code != ErrorCode.NONE or not message.responses:
        return core.FetchResponse(LeaderHint(epoch=request.epoch), message.error_code or ErrorCode.INVALID_REQUEST)
    part = message.responses[0].partitions[0]
    hint = leader_of(part.current_leader, message.node_endpoints)
    diverging, snapshot = part.diverging_epoch, part.snapshot_id
    return core.FetchResponse(
        hint,
        part.error_code,
        part.high_watermark,
        part.log_start_offset,
        diverging=OffsetAndEpoch(diverging.end_offset, diverging.epoch) if diverging is not None else None,
        snapshot=OffsetAndEpoch(snapshot.end_offset, snapshot.epoch) if snapshot is not None else None,
        batches=tuple(batch_of(view) for view in batches(part.records or b"", partial_tail=True)),
    )


def fetch_snapshot_to_core(
    request: core.FetchSnapshotRequest, message: fetch_snapshot_response.FetchSnapshotResponse
) -> core.Response:
    if message.error_code != ErrorCode.NONE or not message.topics:
        return core.FetchSnapshotResponse(
            LeaderHint(epoch=request.epoch), message.error_code or ErrorCode.INVALID_REQUEST
        )
    part = message.topics[0].partitions[0]
    hint = leader_of(part.current_leader, message.node_endpoints)
    snapshot = OffsetAndEpoch(part.snapshot_id.end_offset, part.snapshot_id.epoch)
    return core.FetchSnapshotResponse(
        hint,
        part.error_code,
        snapshot,
        part.position,
        request.max_bytes,
        part.size,
        bytes(part.unaligned_records or b""),
    )


def voter_change_to_core(
    request: core.AddVoterRequest | core.RemoveVoterRequest,
    message: add_raft_voter_response.AddRaftVoterResponse | remove_raft_voter_response.RemoveRaftVoterResponse,
) -> core.Response:
    """Convert an AddRaftVoter or RemoveRaftVoter response. It names no leader."""
    return core.VoterResponse(LeaderHint(), message.error_code, message.error_message or "")


def update_voter_to_core(
    request: core.UpdateVoterRequest, message: update_raft_voter_response.UpdateRaftVoterResponse
) -> core.Response:
    leader = message.current_leader
    if leader is None:
        return core.VoterResponse(LeaderHint(), message.error_code)
    endpoints = (Endpoint("", leader.host, leader.port),) if leader.host else ()
    return core.VoterResponse(LeaderHint(leader.leader_id, leader.leader_epoch, endpoints), message.error_code)


def probe_to_core(
    request: core.ProbeVersionsRequest, message: api_versions_response.ApiVersionsResponse
) -> core.Response:
    """Convert an ApiVersions response. A node that does not name kraft.version supports 0 only."""
    found = next((feature for feature in message.supported_features if feature.name == KRAFT_VERSION_FEATURE), None)
    return core.ProbeVersionsResponse(
        found.min_version if found else 0, found.max_version if found else 0, message.error_code
    )


TO_CORE: dict[type, Callable[[Any, Any], core.Response]] = {
    core.VoteRequest: vote_to_core,
    core.BeginQuorumEpochRequest: begin_to_core,
    core.EndQuorumEpochRequest: end_to_core,
    core.FetchRequest: fetch_to_core,
    core.FetchSnapshotRequest: fetch_snapshot_to_core,
    core.AddVoterRequest: voter_change_to_core,
    core.RemoveVoterRequest: voter_change_to_core,
    core.UpdateVoterRequest: update_voter_to_core,
    core.ProbeVersionsRequest: probe_to_core,
}
