"""Who stands for election, when, and what makes a candidate."""

from __future__ import annotations

from kraft.protocol.error_codes import ErrorCode
from kraft.raft.core import events
from kraft.raft.core import messages as m
from kraft.raft.core.election_state import ElectionState
from kraft.raft.core.messages import LeaderHint
from kraft.raft.core.roles import Candidate, Follower, Prospective, Unattached
from tests.unit.raft.builders import key_of, node, voter_of
from tests.unit.raft.core.steps import THREE, ask, follower, sends


def test_an_election_starts_with_a_pre_vote_and_keeps_the_epoch() -> None:
    replica = node(1, THREE, epochs=(1,))
    effects = replica.step(events.Tick(), 2_000)
    assert isinstance(replica.role, Prospective)
    assert effects.election is None
    assert [message.to for message in sends(effects, m.VoteRequest)] == [2, 3]
    assert all(message.request.pre_vote for message in sends(effects, m.VoteRequest))  # type: ignore[union-attr]


def test_a_majority_of_pre_votes_makes_a_candidate_with_a_stored_vote_for_itself() -> None:
    replica = node(1, THREE)
    (first, _) = sends(replica.step(events.Tick(), 2_000), m.VoteRequest)
    effects = replica.step(events.ResponseReceived(first.correlation, m.VoteResponse(LeaderHint(), True)), 2_001)
    assert isinstance(replica.role, Candidate)
    assert effects.election == ElectionState(1, -1, key_of(1))
    assert not any(message.request.pre_vote for message in sends(effects, m.VoteRequest))  # type: ignore[union-attr]


def test_a_peer_without_pre_vote_support_does_not_block_an_election() -> None:
    replica = node(1, THREE)
    (first, _) = sends(replica.step(events.Tick(), 2_000), m.VoteRequest)
    replica.step(
        events.ResponseReceived(first.correlation, m.VoteResponse(LeaderHint(), error=ErrorCode.UNSUPPORTED_VERSION)),
        2_001,
    )
    assert isinstance(replica.role, Candidate)


def test_a_follower_starts_an_election_when_its_leader_is_silent() -> None:
    replica = follower()
    replica.step(events.Tick(), 1_900)
    assert isinstance(replica.role, Follower)
    replica.step(events.Tick(), 2_100)
    assert isinstance(replica.role, Prospective)


def test_a_follower_starts_an_election_early_when_its_leaders_port_refuses_connections() -> None:
    replica = node(1, THREE)
    (message,) = sends(ask(replica, m.BeginQuorumEpochRequest(5, 2, voter_of(2).endpoints)), m.FetchRequest)
    replica.step(events.RequestFailed(message.correlation, refused=True), 10)
    assert replica.deadline_ms <= 160
    replica.step(events.Tick(), 161)
    assert isinstance(replica.role, Prospective)


def test_a_follower_starts_an_election_early_when_its_leader_no_longer_leads() -> None:
    replica = node(1, THREE)
    (message,) = sends(ask(replica, m.BeginQuorumEpochRequest(5, 2, voter_of(2).endpoints)), m.FetchRequest)
    resigned = m.FetchResponse(LeaderHint(2, 5, voter_of(2).endpoints), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    replica.step(events.ResponseReceived(message.correlation, resigned), 10)
    assert isinstance(replica.role, Follower)
    replica.step(events.Tick(), 161)
    assert isinstance(replica.role, Prospective)


def test_a_candidate_that_lost_starts_another_election_after_a_short_backoff() -> None:
    replica = node(1, THREE)
    effects = replica.step(events.Tick(), 200)
    for message in sends(effects, m.VoteRequest)[:1]:
        effects = replica.step(
            events.ResponseReceived(message.correlation, m.VoteResponse(LeaderHint(epoch=0), True)), 200
        )
    assert isinstance(replica.role, Candidate)
    for message in sends(effects, m.VoteRequest):
        replica.step(events.ResponseReceived(message.correlation, m.VoteResponse(LeaderHint(epoch=1), False)), 210)
    assert isinstance(replica.role, Candidate)
    replica.step(events.Tick(), 361)
    assert isinstance(replica.role, Prospective)


def test_a_voter_that_starts_without_a_leader_soon_requests_pre_votes() -> None:
    replica = node(1, THREE)
    assert isinstance(replica.role, Unattached)
    replica.step(events.Tick(), 151)
    assert isinstance(replica.role, Prospective)


def test_a_follower_starts_an_election_in_the_successor_order_of_a_resigning_leader() -> None:
    first, second = follower(), follower()
    ask(first, m.EndQuorumEpochRequest(5, 2, (key_of(1), key_of(3))), 100)
    assert isinstance(first.role, Prospective)
    ask(second, m.EndQuorumEpochRequest(5, 2, (key_of(3), key_of(1))), 100)
    assert isinstance(second.role, Follower)
    assert second.role.fetch_until_ms == 600
