"""A leader: what it writes first, what counts as committed, how fetches are answered, when it gives up."""

from __future__ import annotations

import pytest

from kraft.common.errors import NotLeader
from kraft.common.ids import OffsetAndEpoch
from kraft.protocol.error_codes import ErrorCode
from kraft.raft.core import events
from kraft.raft.core import messages as m
from kraft.raft.core.effects import Append
from kraft.raft.core.leadership import FETCH_BYTES_MAX
from kraft.raft.core.payloads import LeaderChange
from kraft.raft.core.roles import OBSERVERS_MAX, Leader, Progress, Resigned
from kraft.raft.core.voter_set import ReplicaKey, Voter, VoterSet
from tests.unit.raft.builders import key_of, node, voter_of, voters_of
from tests.unit.raft.core.steps import ask, fetch, follower, leader, replies, sends, vote


def test_a_new_leader_first_appends_a_leader_change_record() -> None:
    replica = node(1, voters_of(1))
    effects = replica.step(events.Tick(), 0)
    (append,) = effects.log
    assert isinstance(append, Append)
    assert isinstance(append.batches[0].payload, LeaderChange)
    assert append.batches[0].voters == voters_of(1), (
        "voters of the bootstrap checkpoint go into the log with the first leader"
    )
    assert effects.high_watermark is None, "a sole voter counts its log only when it is synced"
    effects = replica.step(events.LogFlushed(replica.log.end_offset, 0), 0)
    assert effects.high_watermark == replica.log.end_offset


def test_a_new_leader_appends_its_changed_listeners() -> None:
    moved = voters_of(1).with_voter(voter_of(1, port=12345))
    replica = node(1, moved)
    effects = replica.step(events.Tick(), 0)
    (append,) = effects.log
    assert isinstance(append, Append)
    assert append.batches[0].voters == voters_of(1)


def test_a_leader_serves_records_before_its_own_sync_and_commits_them_only_after_it() -> None:
    replica = leader()
    fetch(replica, 2, replica.log.end_offset, replica.epoch, wait_ms=500)
    offset, effects = replica.append(replica.epoch, 1, "payload", 2_100)
    assert [type(stage).__name__ for stage in effects.stages()][:3] == ["Append", "Reply", "Flush"]
    fetch(replica, 2, offset + 1, replica.epoch, now_ms=2_101)
    assert replica.log.high_watermark <= offset
    replica.step(events.LogFlushed(offset + 1, replica.log.generation), 2_102)
    assert replica.log.high_watermark == offset + 1


def test_the_high_watermark_needs_a_majority_and_a_record_of_the_current_epoch() -> None:
    replica = leader(epochs=(1, 1, 1))
    start = replica.role.epoch_start  # type: ignore[union-attr]
    assert start == 3
    fetch(replica, 2, 3, 1)
    assert replica.log.high_watermark == 0, "records of older epochs do not commit by counting"
    effects = fetch(replica, 2, replica.log.end_offset, replica.epoch)
    assert effects.high_watermark == replica.log.end_offset


def test_observers_do_not_count_towards_the_high_watermark() -> None:
    replica = leader()
    fetch(replica, 9, replica.log.end_offset, replica.epoch)
    assert replica.log.high_watermark == 0


def test_the_leader_tracks_all_voters_but_only_the_latest_observers() -> None:
    replica = leader()
    fetch(replica, 2, replica.log.end_offset, replica.epoch, now_ms=2_001)
    for each in range(2 * OBSERVERS_MAX):
        key = ReplicaKey(1_000 + each, bytes(16))
        ask(replica, m.FetchRequest(key, replica.epoch, 0, 0), 2_002 + each)
    assert isinstance(replica.role, Leader)
    kept = [key.id for key in replica.role.progress]
    assert kept == [2, *range(1_000 + OBSERVERS_MAX, 1_000 + 2 * OBSERVERS_MAX)], "voters, and the latest others"


def test_a_voter_known_only_by_id_is_tracked_with_its_latest_directory() -> None:
    replica = node(1, VoterSet([Voter(ReplicaKey(1))]), kraft_version=0)
    replica.step(events.Tick(), 0)
    role = replica.role
    assert isinstance(role, Leader)
    static = VoterSet(Voter(ReplicaKey(each)) for each in (1, 2, 3))
    for each in range(50):
        role.progress_of(ReplicaKey(2, bytes([1, each]) + bytes(14)), static).fetched_ms = each
    assert [progress.fetched_ms for progress in role.progress.values()] == [49]
    assert role.progress_of_voter(ReplicaKey(2)) is role.progress_of(ReplicaKey(2, bytes([1, 49]) + bytes(14)), static)


def test_the_parked_fetch_of_an_evicted_observer_is_completed() -> None:
    replica = leader()
    end, answered = replica.log.end_offset, 0
    for each in range(OBSERVERS_MAX + 5):
        key = ReplicaKey(1_000 + each, bytes(16))
        request = m.FetchRequest(key, replica.epoch, end, replica.epoch, -1, 1 << 30)
        answered += len(replies(ask(replica, request, 2_001)))
    assert isinstance(replica.role, Leader)
    assert (len(replica.role.parked), answered) == (OBSERVERS_MAX, 5)


def test_the_bytes_of_one_fetch_response_are_limited_whatever_the_request() -> None:
    replica = leader()
    for wanted, given in (((1 << 31) - 1, FETCH_BYTES_MAX), (1_000, 1_000)):
        request = m.FetchRequest(key_of(2), replica.epoch, 0, 0, -1, 0, wanted)
        (answer,) = replies(ask(replica, request, 2_001))
        assert isinstance(answer, m.FetchResponse)
        assert answer.max_bytes == given


def test_a_voter_with_another_directory_does_not_count_towards_the_high_watermark() -> None:
    replica = leader()
    ask(
        replica,
        m.FetchRequest(ReplicaKey(2, b"another director"), replica.epoch, replica.log.end_offset, replica.epoch),
        2_001,
    )
    assert replica.log.high_watermark == 0


def test_a_parked_fetch_is_completed_by_an_append() -> None:
    replica = leader()
    assert replies(fetch(replica, 2, replica.log.end_offset, replica.epoch, wait_ms=500)) == []
    _, effects = replica.append(replica.epoch, 2, "payload", 2_100)
    (answer,) = replies(effects)
    assert isinstance(answer, m.FetchResponse)
    assert answer.end_offset - answer.offset == 2


def test_a_fetch_with_an_outdated_high_watermark_is_answered_immediately() -> None:
    replica = leader()
    fetch(replica, 2, replica.log.end_offset, replica.epoch)
    assert replies(fetch(replica, 3, replica.log.end_offset, replica.epoch, wait_ms=500, hw=0)) != []
    assert (
        replies(fetch(replica, 3, replica.log.end_offset, replica.epoch, wait_ms=500, hw=replica.log.high_watermark))
        == []
    )


def test_a_parked_fetch_is_completed_by_its_timeout_or_by_loss_of_leadership() -> None:
    replica = leader()
    fetch(replica, 2, replica.log.end_offset, replica.epoch, wait_ms=500)
    assert len(replies(replica.step(events.Tick(), 2_600))) == 1
    fetch(replica, 2, replica.log.end_offset, replica.epoch, wait_ms=500, now_ms=2_600)
    answers = replies(ask(replica, vote(9, 3), 2_601))
    assert [answer.error for answer in answers if isinstance(answer, m.FetchResponse)] == [
        ErrorCode.NOT_LEADER_OR_FOLLOWER
    ]


@pytest.mark.parametrize(("epoch", "error"), [(-1, ErrorCode.FENCED_LEADER_EPOCH), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)])
def test_a_fetch_of_another_epoch_is_refused(epoch: int, error: int) -> None:
    replica = leader()
    (answer,) = replies(ask(replica, m.FetchRequest(key_of(2), replica.epoch + epoch, 0, 0), 2_001))
    assert answer.error == error  # type: ignore[union-attr]


def test_a_fetch_with_a_diverging_log_gets_the_diverging_epoch() -> None:
    replica = leader(epochs=(1, 1, 3, 3))
    (answer,) = replies(fetch(replica, 2, 4, 2))
    assert answer.diverging == OffsetAndEpoch(2, 1)  # type: ignore[union-attr]


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


@pytest.mark.parametrize(("offset", "epoch"), [(-1, 1), (-(1 << 63), 1), (0, -1)])
def test_a_fetch_before_the_log_start_is_refused(offset: int, epoch: int) -> None:
    replica = leader()
    (answer,) = replies(fetch(replica, 2, offset, epoch))
    assert answer.error == ErrorCode.INVALID_REQUEST  # type: ignore[union-attr]
    assert replica.log.high_watermark == 0


def test_a_follower_offset_beyond_the_leaders_log_fails_an_assertion() -> None:
    progress = Progress(ReplicaKey(2, b""))
    progress.fetched(3, 3, 10)
    with pytest.raises(AssertionError, match="acknowledges 4 of 3"):
        progress.fetched(4, 3, 11)


def test_a_sync_beyond_the_log_end_fails_an_assertion() -> None:
    replica = leader()
    with pytest.raises(AssertionError, match="the log is shorter"):
        replica.step(events.LogFlushed(replica.log.end_offset + 1, replica.log.generation), 2_001)


def test_committing_an_older_epoch_by_counting_replicas_fails_an_assertion(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted defect (figure 8 of the Raft paper)."""
    monkeypatch.setattr("kraft.raft.core.leadership.may_commit", lambda q, leader, candidate: candidate > 0)
    replica = leader(epochs=(1, 1, 1))
    with pytest.raises(AssertionError, match="3 of an older epoch would commit by counting"):
        fetch(replica, 2, 3, 1)
