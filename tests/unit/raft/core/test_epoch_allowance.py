"""How far the epoch of a replica may be raised, by whom, and how fast."""

from __future__ import annotations

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.raft.core import events
from kraft.raft.core import messages as m
from kraft.raft.core.election_state import ElectionState
from kraft.raft.core.epoch_allowance import (
    ANSWERED_EPOCH_MAX,
    CLAIMED_RISE_MAX,
    CLAIMED_RISE_PER_S,
    EPOCH_MAX,
    EpochAllowance,
)
from kraft.raft.core.messages import LeaderHint
from kraft.raft.core.roles import Follower
from tests.unit.raft.builders import node, voter_of
from tests.unit.raft.core.steps import THREE, ask, follower, leader, replies, sends, vote


def begin(epoch: int) -> m.Request:
    return m.BeginQuorumEpochRequest(epoch, 2, voter_of(2).endpoints)


def end(epoch: int) -> m.Request:
    return m.EndQuorumEpochRequest(epoch, 2)


CLAIMS = [
    pytest.param(lambda epoch: vote(epoch, 2), id="vote"),
    pytest.param(lambda epoch: vote(epoch, 2, pre_vote=True), id="pre-vote"),
    pytest.param(begin, id="begin"),
    pytest.param(end, id="end"),
]


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("epoch", [CLAIMED_RISE_MAX + 1, ANSWERED_EPOCH_MAX, EPOCH_MAX])
def test_a_request_does_not_raise_the_epoch_by_more_than_elections_can(claim, epoch: int) -> None:  # type: ignore[no-untyped-def]
    replica = node(1, THREE)
    effects = ask(replica, claim(epoch))
    assert effects.election is None
    assert replica.epoch == 0
    (answer,) = replies(effects)
    assert answer.error == ErrorCode.INVALID_REQUEST  # type: ignore[union-attr]
    assert answer.hint.epoch == 0  # type: ignore[union-attr]
    assert replica.refused_epochs == 1


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_request_may_raise_the_epoch_by_as_much_as_elections_can(claim) -> None:  # type: ignore[no-untyped-def]
    replica = node(1, THREE)
    ask(replica, claim(CLAIMED_RISE_MAX))
    assert replica.epoch == CLAIMED_RISE_MAX
    assert replica.refused_epochs == 0


def test_many_requests_together_raise_the_epoch_no_faster_than_elections_do() -> None:
    replica = node(1, THREE)
    for second in range(1, 11):
        for _ in range(3):
            ask(replica, vote(replica.epoch + CLAIMED_RISE_MAX // 2, 2), now_ms=second * 1_000)
    assert replica.epoch <= CLAIMED_RISE_MAX + 10 * CLAIMED_RISE_PER_S


def test_a_leader_is_not_deposed_by_an_impossible_epoch() -> None:
    replica = leader()
    ask(replica, vote(EPOCH_MAX, 3))
    assert replica.is_leader


@pytest.mark.parametrize("epoch", [CLAIMED_RISE_MAX + 1, ANSWERED_EPOCH_MAX])
def test_a_response_of_a_voter_at_its_own_address_may_raise_the_epoch_further(epoch: int) -> None:
    """A replica that was away for a year hears of the epoch from whom it asks itself."""
    replica = node(1, THREE)
    (message,) = sends(replica.step(events.Tick(), 0), m.FetchRequest)
    replica.step(events.ResponseReceived(message.correlation, m.FetchResponse(LeaderHint(epoch=epoch), 74)), 1)
    assert replica.epoch == epoch


@pytest.mark.parametrize("epoch", [ANSWERED_EPOCH_MAX + 1, EPOCH_MAX, EPOCH_MAX + 1])
@pytest.mark.parametrize("leader_id", [-1, 2])
def test_a_response_with_an_impossible_epoch_is_discarded(epoch: int, leader_id: int) -> None:
    replica = follower()
    (message,) = sends(ask(replica, m.BeginQuorumEpochRequest(6, 2, voter_of(2).endpoints), 400), m.FetchRequest)
    before = replica.epoch
    hint = LeaderHint(leader_id, epoch, voter_of(2).endpoints)
    effects = replica.step(events.ResponseReceived(message.correlation, m.FetchResponse(hint)), 500)
    assert effects.election is None
    assert replica.epoch == before
    assert isinstance(replica.role, Follower)
    assert 2 not in [send.to for send in sends(effects, m.FetchRequest)], "it is asked again after a while"
    assert replica.refused_epochs == 1


def test_a_quorum_whose_epochs_are_above_the_limit_still_elects() -> None:
    start = ANSWERED_EPOCH_MAX + 5
    replica = node(1, THREE, election=ElectionState(start))
    ask(replica, vote(start + 1, 2))
    (message, *_) = sends(replica.step(events.Tick(), 3_000), m.VoteRequest)
    replica.step(
        events.ResponseReceived(message.correlation, m.VoteResponse(LeaderHint(epoch=start + 3), error=74)), 3_001
    )
    assert replica.epoch == start + 3


def test_the_largest_epoch_has_no_successor() -> None:
    replica = node(1, THREE, election=ElectionState(EPOCH_MAX))
    effects = replica.step(events.Tick(), 2_000)
    (message, *_) = sends(effects, m.VoteRequest)
    with pytest.raises(AssertionError, match="lost-quorum"):
        replica.step(
            events.ResponseReceived(message.correlation, m.VoteResponse(LeaderHint(epoch=EPOCH_MAX), True)), 2_001
        )
    with pytest.raises(AssertionError, match="lost-quorum"):
        node(1, THREE, election=ElectionState(EPOCH_MAX, 1)).step(events.Tick(), 10_000)


def test_the_epoch_allowance_refills_up_to_its_limit() -> None:
    allowance = EpochAllowance(0)
    assert allowance.admits_request(10, 10 + CLAIMED_RISE_MAX, 0)
    allowance.spend(CLAIMED_RISE_MAX)
    assert not allowance.admits_request(10, 11, 0)
    assert allowance.admits_request(10, 10 + CLAIMED_RISE_PER_S, 1_000)
    assert not allowance.admits_request(10, 11 + CLAIMED_RISE_PER_S, 1_000)
    assert allowance.admits_request(10, 10 + CLAIMED_RISE_MAX, 1 << 40)
    assert not allowance.admits_request(10, 11 + CLAIMED_RISE_MAX, 1 << 41)
