"""Who gets a vote, and what is on disk before it is told."""

from __future__ import annotations

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.raft.core import events
from kraft.raft.core import messages as m
from kraft.raft.core.effects import Reply
from kraft.raft.core.election_state import ElectionState
from kraft.raft.core.messages import LeaderHint
from kraft.raft.core.roles import Unattached
from kraft.raft.core.voter_set import ReplicaKey
from tests.unit.raft.builders import key_of, node, voter_of
from tests.unit.raft.core.steps import THREE, ask, follower, leader, replies, sends, vote


def test_a_vote_is_stored_before_it_is_answered() -> None:
    effects = ask(node(1, THREE), vote(1, 2))
    assert effects.election == ElectionState(1, -1, key_of(2))
    assert [type(stage) for stage in effects.stages()][:2] == [ElectionState, Reply]
    assert replies(effects) == [m.VoteResponse(LeaderHint(epoch=1), True)]


def test_a_vote_is_granted_again_to_the_same_candidate_and_to_no_other() -> None:
    replica = node(1, THREE)
    ask(replica, vote(1, 2))
    assert replies(ask(replica, vote(1, 2)))[0].granted  # type: ignore[union-attr]
    assert not replies(ask(replica, vote(1, 3)))[0].granted  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("last_epoch", "end", "granted"), [(1, 3, True), (1, 2, False), (2, 1, True), (0, 9, False), (1, 4, True)]
)
def test_a_vote_needs_a_candidate_log_at_least_as_up_to_date(last_epoch: int, end: int, granted: bool) -> None:
    replica = node(1, THREE, epochs=(1, 1, 1))
    assert replies(ask(replica, vote(5, 2, last_epoch=last_epoch, end=end)))[0].granted == granted  # type: ignore[union-attr]
    replica = node(1, THREE, epochs=(1, 1, 1))
    assert replies(ask(replica, vote(5, 2, last_epoch=last_epoch, end=end, pre_vote=True)))[0].granted == granted  # type: ignore[union-attr]


def test_a_pre_vote_is_never_stored() -> None:
    replica = node(1, THREE)
    effects = ask(replica, vote(0, 2, pre_vote=True))
    assert effects.election is None
    assert replies(effects)[0].granted  # type: ignore[union-attr]
    assert replica.election.voted is None


def test_a_follower_that_has_fetched_refuses_pre_votes() -> None:
    replica = follower()
    assert replies(ask(replica, vote(5, 3, pre_vote=True)))[0].granted  # type: ignore[union-attr]
    (message,) = sends(ask(replica, m.BeginQuorumEpochRequest(6, 2, voter_of(2).endpoints)), m.FetchRequest)
    replica.step(
        events.ResponseReceived(message.correlation, m.FetchResponse(LeaderHint(2, replica.epoch), 0, 0, 0, 0, 0)), 700
    )
    assert not replies(ask(replica, vote(replica.epoch, 3, pre_vote=True)))[0].granted  # type: ignore[union-attr]


def test_a_follower_grants_no_vote_in_the_epoch_of_its_leader() -> None:
    assert not replies(ask(follower(), vote(5, 3)))[0].granted  # type: ignore[union-attr]


def test_a_higher_epoch_deposes_even_a_leader() -> None:
    replica = leader()
    ask(replica, vote(replica.epoch + 1, 3))
    assert isinstance(replica.role, Unattached)


def test_a_stale_candidate_is_answered_with_the_current_epoch() -> None:
    (answer,) = replies(ask(follower(), vote(4, 3)))
    assert answer == m.VoteResponse(LeaderHint(2, 5, voter_of(2).endpoints), False, ErrorCode.FENCED_LEADER_EPOCH)


def test_a_contradictory_vote_request_is_invalid_whatever_its_epoch() -> None:
    request = vote(4, 3)._replace(last_epoch=4)
    assert replies(ask(follower(), request))[0].error == ErrorCode.INVALID_REQUEST  # type: ignore[union-attr]


def test_a_candidate_without_an_id_gets_no_vote() -> None:
    replica = node(1, THREE)
    effects = ask(replica, vote(1, 2)._replace(candidate=ReplicaKey(-1)))
    (answer,) = replies(effects)
    assert isinstance(answer, m.VoteResponse)
    assert answer.error == ErrorCode.INVALID_REQUEST
    assert (effects.election, replica.epoch) == (None, 0)


def test_a_vote_request_for_another_directory_is_refused() -> None:
    request = vote(1, 2)._replace(voter_id=1, voter_directory_id=b"another director")
    assert replies(ask(node(1, THREE), request))[0].error == ErrorCode.INVALID_VOTER_KEY  # type: ignore[union-attr]


def test_an_unknown_replica_may_get_a_vote() -> None:
    assert replies(ask(node(1, THREE), vote(1, 9)))[0].granted  # type: ignore[union-attr]
