"""What the tests of the core do in one line: ask a replica, make it follow or lead, and look at what it wants sent."""

from __future__ import annotations

from kraft.raft.core import events
from kraft.raft.core import messages as m
from kraft.raft.core.effects import Effects, Reply, Send
from kraft.raft.core.messages import LeaderHint
from kraft.raft.core.raft_node import RaftNode
from kraft.raft.core.roles import Follower, Leader
from tests.unit.raft.builders import key_of, node, voter_of, voters_of

THREE = voters_of(1, 2, 3)


def replies(effects: Effects) -> list[m.Response]:
    return [message.response for message in effects.messages if isinstance(message, Reply)]


def sends(effects: Effects, kind: type) -> list[Send]:
    return [message for message in effects.messages if isinstance(message, Send) and isinstance(message.request, kind)]


def ask(replica: RaftNode, request: m.Request, now_ms: int = 1) -> Effects:
    return replica.step(events.RequestReceived("token", request), now_ms)


def vote(epoch: int, candidate: int, *, last_epoch: int = 0, end: int = 0, pre_vote: bool = False) -> m.VoteRequest:
    return m.VoteRequest(epoch, key_of(candidate), last_epoch, end, pre_vote)


def follower(leader: int = 2, epoch: int = 5, **log: tuple[int, ...]) -> RaftNode:
    """Node 1 of three, told who leads; it has not fetched yet."""
    replica = node(1, THREE, **log)  # type: ignore[arg-type]
    ask(replica, m.BeginQuorumEpochRequest(epoch, leader, voter_of(leader).endpoints))
    assert isinstance(replica.role, Follower)
    return replica


def leader(voters: int = 3, epochs: tuple[int, ...] = (), kraft_version: int = 1) -> RaftNode:
    """Node 1, elected by node 2 at time 2,000, its LEADER_CHANGE on disk."""
    replica = node(1, voters_of(*range(1, voters + 1)), epochs=epochs, kraft_version=kraft_version)
    effects = replica.step(events.Tick(), 2_000)
    for _ in range(3):
        for message in sends(effects, m.VoteRequest):
            if message.to != 3 and not replica.is_leader:
                effects = replica.step(
                    events.ResponseReceived(message.correlation, m.VoteResponse(LeaderHint(epoch=replica.epoch), True)),
                    2_000,
                )
    assert isinstance(replica.role, Leader)
    replica.step(events.LogFlushed(replica.log.end_offset, replica.log.generation), 2_000)
    return replica


def fetch(
    replica: RaftNode,
    from_id: int,
    offset: int,
    epoch: int,
    *,
    now_ms: int = 2_001,
    wait_ms: int = 0,
    hw: int = m.UNKNOWN_HIGH_WATERMARK,
) -> Effects:
    return ask(replica, m.FetchRequest(key_of(from_id), replica.epoch, offset, epoch, hw, wait_ms), now_ms)


def committed_leader() -> RaftNode:
    """Node 1, with a majority that has its LEADER_CHANGE."""
    replica = leader()
    fetch(replica, 2, replica.log.end_offset, replica.epoch)
    assert replica.log.high_watermark == replica.log.end_offset
    return replica
