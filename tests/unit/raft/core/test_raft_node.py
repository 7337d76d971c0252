"""A replica starts again, and leaves."""

from __future__ import annotations

from kraft.protocol.error_codes import ErrorCode
from kraft.raft.core import events
from kraft.raft.core import messages as m
from kraft.raft.core.election_state import ElectionState
from kraft.raft.core.messages import LeaderHint
from kraft.raft.core.roles import Candidate, Follower, Resigned, Unattached
from kraft.raft.core.voter_set import ReplicaKey
from tests.unit.raft.builders import key_of, node, voters_of
from tests.unit.raft.core.steps import THREE, ask, committed_leader, follower, replies, sends, vote


def test_a_leader_that_restarts_is_resigned_and_starts_a_new_epoch() -> None:
    replica = node(1, THREE, epochs=(4,), election=ElectionState(4, 1, key_of(1)))
    assert isinstance(replica.role, Resigned)
    assert replica.leader.leader_id == -1
    replica.step(events.Tick(), 2_000)
    assert replica.epoch == 5


def test_a_candidate_that_restarts_stays_a_candidate() -> None:
    replica = node(1, THREE, election=ElectionState(4, -1, key_of(1)))
    assert isinstance(replica.role, Candidate)
    assert replica.epoch == 4


def test_a_stored_vote_for_another_directory_of_this_node_is_no_candidacy() -> None:
    replica = node(1, THREE, election=ElectionState(4, -1, ReplicaKey(1, b"the wiped disk..")))
    assert isinstance(replica.role, Unattached)


def test_a_follower_that_restarts_follows_the_same_leader() -> None:
    assert isinstance(node(1, THREE, election=ElectionState(4, 2)).role, Follower)


def test_an_epoch_found_only_in_the_log_is_adopted_at_startup() -> None:
    replica = node(1, THREE, epochs=(6,), election=ElectionState(4, 2))
    assert isinstance(replica.role, Unattached)
    assert replica.epoch == 6


def test_a_sole_voter_becomes_leader_of_a_new_epoch_without_waiting() -> None:
    replica = node(1, voters_of(1), epochs=(3,), election=ElectionState(3, 1, key_of(1)))
    assert replica.is_leader
    assert replica.epoch == 4


def test_a_leader_that_shuts_down_notifies_the_voters_and_waits_for_them() -> None:
    replica = committed_leader()
    effects = replica.step(events.ShutdownRequested(), 2_010)
    assert not replica.is_shut_down
    for message in sends(effects, m.EndQuorumEpochRequest):
        replica.step(
            events.ResponseReceived(message.correlation, m.EndQuorumEpochResponse(LeaderHint(epoch=replica.epoch))),
            2_020,
        )
    assert replica.is_shut_down


def test_a_node_that_does_not_lead_shuts_down_immediately() -> None:
    replica = follower()
    replica.step(events.ShutdownRequested(), 10)
    assert replica.is_shut_down
    assert replies(ask(replica, vote(9, 3), 11))[0].error == ErrorCode.BROKER_NOT_AVAILABLE  # type: ignore[union-attr]
