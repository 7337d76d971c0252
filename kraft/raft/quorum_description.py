"""The response to DescribeQuorum: voters and observers as the leader sees them (KIP-595, KIP-836, KIP-853)."""

from __future__ import annotations

from kraft.common.ids import METADATA_TOPIC
from kraft.protocol.error_codes import ErrorCode, message_of
from kraft.protocol.messages import describe_quorum_response as wire
from kraft.raft.core.raft_node import RaftNode
from kraft.raft.core.roles import Leader, Progress
from kraft.raft.core.voter_set import ReplicaKey

UNKNOWN = -1


def describe_quorum(
    node: RaftNode, local: ReplicaKey, version: int, *, now_ms: int, wall_ms: int, observer_expiry_ms: int
) -> wire.DescribeQuorumResponse:
    """Return the response. `now_ms` is a time of the core's clock. Timestamps in the response are wall-clock times."""
    leader, voters = node.role, node.voters
    if not isinstance(leader, Leader):
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return respond(
            wire.PartitionData(
                error_code=error,
                error_message=message_of(error),
                leader_id=node.leader.leader_id,
                leader_epoch=node.epoch,
            ),
            [],
        )

    def state(key: ReplicaKey, progress: Progress | None) -> wire.ReplicaState:
        directory_id = key.directory_id if version >= 2 else bytes(16)
        end_offset, fetched, caught_up = UNKNOWN, UNKNOWN, UNKNOWN
        if key.id == local.id:
            end_offset, fetched, caught_up = node.log.end_offset, wall_ms, wall_ms
        elif progress is not None:
            end_offset = progress.end_offset
            fetched, caught_up = (
                at_wall(progress.fetched_ms, now_ms, wall_ms),
                at_wall(progress.caught_up_ms, now_ms, wall_ms),
            )
        return wire.ReplicaState(
            replica_id=key.id,
            replica_directory_id=directory_id,
            log_end_offset=end_offset,
            last_fetch_timestamp=fetched,
            last_caught_up_timestamp=caught_up,
        )

    observers = [
        p
        for key, p in leader.progress.items()
        if not voters.contains(key) and p.fetched_ms > now_ms - observer_expiry_ms
    ]
    part = wire.PartitionData(
        leader_id=local.id,
        leader_epoch=node.epoch,
        high_watermark=max(leader.high_watermark, UNKNOWN),
        current_voters=[state(voter.key, leader.progress_of_voter(voter.key)) for voter in voters.voters],
        observers=[state(p.key, p) for p in sorted(observers, key=lambda p: p.key)],
    )
    nodes = [
        wire.Node(
            node_id=voter.key.id,
            listeners=[wire.Listener(name=name, host=host, port=port) for name, host, port in voter.endpoints],
        )
        for voter in voters.voters
    ]
    return respond(part, nodes if version >= 2 else [])


def respond(part: wire.PartitionData, nodes: list[wire.Node]) -> wire.DescribeQuorumResponse:
    return wire.DescribeQuorumResponse(
        topics=[wire.TopicData(topic_name=METADATA_TOPIC, partitions=[part])], nodes=nodes
    )


def at_wall(then_ms: int, now_ms: int, wall_ms: int) -> int:
    return UNKNOWN if then_ms < 0 else wall_ms - (now_ms - then_ms)
