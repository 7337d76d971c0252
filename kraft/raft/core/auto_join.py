"""A controller that adds itself to the voters (`controller.quorum.auto.join.enable`, KIP-853).

A controller that observes a quorum of kraft.version 1 asks the leader to add it. If the voter set has its node id with
another directory id, its disk was replaced: it first asks the leader to remove that voter. The leader makes one change
at a time and refuses the others, so the observer decides again from its own log after every fetch timeout.
"""

from __future__ import annotations

from typing import Final

from kraft.protocol.error_codes import ErrorCode
from kraft.raft.core.config import MAX_KRAFT_VERSION, MIN_KRAFT_VERSION
from kraft.raft.core.messages import AddVoterRequest, RemoveVoterRequest, Response, VoterResponse
from kraft.raft.core.quorum_state import NEVER_MS, InFlight, QuorumState
from kraft.raft.core.roles import Follower
from kraft.raft.core.voter_set import Voter

EXPECTED: Final = frozenset(
    (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.DUPLICATE_VOTER, ErrorCode.VOTER_NOT_FOUND)
)
"""Results of a change that may have been made, or can be made later."""


def join_voters(q: QuorumState, role: Follower) -> int:
    """Send AddVoter or RemoveVoter if it is due. Returns the time of the next check.

    Neither is sent before this replica has all committed records. The leader would not add it, and the removal of its
    replaced disk would leave the quorum with a voter less for the whole download.
    """
    if not wants_to_join(q):
        return NEVER_MS
    if q.now_ms < role.join_at_ms:
        return role.join_at_ms
    to = role.leader_id
    if role.caught_up and q.can_send(AddVoterRequest, to) and q.can_send(RemoveVoterRequest, to):
        pause(q, role)
        q.send(to, role.leader_endpoints, next_change(q))
        return role.join_at_ms
    return NEVER_MS


def wants_to_join(q: QuorumState) -> bool:
    config = q.config
    return (
        config.auto_join
        and config.can_be_voter
        and bool(config.endpoints)
        and q.log.history.kraft_version > 0
        and not q.is_voter
    )


def next_change(q: QuorumState) -> AddVoterRequest | RemoveVoterRequest:
    """Return the request that brings this replica closer to being a voter. AddVoter is answered when it is appended:
    this replica learns of the commit from its own log."""
    config, replaced = q.config, q.voters.get(q.local.id)
    if replaced is not None:
        return RemoveVoterRequest(replaced.key, cluster_id=config.cluster_id)
    own = Voter(q.local, config.endpoints, MIN_KRAFT_VERSION, MAX_KRAFT_VERSION)
    return AddVoterRequest(own, config.request_timeout_ms, ack_when_committed=False, cluster_id=config.cluster_id)


def on_join_response(q: QuorumState, waiting: InFlight, response: Response) -> None:
    assert isinstance(response, VoterResponse)
    if response.error not in EXPECTED:
        q.back_off(waiting)
    elif isinstance(q.role, Follower):
        pause(q, q.role)


def pause(q: QuorumState, role: Follower) -> None:
    role.join_at_ms = q.now_ms + q.config.fetch_timeout_ms
