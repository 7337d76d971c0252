"""A controller that observes the quorum and adds itself to its voters."""

from __future__ import annotations

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.raft.core import events
from kraft.raft.core import messages as m
from kraft.raft.core.effects import Send
from kraft.raft.core.log_state import Batch
from kraft.raft.core.payloads import Voters
from kraft.raft.core.voter_set import ReplicaKey, VoterSet
from tests.unit.raft.builders import node, voter_of, voters_of
from tests.unit.raft.core.steps import THREE, sends

LEADER, EPOCH = 2, 5
OLD_DISK = ReplicaKey(4, b"another director")
REPLACED = VoterSet([*THREE.voters, voter_of(4)._replace(key=OLD_DISK)])
PERIOD_MS = 2_000  # controller.quorum.fetch.timeout.ms


class Observer:
    """Node 4, which follows node 2. Every Fetch is answered with nothing new and this high watermark."""

    def __init__(self, voters: VoterSet = THREE, kraft_version: int = 1, **options: bool) -> None:
        self.replica = node(4, voters, kraft_version=kraft_version, **{"auto_join": True, **options})
        self.high_watermark = 0
        self.batches: tuple[Batch, ...] = ()
        self.now_ms = 0
        self._unseen: list[Send] = []
        self.hear(events.RequestReceived("token", m.BeginQuorumEpochRequest(EPOCH, LEADER, voter_of(LEADER).endpoints)))

    def hear(self, event: events.Event) -> None:
        self._unseen += sends(self.replica.step(event, self.now_ms), object)

    def answer(self, request: Send, error: int = ErrorCode.NONE) -> None:
        self.hear(events.ResponseReceived(request.correlation, m.VoterResponse(m.LeaderHint(), error)))

    def learn(self, voters: VoterSet) -> None:
        """Fetch a record with another voter set."""
        offset = self.replica.log.end_offset
        self.batches = (Batch(offset, offset, EPOCH, Voters(None, voters), voters),)

    def requests_until(self, until_ms: int) -> list[Send]:
        """The changes of the voters that it requests until then."""
        found: list[Send] = []
        while self.now_ms < until_ms:
            self.now_ms += 100
            self.hear(events.Tick())
            unseen, self._unseen = self._unseen, []
            for message in unseen:
                if isinstance(message.request, m.FetchRequest):
                    self.fetched(message)
                elif isinstance(message.request, m.AddVoterRequest | m.RemoveVoterRequest):
                    found.append(message)
        return found

    def fetched(self, fetch: Send) -> None:
        batches, self.batches = self.batches, ()
        hint = m.LeaderHint(LEADER, EPOCH)
        response = m.FetchResponse(hint, high_watermark=self.high_watermark, batches=batches)
        self.hear(events.ResponseReceived(fetch.correlation, response))


def test_an_observer_asks_the_leader_to_add_it_after_one_fetch_timeout() -> None:
    observer = Observer()
    assert observer.requests_until(PERIOD_MS - 100) == []
    (added,) = observer.requests_until(PERIOD_MS)
    assert (added.to, added.endpoints) == (LEADER, voter_of(LEADER).endpoints)
    assert added.request == m.AddVoterRequest(voter_of(4), timeout_ms=2_000, ack_when_committed=False)


def test_an_observer_that_lacks_committed_records_waits_until_it_has_them() -> None:
    observer = Observer()
    observer.high_watermark = 1
    assert observer.requests_until(5 * PERIOD_MS) == []
    observer.learn(THREE)
    assert len(observer.requests_until(5 * PERIOD_MS + 300)) == 1


def test_a_replaced_disk_first_removes_its_old_voter_and_then_adds_itself() -> None:
    observer = Observer(REPLACED)
    (removed,) = observer.requests_until(PERIOD_MS)
    assert removed.request == m.RemoveVoterRequest(OLD_DISK)
    observer.learn(THREE)
    observer.answer(removed)
    assert observer.requests_until(2 * PERIOD_MS - 100) == []
    (added,) = observer.requests_until(2 * PERIOD_MS)
    assert isinstance(added.request, m.AddVoterRequest)
    observer.learn(voters_of(1, 2, 3, 4))
    observer.answer(added)
    assert observer.requests_until(10 * PERIOD_MS) == [], "it is a voter"


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NONE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.DUPLICATE_VOTER,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ],
)
def test_a_request_that_did_not_make_it_a_voter_is_repeated_after_a_fetch_timeout(error: int) -> None:
    observer = Observer()
    (first,) = observer.requests_until(PERIOD_MS)
    observer.answer(first, error)
    assert observer.requests_until(2 * PERIOD_MS - 100) == []
    assert len(observer.requests_until(2 * PERIOD_MS)) == 1


def test_an_expected_refusal_starts_the_wait_anew() -> None:
    observer = Observer()
    (first,) = observer.requests_until(PERIOD_MS)
    observer.requests_until(PERIOD_MS + 1_000)
    observer.answer(first, ErrorCode.REQUEST_TIMED_OUT)
    assert observer.requests_until(2 * PERIOD_MS + 900) == []
    assert len(observer.requests_until(2 * PERIOD_MS + 1_000)) == 1


def test_a_request_without_response_is_repeated_once_it_has_timed_out() -> None:
    observer = Observer()
    assert len(observer.requests_until(PERIOD_MS)) == 1
    assert len(observer.requests_until(2 * PERIOD_MS + 200)) == 1


@pytest.mark.parametrize(
    ("voters", "kraft_version", "options"),
    [
        (THREE, 1, {"auto_join": False}),
        (THREE, 1, {"can_be_voter": False}),
        (THREE, 0, {}),
        (REPLACED, 1, {"auto_join": False}),
        (voters_of(1, 2, 3, 4), 1, {}),
    ],
    ids=["not enabled", "broker", "static quorum", "replaced, not enabled", "voter"],
)
def test_no_change_of_the_voters_is_requested(voters: VoterSet, kraft_version: int, options: dict[str, bool]) -> None:
    assert Observer(voters, kraft_version, **options).requests_until(5 * PERIOD_MS) == []


def test_a_voter_that_was_removed_asks_to_be_added_again() -> None:
    observer = Observer(voters_of(1, 2, 3, 4))
    assert observer.requests_until(PERIOD_MS) == []
    observer.learn(THREE)
    assert len(observer.requests_until(PERIOD_MS + 300)) == 1
