"""Changes of the voters and of kraft.version, one at a time."""

from __future__ import annotations

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.raft.core import events
from kraft.raft.core import messages as m
from kraft.raft.core.effects import Send
from kraft.raft.core.roles import Leader, Resigned
from kraft.raft.core.voter_set import ReplicaKey, Voter
from tests.unit.raft.builders import key_of, node, voter_of, voters_of
from tests.unit.raft.core.steps import THREE, ask, committed_leader, fetch, leader, replies, sends


def test_a_voter_is_added_once_it_caught_up_and_the_new_voter_set_is_committed() -> None:
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
def test_invalid_voter_changes_are_refused(request_: m.Request, error: int) -> None:
    answers = replies(ask(committed_leader(), request_, 2_010))
    assert [answer.error for answer in answers] == [error]  # type: ignore[union-attr]


def test_one_voter_change_runs_at_a_time_and_none_before_the_epoch_has_a_committed_record() -> None:
    replica = leader()
    assert replies(ask(replica, m.RemoveVoterRequest(key_of(3)), 2_001))[0].error == ErrorCode.REQUEST_TIMED_OUT  # type: ignore[union-attr]
    replica = committed_leader()
    assert replies(ask(replica, m.RemoveVoterRequest(key_of(3)), 2_001)) == []
    assert replies(ask(replica, m.RemoveVoterRequest(key_of(2)), 2_001))[0].error == ErrorCode.REQUEST_TIMED_OUT  # type: ignore[union-attr]


def test_a_leader_that_removes_itself_does_not_count_itself_and_resigns_after_the_commit() -> None:
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


@pytest.mark.parametrize("voter", [voter_of(2)._replace(key=ReplicaKey(2)), voter_of(2)._replace(endpoints=())])
def test_an_invalid_voter_in_an_update_request_is_refused_and_not_tracked(voter: Voter) -> None:
    replica = leader(kraft_version=0)
    (answer,) = replies(ask(replica, m.UpdateVoterRequest(replica.epoch, voter), 2_010))
    assert isinstance(answer, m.VoterResponse)
    assert answer.error == ErrorCode.INVALID_REQUEST
    assert isinstance(replica.role, Leader)
    assert replica.role.reported == {}


def test_a_voter_with_a_version_probe_in_flight_is_not_probed_again() -> None:
    replica = committed_leader()
    fetch(replica, 4, replica.log.end_offset, replica.epoch)
    (probe,) = sends(ask(replica, m.AddVoterRequest(voter_of(4), timeout_ms=50), 2_010), m.ProbeVersionsRequest)
    replica.step(events.Tick(), 2_070)  # Given up, though the question is at large.
    again = ask(replica, m.AddVoterRequest(voter_of(4), timeout_ms=50), 2_080)
    assert sends(again, m.ProbeVersionsRequest) == []
    assert [answer.error for answer in replies(again)] == [ErrorCode.REQUEST_TIMED_OUT]  # type: ignore[union-attr]
    replica.step(events.ResponseReceived(probe.correlation, m.ProbeVersionsResponse(0, 1)), 2_090)
    assert replica.voters == voters_of(1, 2, 3), "nobody waits for the answer"
    (probe,) = sends(ask(replica, m.AddVoterRequest(voter_of(4)), 2_100), m.ProbeVersionsRequest)
    replica.step(events.ResponseReceived(probe.correlation, m.ProbeVersionsResponse(0, 1)), 2_110)
    assert replica.voters == voters_of(1, 2, 3, 4)


@pytest.mark.parametrize("answered", [True, False])
def test_a_probe_response_of_one_node_does_not_complete_the_addition_of_another(answered: bool) -> None:
    replica = committed_leader()
    fetch(replica, 5, replica.log.end_offset, replica.epoch)
    (late,) = sends(ask(replica, m.AddVoterRequest(voter_of(4), timeout_ms=50), 2_010), m.ProbeVersionsRequest)
    replica.step(events.Tick(), 2_070)
    (probe,) = sends(ask(replica, m.AddVoterRequest(voter_of(5)), 2_080), m.ProbeVersionsRequest)
    outcome = (
        events.ResponseReceived(late.correlation, m.ProbeVersionsResponse(0, 1))
        if answered
        else events.RequestFailed(late.correlation)
    )
    assert replies(replica.step(outcome, 2_090)) == []
    assert replica.voters == voters_of(1, 2, 3)
    replica.step(events.ResponseReceived(probe.correlation, m.ProbeVersionsResponse(0, 1)), 2_100)
    assert replica.voters == voters_of(1, 2, 3, 5)


class Telling:
    """Node 1 of three under kraft.version 0. Every Fetch is answered with nothing new, and nothing else unless a
    test does it."""

    def __init__(self) -> None:
        self.replica = node(1, THREE, kraft_version=0)
        self.period_ms = 2 * self.replica._q.config.fetch_timeout_ms
        self.now_ms = 0
        self._unseen: list[Send] = []

    def hear(self, event: events.Event) -> None:
        self._unseen += sends(self.replica.step(event, self.now_ms), object)

    def follow(self, leader_id: int, epoch: int) -> None:
        self.hear(
            events.RequestReceived("token", m.BeginQuorumEpochRequest(epoch, leader_id, voter_of(leader_id).endpoints))
        )

    def answer(self, told: Send, error: int = ErrorCode.NONE) -> None:
        assert isinstance(told.request, m.UpdateVoterRequest)
        self.hear(
            events.ResponseReceived(told.correlation, m.VoterResponse(m.LeaderHint(told.to, told.request.epoch), error))
        )

    def told_in(self, periods: float) -> list[Send]:
        """What it tells of itself in the next two fetch timeouts, that many times."""
        told: list[Send] = []
        until_ms = self.now_ms + periods * self.period_ms
        while self.now_ms < until_ms:
            self.now_ms += 100
            self.hear(events.Tick())
            unseen, self._unseen = self._unseen, []
            for message in unseen:
                if isinstance(message.request, m.FetchRequest):
                    hint = m.LeaderHint(message.to, message.request.epoch)
                    self.hear(events.ResponseReceived(message.correlation, m.FetchResponse(hint, high_watermark=0)))
                elif isinstance(message.request, m.UpdateVoterRequest):
                    told.append(message)
        return told


def test_under_kraft_version_0_a_voter_sends_its_versions_until_the_leader_acknowledges_them() -> None:
    telling = Telling()
    telling.follow(2, 5)
    (lost,) = telling.told_in(1.1)
    telling.hear(events.RequestFailed(lost.correlation))
    (refused,) = telling.told_in(1)
    telling.answer(refused, ErrorCode.VOTER_NOT_FOUND)
    (unanswered,) = telling.told_in(1)
    (heard,) = telling.told_in(1)
    assert {message.to for message in (lost, refused, unanswered, heard)} == {2}
    telling.answer(heard)
    assert telling.told_in(5) == []
    telling.follow(3, 6)
    assert [message.to for message in telling.told_in(1.1)] == [3], "another leader has not heard"
