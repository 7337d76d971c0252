"""The roles of a replica. Each class has only the state that its role needs. The epoch, the vote and the known leader
are in `ElectionState`, not here.

`TRANSITIONS` at the end of the file lists all transitions between roles; any other fails. docs/quorum-roles.md draws
it.

Only voters start elections. An observer is an Unattached or a Follower that is not in the voter set. Times are in ms of
the clock that `step` is given.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kraft.common.ids import OffsetAndEpoch
from kraft.raft.core.messages import FetchRequest, Request
from kraft.raft.core.voter_set import Endpoints, ReplicaKey, Voter, VoterSet

OBSERVERS_MAX = 1_000
"""Limit of observers that a leader keeps."""


class Unattached:
    """Has no reachable leader. A voter starts an election at `until_ms`."""

    __slots__ = ("until_ms",)
    name = "Unattached"

    def __init__(self, until_ms: int) -> None:
        self.until_ms = until_ms


class VoteCount:
    """A count of votes or pre-votes among the voters."""

    __slots__ = ("granted", "refused", "until_ms", "voters")

    def __init__(self, voters: Iterable[int], own_id: int, until_ms: int) -> None:
        self.voters = frozenset(voters)
        self.granted: set[int] = {own_id} & self.voters
        self.refused: set[int] = set()
        self.until_ms = until_ms

    def record(self, voter_id: int, granted: bool) -> None:
        if voter_id in self.voters:
            (self.granted if granted else self.refused).add(voter_id)
            (self.refused if granted else self.granted).discard(voter_id)

    @property
    def won(self) -> bool:
        return len(self.granted) > len(self.voters) // 2

    @property
    def lost(self) -> bool:
        return len(self.voters) - len(self.refused) <= len(self.voters) // 2

    def unanswered(self) -> list[int]:
        return sorted(self.voters - self.granted - self.refused)


class Prospective(VoteCount):
    """Asks whether it would win an election, without raising the epoch (KIP-996). So a replica that was isolated
    disturbs no other when it returns."""

    __slots__ = ("leader_endpoints",)
    name = "Prospective"

    def __init__(self, voters: Iterable[int], own_id: int, until_ms: int, leader_endpoints: Endpoints) -> None:
        super().__init__(voters, own_id, until_ms)
        self.leader_endpoints = leader_endpoints  # Of the leader to return to, if the epoch has one.


class Candidate(VoteCount):
    """Has raised the epoch and voted for itself. Both are on disk before the first request leaves."""

    __slots__ = ()
    name = "Candidate"


class Download:
    """A snapshot being downloaded from the leader. `position` is the number of bytes passed to the disk. `done` means
    that all bytes are received, and the disk is still writing them."""

    __slots__ = ("done", "position", "snapshot")

    def __init__(self, snapshot: OffsetAndEpoch) -> None:
        self.snapshot = snapshot
        self.position = 0
        self.done = False


class Follower:
    """Fetches from a leader."""

    __slots__ = (
        "caught_up",
        "download",
        "fetch_until_ms",
        "has_fetched",
        "join_at_ms",
        "leader_endpoints",
        "leader_id",
        "seek_elsewhere",
        "update_voter_at_ms",
    )
    name = "Follower"

    def __init__(
        self,
        leader_id: int,
        leader_endpoints: Endpoints,
        fetch_until_ms: int,
        update_voter_at_ms: int,
        join_at_ms: int,
    ) -> None:
        self.leader_id = leader_id
        self.leader_endpoints = leader_endpoints
        self.fetch_until_ms = fetch_until_ms  # A voter that gets no response until then starts an election.
        self.has_fetched = False  # From this leader in this epoch. While True, it grants no pre-vote.
        self.seek_elsewhere = False  # The leader did not respond: ask another replica for the leader.
        self.download: Download | None = None
        # When to send the leader this replica's endpoints, if its voter set has others.
        self.update_voter_at_ms = update_voter_at_ms
        self.caught_up = False  # Has had all records that this leader reported as committed.
        self.join_at_ms = join_at_ms  # When to ask the leader to be a voter, if `auto_join` is set.


class Progress:
    """The leader's state of another replica, from its Fetches in this epoch. FollowerState in
    `kraft.replication.isr_policy` is the counterpart for topic partitions."""

    __slots__ = ("caught_up_ms", "end_offset", "fetched_ms", "key", "last_fetch_leader_end")

    def __init__(self, key: ReplicaKey) -> None:
        self.key = key
        # The offset of its last Fetch, which acknowledges everything before it; -1 before its first Fetch.
        # -1 <= end_offset <= the leader's log end offset.
        self.end_offset = -1
        # When it last sent any Fetch or FetchSnapshot, a diverging one included; -1 before.
        self.fetched_ms = -1
        # When it last had all of the leader's log; -1 before. caught_up_ms <= fetched_ms.
        self.caught_up_ms = -1
        # The leader's log end offset at its last Fetch; -1 before its first.
        self.last_fetch_leader_end = -1

    def fetched(self, offset: int, leader_end: int, now_ms: int) -> None:
        """Record a Fetch at `offset`. A replica was caught up at its previous Fetch if it now has the leader's log end
        of that time."""
        assert 0 <= offset <= leader_end, f"{self.key} acknowledges {offset} of {leader_end}"
        if offset >= leader_end:
            self.caught_up_ms = now_ms
        elif self.last_fetch_leader_end >= 0 and offset >= self.last_fetch_leader_end:
            self.caught_up_ms = self.fetched_ms
        self.end_offset = offset
        self.fetched_ms = now_ms
        self.last_fetch_leader_end = leader_end


class ParkedFetch:
    """A Fetch that waits for records or a new high watermark."""

    __slots__ = ("request", "token", "until_ms")

    def __init__(self, token: object, request: FetchRequest, until_ms: int) -> None:
        self.token = token
        self.request = request
        self.until_ms = until_ms


class VoterChange:
    """The change of voters in progress, of which there is at most one. `offset` is the offset of its record, or -1
    while the new voter is asked for its versions."""

    __slots__ = ("offset", "request", "responded", "token", "until_ms", "voter")

    def __init__(self, token: object, request: Request, until_ms: int, voter: Voter | None = None) -> None:
        self.token = token
        self.request = request
        self.until_ms = until_ms
        self.voter = voter
        self.offset = -1
        self.responded = False


class Leader:
    """Has a majority's votes for its epoch. Its first record is LEADER_CHANGE at `epoch_start`. Nothing commits before
    that record commits (thesis section 3.6.2)."""

    __slots__ = (
        "begin_sent_ms",
        "epoch_start",
        "high_watermark",
        "parked",
        "progress",
        "reported",
        "since_ms",
        "voter_change",
    )
    name = "Leader"

    def __init__(self, epoch_start: int, now_ms: int) -> None:
        self.epoch_start = epoch_start
        self.since_ms = now_ms
        self.high_watermark = -1  # Known only once a record of this epoch has committed.
        self.progress: dict[ReplicaKey, Progress] = {}
        self.begin_sent_ms: dict[int, int] = {}
        self.parked: dict[ReplicaKey, ParkedFetch] = {}
        self.voter_change: VoterChange | None = None
        # From UpdateVoter under kraft.version 0: identities that an upgrade to 1 needs.
        self.reported: dict[int, Voter] = {}

    def progress_of(self, replica: ReplicaKey, voters: VoterSet) -> Progress:
        """Return the progress of the fetcher, created at its first Fetch.

        At OBSERVERS_MAX fetchers, the observer that was silent for longest is removed. Of a voter known by its id
        alone, only the latest directory is kept.
        """
        progress = self.progress.get(replica)
        if progress is None:
            if voters.contains(replica):
                for key in [key for key in self.progress if key.id == replica.id and voters.contains(key)]:
                    self._forget(key)
            if len(self.progress) >= OBSERVERS_MAX:
                self._forget_observer(voters)
            progress = self.progress[replica] = Progress(replica)
        return progress

    def _forget_observer(self, voters: VoterSet) -> None:
        observers = [each for each in self.progress.values() if not voters.contains(each.key)]
        if len(observers) >= OBSERVERS_MAX:
            self._forget(min(observers, key=lambda each: each.fetched_ms).key)

    def _forget(self, key: ReplicaKey) -> None:
        """Remove a fetcher's progress, and complete its parked Fetch: only known fetchers may have one."""
        del self.progress[key]
        if key in self.parked:
            self.parked[key].until_ms = 0

    def progress_of_voter(self, voter: ReplicaKey) -> Progress | None:
        """Return the progress of a voter. A voter without a known directory id (kraft.version 0) is found by its id; if
        there are several, the latest fetcher counts."""
        exact = self.progress.get(voter)
        if exact is not None or any(voter.directory_id):
            return exact
        return max(
            (p for key, p in self.progress.items() if key.id == voter.id), key=lambda p: p.fetched_ms, default=None
        )


class Resigned:
    """Led this epoch and may not lead it again. It notifies the voters, waits for an election timeout, then leaves the
    epoch."""

    __slots__ = ("preferred", "unacknowledged", "until_ms")
    name = "Resigned"

    def __init__(self, until_ms: int, unacknowledged: Iterable[int], preferred: tuple[ReplicaKey, ...]) -> None:
        self.until_ms = until_ms
        self.unacknowledged: dict[int, None] = dict.fromkeys(unacknowledged)
        self.preferred = preferred


Role = Unattached | Prospective | Candidate | Leader | Resigned | Follower


class Transition(NamedTuple):
    """One transition between roles, by their names, and its cause."""

    source: str
    target: str
    cause: str


TRANSITIONS: Final = (
    Transition("Unattached", "Unattached", "a higher epoch, a vote granted"),
    Transition("Unattached", "Prospective", "election timeout"),
    Transition("Unattached", "Follower", "a leader is known"),
    Transition("Unattached", "Candidate", "restart: it had voted for itself, or is the only voter"),
    Transition("Unattached", "Resigned", "restart: it had led the epoch"),
    Transition("Prospective", "Candidate", "a majority would vote for it"),
    Transition("Prospective", "Follower", "no majority, and a leader is known"),
    Transition("Prospective", "Unattached", "no majority, a higher epoch, a vote granted"),
    Transition("Candidate", "Leader", "a majority voted for it"),
    Transition("Candidate", "Prospective", "election timeout"),
    Transition("Candidate", "Follower", "another leads"),
    Transition("Candidate", "Unattached", "a higher epoch"),
    Transition("Follower", "Follower", "another leads, in a higher epoch"),
    Transition("Follower", "Prospective", "fetch timeout, or the leader is gone"),
    Transition("Follower", "Unattached", "a higher epoch"),
    Transition("Follower", "Candidate", "restart: it is the only voter"),
    Transition("Leader", "Resigned", "no majority fetches, shutdown, removed from the voters"),
    Transition("Leader", "Follower", "another leads, in a higher epoch"),
    Transition("Leader", "Unattached", "a higher epoch"),
    Transition("Resigned", "Unattached", "election timeout, a higher epoch"),
    Transition("Resigned", "Follower", "another leads, in a higher epoch"),
    Transition("Resigned", "Candidate", "restart: it is the only voter"),
)
MOVES: Final = frozenset((transition.source, transition.target) for transition in TRANSITIONS)
