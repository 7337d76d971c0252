"""The core, one rule at a time: what is asked, what comes back, what is on disk before it."""

from __future__ import annotations

import pytest

from kraft.common.errors import NotLeader
from kraft.common.ids import OffsetAndEpoch
from kraft.protocol.error_codes import ErrorCode
from kraft.raft.core import events
from kraft.raft.core import messages as m
from kraft.raft.core.effects import Append, Effects, Reply, Send, Truncate
from kraft.raft.core.election_state import ElectionState
from kraft.raft.core.log_state import Batch
from kraft.raft.core.messages import LeaderHint
from kraft.raft.core.payloads import LeaderChange
from kraft.raft.core.raft_node import RaftNode
from kraft.raft.core.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from kraft.raft.core.voter_set import ReplicaKey
from tests.unit.raft.builders import key_of, node, voter_of, voters_of

THREE = voters_of(1, 2, 3)
LONG = 10_000


def replies(effects: Effects) -> list[m.Response]:
    return [message.response for message in effects.messages if isinstance(message, Reply)]


def sends(effects: Effects, kind: type) -> list[Send]:
    return [message for message in effects.messages if isinstance(message, Send) and isinstance(message.request, kind)]


def ask(replica: RaftNode, request: m.Request, now_ms: int = 1) -> Effects:
    return replica.step(events.RequestReceived("token", request), now_ms)


def vote(epoch: int, candidate: int, *, last_epoch: int = 0, end: int = 0, pre_vote: bool = False) -> m.VoteRequest:
    return m.VoteRequest(epoch, key_of(candidate), last_epoch, end, pre_vote)


def follower(leader: int = 2, epoch: int = 5, **log: tuple[int, ...]) -> RaftNode:
    replica = node(1, THREE, **log)  # type: ignore[arg-type]
    ask(replica, m.BeginQuorumEpochRequest(epoch, leader, voter_of(leader).endpoints))
    assert isinstance(replica.role, Follower)
    return replica


def leader(voters: int = 3, epochs: tuple[int, ...] = ()) -> RaftNode:
    """Node 1, elected by node 2 at time 2,000, its LEADER_CHANGE on disk."""
    replica = node(1, voters_of(*range(1, voters + 1)), epochs=epochs)
    effects = replica.step(events.Tick(), 2_000)
    for _ in range(3):
        for message in sends(effects, m.VoteRequest):
            if message.to != 3 and not replica.is_leader:
                effects = replica.step(events.ResponseReceived(message.correlation, m.VoteResponse(LeaderHint(epoch=replica.epoch), True)), 2_000)
    assert isinstance(replica.role, Leader)
    replica.step(events.LogFlushed(replica.log.end_offset, replica.log.generation), 2_000)
    return replica


def fetch(replica: RaftNode, from_id: int, offset: int, epoch: int, *, now_ms: int = 2_001, wait_ms: int = 0, hw: int = m.UNKNOWN_HIGH_WATERMARK) -> Effects:
    return ask(replica, m.FetchRequest(key_of(from_id), replica.epoch, offset, epoch, hw, wait_ms), now_ms)


# Votes


def test_a_vote_is_stored_before_it_is_told() -> None:
    effects = ask(node(1, THREE), vote(1, 2))
    assert effects.election == ElectionState(1, -1, key_of(2))
    assert [type(stage) for stage in effects.stages()][:2] == [ElectionState, Reply]
    assert replies(effects) == [m.VoteResponse(LeaderHint(epoch=1), True)]


def test_the_same_candidate_gets_its_vote_again_and_another_does_not() -> None:
    replica = node(1, THREE)
    ask(replica, vote(1, 2))
    assert replies(ask(replica, vote(1, 2)))[0].granted  # type: ignore[union-attr]
    assert not replies(ask(replica, vote(1, 3)))[0].granted  # type: ignore[union-attr]


@pytest.mark.parametrize(("last_epoch", "end", "granted"), [(1, 3, True), (1, 2, False), (2, 1, True), (0, 9, False), (1, 4, True)])
def test_a_vote_is_for_a_log_at_least_as_up_to_date(last_epoch: int, end: int, granted: bool) -> None:
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


def test_a_follower_refuses_pre_votes_once_it_has_fetched() -> None:
    replica = follower()
    assert replies(ask(replica, vote(5, 3, pre_vote=True)))[0].granted  # type: ignore[union-attr]
    (message,) = sends(ask(replica, m.BeginQuorumEpochRequest(6, 2, voter_of(2).endpoints)), m.FetchRequest)
    replica.step(events.ResponseReceived(message.correlation, m.FetchResponse(LeaderHint(2, replica.epoch), 0, 0, 0, 0, 0)), 700)
    assert not replies(ask(replica, vote(replica.epoch, 3, pre_vote=True)))[0].granted  # type: ignore[union-attr]


def test_a_follower_gives_no_vote_in_the_epoch_of_its_leader() -> None:
    assert not replies(ask(follower(), vote(5, 3)))[0].granted  # type: ignore[union-attr]


def test_a_higher_epoch_deposes_even_a_leader() -> None:
    replica = leader()
    ask(replica, vote(replica.epoch + 1, 3))
    assert isinstance(replica.role, Unattached)


def test_a_stale_candidate_is_told_the_epoch() -> None:
    (answer,) = replies(ask(follower(), vote(4, 3)))
    assert answer == m.VoteResponse(LeaderHint(2, 5, voter_of(2).endpoints), False, ErrorCode.FENCED_LEADER_EPOCH)


def test_a_vote_request_that_contradicts_itself_is_refused_as_such_however_old() -> None:
    request = vote(4, 3)._replace(last_epoch=4)
    assert replies(ask(follower(), request))[0].error == ErrorCode.INVALID_REQUEST  # type: ignore[union-attr]


def test_a_vote_request_for_another_directory_is_refused() -> None:
    request = vote(1, 2)._replace(voter_id=1, voter_directory_id=b"another director")
    assert replies(ask(node(1, THREE), request))[0].error == ErrorCode.INVALID_VOTER_KEY  # type: ignore[union-attr]


def test_a_replica_unknown_to_us_may_be_voted_for() -> None:
    assert replies(ask(node(1, THREE), vote(1, 9)))[0].granted  # type: ignore[union-attr]


# Elections


def test_an_election_begins_with_a_pre_vote_and_leaves_the_epoch_alone() -> None:
    replica = node(1, THREE, epochs=(1,))
    effects = replica.step(events.Tick(), 2_000)
    assert isinstance(replica.role, Prospective)
    assert effects.election is None
    assert [message.to for message in sends(effects, m.VoteRequest)] == [2, 3]
    assert all(message.request.pre_vote for message in sends(effects, m.VoteRequest))  # type: ignore[union-attr]


def test_a_majority_of_pre_votes_makes_a_candidate_that_has_stored_its_own_vote() -> None:
    replica = node(1, THREE)
    (first, _) = sends(replica.step(events.Tick(), 2_000), m.VoteRequest)
    effects = replica.step(events.ResponseReceived(first.correlation, m.VoteResponse(LeaderHint(), True)), 2_001)
    assert isinstance(replica.role, Candidate)
    assert effects.election == ElectionState(1, -1, key_of(1))
    assert not any(message.request.pre_vote for message in sends(effects, m.VoteRequest))  # type: ignore[union-attr]


def test_a_peer_too_old_for_pre_votes_is_no_obstacle() -> None:
    replica = node(1, THREE)
    (first, _) = sends(replica.step(events.Tick(), 2_000), m.VoteRequest)
    replica.step(events.ResponseReceived(first.correlation, m.VoteResponse(LeaderHint(), error=ErrorCode.UNSUPPORTED_VERSION)), 2_001)
    assert isinstance(replica.role, Candidate)


def test_a_new_leader_writes_leader_change_first() -> None:
    replica = node(1, voters_of(1))
    effects = replica.step(events.Tick(), 0)
    (append,) = effects.log
    assert isinstance(append, Append)
    assert isinstance(append.batches[0].payload, LeaderChange)
    assert append.batches[0].voters == voters_of(1), "voters of the bootstrap checkpoint go into the log with the first leader"
    assert effects.high_watermark is None, "a sole voter counts its log only when it is synced"
    effects = replica.step(events.LogFlushed(replica.log.end_offset, 0), 0)
    assert effects.high_watermark == replica.log.end_offset


def test_a_new_leader_tells_where_it_listens_now() -> None:
    moved = voters_of(1).with_voter(voter_of(1, port=12345))
    replica = node(1, moved)
    effects = replica.step(events.Tick(), 0)
    (append,) = effects.log
    assert isinstance(append, Append)
    assert append.batches[0].voters == voters_of(1)


def test_a_leader_hands_out_records_before_its_own_sync_and_commits_only_after_it() -> None:
    replica = leader()
    fetch(replica, 2, replica.log.end_offset, replica.epoch, wait_ms=500)
    offset, effects = replica.append(replica.epoch, 1, "payload", 2_100)
    assert [type(stage).__name__ for stage in effects.stages()][:3] == ["Append", "Reply", "Flush"]
    fetch(replica, 2, offset + 1, replica.epoch, now_ms=2_101)
    assert replica.log.high_watermark <= offset
    replica.step(events.LogFlushed(offset + 1, replica.log.generation), 2_102)
    assert replica.log.high_watermark == offset + 1


def test_an_old_sync_says_nothing_about_what_was_written_after_a_truncation() -> None:
    replica = follower(epochs=(1, 1, 1))
    generation = replica.log.generation
    replica._q.truncate(1)
    replica._q.append(Batch(1, 2, 5))
    replica.step(events.LogFlushed(3, generation), 1)
    assert replica.log.flushed_end == 1


def test_a_follower_stands_when_its_leader_is_silent() -> None:
    replica = follower()
    replica.step(events.Tick(), 1_900)
    assert isinstance(replica.role, Follower)
    replica.step(events.Tick(), 2_100)
    assert isinstance(replica.role, Prospective)


def test_a_follower_stands_soon_when_the_port_of_its_leader_refuses() -> None:
    replica = node(1, THREE)
    (message,) = sends(ask(replica, m.BeginQuorumEpochRequest(5, 2, voter_of(2).endpoints)), m.FetchRequest)
    replica.step(events.RequestFailed(message.correlation, refused=True), 10)
    assert replica.deadline_ms <= 160
    replica.step(events.Tick(), 161)
    assert isinstance(replica.role, Prospective)


def test_a_follower_stands_soon_when_its_leader_says_that_it_leads_no_more() -> None:
    replica = node(1, THREE)
    (message,) = sends(ask(replica, m.BeginQuorumEpochRequest(5, 2, voter_of(2).endpoints)), m.FetchRequest)
    resigned = m.FetchResponse(LeaderHint(2, 5, voter_of(2).endpoints), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    replica.step(events.ResponseReceived(message.correlation, resigned), 10)
    assert isinstance(replica.role, Follower)
    replica.step(events.Tick(), 161)
    assert isinstance(replica.role, Prospective)


def test_a_candidate_that_lost_stands_again_soon() -> None:
    replica = node(1, THREE)
    effects = replica.step(events.Tick(), 200)
    for message in sends(effects, m.VoteRequest)[:1]:
        effects = replica.step(events.ResponseReceived(message.correlation, m.VoteResponse(LeaderHint(epoch=0), True)), 200)
    assert isinstance(replica.role, Candidate)
    for message in sends(effects, m.VoteRequest):
        replica.step(events.ResponseReceived(message.correlation, m.VoteResponse(LeaderHint(epoch=1), False)), 210)
    assert isinstance(replica.role, Candidate)
    replica.step(events.Tick(), 361)
    assert isinstance(replica.role, Prospective)


def test_a_voter_that_starts_without_a_leader_asks_for_pre_votes_soon() -> None:
    replica = node(1, THREE)
    assert isinstance(replica.role, Unattached)
    replica.step(events.Tick(), 151)
    assert isinstance(replica.role, Prospective)


def test_a_follower_told_that_its_leader_resigns_stands_in_its_turn() -> None:
    first, second = follower(), follower()
    ask(first, m.EndQuorumEpochRequest(5, 2, (key_of(1), key_of(3))), 100)
    assert isinstance(first.role, Prospective)
    ask(second, m.EndQuorumEpochRequest(5, 2, (key_of(3), key_of(1))), 100)
    assert isinstance(second.role, Follower)
    assert second.role.fetch_until_ms == 600


# Starting again


def test_a_leader_that_restarts_has_resigned_and_leaves_the_epoch() -> None:
    replica = node(1, THREE, epochs=(4,), election=ElectionState(4, 1, key_of(1)))
    assert isinstance(replica.role, Resigned)
    assert replica.leader.leader_id == -1
    replica.step(events.Tick(), 2_000)
    assert replica.epoch == 5


def test_a_candidate_that_restarts_goes_on() -> None:
    replica = node(1, THREE, election=ElectionState(4, -1, key_of(1)))
    assert isinstance(replica.role, Candidate)
    assert replica.epoch == 4


def test_a_vote_from_another_directory_of_ours_is_not_a_candidacy() -> None:
    replica = node(1, THREE, election=ElectionState(4, -1, ReplicaKey(1, b"the wiped disk..")))
    assert isinstance(replica.role, Unattached)


def test_a_follower_that_restarts_follows() -> None:
    assert isinstance(node(1, THREE, election=ElectionState(4, 2)).role, Follower)


def test_an_epoch_only_the_log_knows_counts() -> None:
    replica = node(1, THREE, epochs=(6,), election=ElectionState(4, 2))
    assert isinstance(replica.role, Unattached)
    assert replica.epoch == 6


def test_a_sole_voter_leads_at_once_in_a_new_epoch() -> None:
    replica = node(1, voters_of(1), epochs=(3,), election=ElectionState(3, 1, key_of(1)))
    assert replica.is_leader
    assert replica.epoch == 4


# Replication


def test_the_high_watermark_needs_a_majority_and_this_epoch() -> None:
    replica = leader(epochs=(1, 1, 1))
    start = replica.role.epoch_start  # type: ignore[union-attr]
    assert start == 3
    fetch(replica, 2, 3, 1)
    assert replica.log.high_watermark == 0, "records of older epochs do not commit by counting"
    effects = fetch(replica, 2, replica.log.end_offset, replica.epoch)
    assert effects.high_watermark == replica.log.end_offset


def test_observers_never_count() -> None:
    replica = leader()
    fetch(replica, 9, replica.log.end_offset, replica.epoch)
    assert replica.log.high_watermark == 0


def test_a_voter_with_another_directory_does_not_count() -> None:
    replica = leader()
    ask(replica, m.FetchRequest(ReplicaKey(2, b"another director"), replica.epoch, replica.log.end_offset, replica.epoch), 2_001)
    assert replica.log.high_watermark == 0


def test_a_fetch_waits_for_records_and_is_answered_by_an_append() -> None:
    replica = leader()
    assert replies(fetch(replica, 2, replica.log.end_offset, replica.epoch, wait_ms=500)) == []
    _, effects = replica.append(replica.epoch, 2, "payload", 2_100)
    (answer,) = replies(effects)
    assert isinstance(answer, m.FetchResponse)
    assert answer.end_offset - answer.offset == 2


def test_a_fetch_that_does_not_know_the_high_watermark_is_answered_at_once() -> None:
    replica = leader()
    fetch(replica, 2, replica.log.end_offset, replica.epoch)
    assert replies(fetch(replica, 3, replica.log.end_offset, replica.epoch, wait_ms=500, hw=0)) != []
    assert replies(fetch(replica, 3, replica.log.end_offset, replica.epoch, wait_ms=500, hw=replica.log.high_watermark)) == []


def test_a_waiting_fetch_is_answered_when_its_time_is_up_or_leadership_is_lost() -> None:
    replica = leader()
    fetch(replica, 2, replica.log.end_offset, replica.epoch, wait_ms=500)
    assert len(replies(replica.step(events.Tick(), 2_600))) == 1
    fetch(replica, 2, replica.log.end_offset, replica.epoch, wait_ms=500, now_ms=2_600)
    answers = replies(ask(replica, vote(9, 3), 2_601))
    assert [answer.error for answer in answers if isinstance(answer, m.FetchResponse)] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


@pytest.mark.parametrize(("epoch", "error"), [(-1, ErrorCode.FENCED_LEADER_EPOCH), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)])
def test_a_fetch_of_another_epoch_is_refused(epoch: int, error: int) -> None:
    replica = leader()
    (answer,) = replies(ask(replica, m.FetchRequest(key_of(2), replica.epoch + epoch, 0, 0), 2_001))
    assert answer.error == error  # type: ignore[union-attr]


def test_a_diverging_log_is_told_where() -> None:
    replica = leader(epochs=(1, 1, 3, 3))
    (answer,) = replies(fetch(replica, 2, 4, 2))
    assert answer.diverging == OffsetAndEpoch(2, 1)  # type: ignore[union-attr]


def test_a_follower_truncates_to_where_the_logs_agree() -> None:
    replica = node(1, THREE, epochs=(1, 1, 2, 2))
    (message,) = sends(ask(replica, m.BeginQuorumEpochRequest(5, 2, voter_of(2).endpoints)), m.FetchRequest)
    effects = replica.step(
        events.ResponseReceived(message.correlation, m.FetchResponse(LeaderHint(2, 5), high_watermark=0, diverging=OffsetAndEpoch(3, 1))), 10
    )
    assert effects.log == (Truncate(2),)
    (again,) = sends(effects, m.FetchRequest)
    assert (again.request.offset, again.request.last_fetched_epoch) == (2, 1)  # type: ignore[union-attr]


def test_committed_records_are_never_truncated() -> None:
    replica = node(1, THREE, epochs=(1, 1, 2, 2))
    replica.log.high_watermark = 3
    (message,) = sends(ask(replica, m.BeginQuorumEpochRequest(5, 2, voter_of(2).endpoints)), m.FetchRequest)
    with pytest.raises(AssertionError, match="committed"):
        replica.step(events.ResponseReceived(message.correlation, m.FetchResponse(LeaderHint(2, 5), diverging=OffsetAndEpoch(3, 1))), 10)


def test_a_follower_appends_syncs_and_then_acknowledges() -> None:
    replica = node(1, THREE)
    (message,) = sends(ask(replica, m.BeginQuorumEpochRequest(5, 2, voter_of(2).endpoints)), m.FetchRequest)
    response = m.FetchResponse(LeaderHint(2, 5), high_watermark=9, batches=(Batch(0, 2, 5), Batch(3, 3, 5)))
    effects = replica.step(events.ResponseReceived(message.correlation, response), 10)
    assert [type(stage).__name__ for stage in effects.stages()] == ["Append", "Flush", "Send", "Apply"]
    assert effects.high_watermark == 4, "not more than we have"


@pytest.mark.parametrize("batches", [(Batch(1, 2, 5),), (Batch(0, 2, 6),), (Batch(0, 2, 5), Batch(4, 4, 5)), (Batch(0, 2, 5), Batch(3, 3, 4))])
def test_batches_that_do_not_continue_the_log_are_not_appended(batches: tuple[Batch, ...]) -> None:
    replica = node(1, THREE)
    (message,) = sends(ask(replica, m.BeginQuorumEpochRequest(5, 2, voter_of(2).endpoints)), m.FetchRequest)
    replica.step(events.ResponseReceived(message.correlation, m.FetchResponse(LeaderHint(2, 5), high_watermark=9, batches=batches)), 10)
    assert replica.log.end_offset == 0


def test_a_leader_without_a_majority_resigns() -> None:
    replica = leader()
    replica.step(events.Tick(), 4_999)
    assert replica.is_leader
    effects = replica.step(events.Tick(), 5_001)
    assert isinstance(replica.role, Resigned)
    assert {message.to for message in sends(effects, m.EndQuorumEpochRequest)} == {2, 3}


def test_only_the_leader_of_the_epoch_appends() -> None:
    with pytest.raises(NotLeader) as refused:
        follower().append(5, 1, "payload", 1)
    assert (refused.value.leader_id, refused.value.leader_epoch) == (2, 5)


# Voters


def committed_leader() -> RaftNode:
    replica = leader()
    fetch(replica, 2, replica.log.end_offset, replica.epoch)
    assert replica.log.high_watermark == replica.log.end_offset
    return replica


def test_a_voter_is_added_when_it_has_caught_up_and_the_new_set_has_committed() -> None:
    replica = committed_leader()
    fetch(replica, 4, replica.log.end_offset, replica.epoch)
    (probe,) = sends(ask(replica, m.AddVoterRequest(voter_of(4)), 2_010), m.ProbeVersionsRequest)
    effects = replica.step(events.ResponseReceived(probe.correlation, m.ProbeVersionsResponse(0, 1)), 2_020)
    assert replica.voters == voters_of(1, 2, 3, 4), "in effect when appended"
    assert replies(effects) == []
    end = replica.log.end_offset
    replica.step(events.LogFlushed(end, 0), 2_030)
    fetch(replica, 2, end, replica.epoch, now_ms=2_040)
    effects = fetch(replica, 4, end, replica.epoch, now_ms=2_050)
    assert [answer.error for answer in replies(effects) if isinstance(answer, m.VoterResponse)] == [ErrorCode.NONE]


def test_a_voter_that_lags_is_not_added() -> None:
    replica = committed_leader()
    (probe,) = sends(ask(replica, m.AddVoterRequest(voter_of(4)), 2_010), m.ProbeVersionsRequest)
    (answer,) = replies(replica.step(events.ResponseReceived(probe.correlation, m.ProbeVersionsResponse(0, 1)), 2_020))
    assert answer.error == ErrorCode.REQUEST_TIMED_OUT  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (m.AddVoterRequest(voter_of(2)), ErrorCode.DUPLICATE_VOTER),
        (m.AddVoterRequest(voter_of(4)._replace(endpoints=())), ErrorCode.INVALID_REQUEST),
        (m.AddVoterRequest(voter_of(4)._replace(key=ReplicaKey(4, bytes(16)))), ErrorCode.INVALID_REQUEST),
        (m.AddVoterRequest(voter_of(4)._replace(key=ReplicaKey(-1, b"another director"))), ErrorCode.INVALID_REQUEST),
        (m.RemoveVoterRequest(ReplicaKey(2, bytes(16))), ErrorCode.INVALID_REQUEST),
        (m.RemoveVoterRequest(key_of(9)), ErrorCode.VOTER_NOT_FOUND),
        (m.RemoveVoterRequest(ReplicaKey(2, b"another director")), ErrorCode.VOTER_NOT_FOUND),
        (m.UpdateVoterRequest(99, voter_of(2)), ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_changes_that_make_no_sense_are_refused(request_: m.Request, error: int) -> None:
    answers = replies(ask(committed_leader(), request_, 2_010))
    assert [answer.error for answer in answers] == [error]  # type: ignore[union-attr]


def test_there_is_one_change_at_a_time_and_none_before_the_epoch_has_committed() -> None:
    replica = leader()
    assert replies(ask(replica, m.RemoveVoterRequest(key_of(3)), 2_001))[0].error == ErrorCode.REQUEST_TIMED_OUT  # type: ignore[union-attr]
    replica = committed_leader()
    assert replies(ask(replica, m.RemoveVoterRequest(key_of(3)), 2_001)) == []
    assert replies(ask(replica, m.RemoveVoterRequest(key_of(2)), 2_001))[0].error == ErrorCode.REQUEST_TIMED_OUT  # type: ignore[union-attr]


def test_a_leader_that_removes_itself_does_not_count_itself_and_goes_when_it_is_committed() -> None:
    replica = committed_leader()
    ask(replica, m.RemoveVoterRequest(key_of(1)), 2_001)
    end = replica.log.end_offset
    replica.step(events.LogFlushed(end, 0), 2_002)
    fetch(replica, 2, end, replica.epoch, now_ms=2_003)
    assert replica.is_leader, "one of two is no majority"
    effects = fetch(replica, 3, end, replica.epoch, now_ms=2_004)
    assert isinstance(replica.role, Resigned)
    assert ErrorCode.NONE in [answer.error for answer in replies(effects) if isinstance(answer, m.VoterResponse)]


def test_voters_cannot_be_changed_under_kraft_version_0_until_it_is_raised() -> None:
    replica = node(1, voters_of(1), kraft_version=0)
    replica.step(events.Tick(), 0)
    replica.step(events.LogFlushed(replica.log.end_offset, 0), 0)
    assert replies(ask(replica, m.AddVoterRequest(voter_of(4))))[0].error == ErrorCode.UNSUPPORTED_VERSION  # type: ignore[union-attr]
    assert replies(ask(replica, m.UpdateVersionRequest(2)))[0].error == ErrorCode.INVALID_UPDATE_VERSION  # type: ignore[union-attr]
    ask(replica, m.UpdateVersionRequest(1))
    assert replica.log.history.kraft_version == 1
    effects = replica.step(events.LogFlushed(replica.log.end_offset, 0), 2)
    assert [answer.error for answer in replies(effects)] == [ErrorCode.NONE]  # type: ignore[union-attr]


# Snapshots


def test_a_follower_behind_the_log_is_sent_to_the_snapshot() -> None:
    replica = committed_leader()
    snapshot = OffsetAndEpoch(replica.log.end_offset, replica.epoch)
    replica.step(events.SnapshotCreated(snapshot), 2_010)
    (answer,) = replies(fetch(replica, 3, 0, 0, now_ms=2_020))
    assert answer.snapshot == snapshot  # type: ignore[union-attr]
    (piece,) = replies(ask(replica, m.FetchSnapshotRequest(key_of(3), replica.epoch, snapshot, 0), 2_030))
    assert piece.error == ErrorCode.NONE  # type: ignore[union-attr]
    (missing,) = replies(ask(replica, m.FetchSnapshotRequest(key_of(3), replica.epoch, OffsetAndEpoch(1, 1), 0), 2_030))
    assert missing.error == ErrorCode.SNAPSHOT_NOT_FOUND  # type: ignore[union-attr]


def test_a_downloaded_snapshot_replaces_the_log_and_brings_its_voters() -> None:
    replica = node(1, THREE)
    (message,) = sends(ask(replica, m.BeginQuorumEpochRequest(5, 2, voter_of(2).endpoints)), m.FetchRequest)
    snapshot = OffsetAndEpoch(100, 4)
    effects = replica.step(events.ResponseReceived(message.correlation, m.FetchResponse(LeaderHint(2, 5), snapshot=snapshot)), 10)
    for position, data in ((0, b"abc"), (3, b"de")):
        (part,) = sends(effects, m.FetchSnapshotRequest)
        response = m.FetchSnapshotResponse(LeaderHint(2, 5), 0, snapshot, position, 100, 5, data)
        effects = replica.step(events.ResponseReceived(part.correlation, response), 20)
    assert effects.log[0].last  # type: ignore[union-attr]
    assert sends(effects, m.FetchRequest) == [], "nothing is acknowledged while the disk works"
    effects = replica.step(events.SnapshotDownloaded(snapshot, voters_of(1, 2), 1), 30)
    assert (replica.log.start_offset, replica.log.end_offset, replica.log.high_watermark, replica.voters) == (100, 100, 100, voters_of(1, 2))
    (again,) = sends(effects, m.FetchRequest)
    assert (again.request.offset, again.request.last_fetched_epoch) == (100, 4)  # type: ignore[union-attr]


# Leaving


def test_a_leader_that_shuts_down_tells_the_voters_and_is_done_when_they_know() -> None:
    replica = committed_leader()
    effects = replica.step(events.ShutdownRequested(), 2_010)
    assert not replica.is_shut_down
    for message in sends(effects, m.EndQuorumEpochRequest):
        replica.step(events.ResponseReceived(message.correlation, m.EndQuorumEpochResponse(LeaderHint(epoch=replica.epoch))), 2_020)
    assert replica.is_shut_down


def test_whoever_does_not_lead_is_done_at_once() -> None:
    replica = follower()
    replica.step(events.ShutdownRequested(), 10)
    assert replica.is_shut_down
    assert replies(ask(replica, vote(9, 3), 11))[0].error == ErrorCode.BROKER_NOT_AVAILABLE  # type: ignore[union-attr]
