"""The state of one replica, the transitions between its roles, and the effects that a step collects. All parts of the
core work on one `QuorumState`, which is used nowhere else.

A transition that changes epoch, vote or known leader records the new `ElectionState` for persisting. There is no other
way to change them.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from kraft.common.ids import OffsetAndEpoch
from kraft.protocol.error_codes import ErrorCode
from kraft.raft.core.config import QuorumConfig
from kraft.raft.core.effects import NOTHING, Append, Effects, Flush, LogOperation, Message, Reply, Send, Truncate
from kraft.raft.core.election_state import NO_LEADER, ElectionState
from kraft.raft.core.epoch_allowance import EPOCH_MAX, EpochAllowance
from kraft.raft.core.log_state import Batch, LogState
from kraft.raft.core.messages import FetchResponse, LeaderHint, Request, Response, VoterResponse
from kraft.raft.core.roles import MOVES, Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from kraft.raft.core.voter_set import Endpoints, ReplicaKey, VoterSet

NEVER_MS = 1 << 62


class InFlight(NamedTuple):
    """A request that waits for its response."""

    to: int
    request: Request
    until_ms: int


class QuorumState:
    """The shared state of the core; see the module. `now_ms` is the time of the step in progress."""

    def __init__(
        self, config: QuorumConfig, log: LogState, election: ElectionState, rng: random.Random, now_ms: int
    ) -> None:
        self.config = config
        self.local = config.local
        self.log = log
        self.election = election
        self.now_ms = now_ms
        self.role: Role = Unattached(NEVER_MS)
        self.shutting_down = False
        self.refused_epochs = 0  # Number of implausible epochs named by other replicas.
        self._allowance = EpochAllowance(now_ms)
        self._rng = rng
        self._committed_told = False
        self._correlation = 0
        self._in_flight: dict[int, InFlight] = {}
        self._busy: dict[tuple[type[Request], int], int] = {}
        self._backoff: dict[tuple[type[Request], int], int] = {}
        self._effects_election: ElectionState | None = None
        self._effects_log: list[LogOperation] = []
        self._effects_flush: Flush | None = None
        self._effects_messages: list[Message] = []
        self._effects_high_watermark: int | None = None

    # Current state

    @property
    def epoch(self) -> int:
        return self.election.epoch

    @property
    def voters(self) -> VoterSet:
        return self.log.history.latest

    @property
    def is_voter(self) -> bool:
        return self.config.can_be_voter and self.voters.contains(self.local)

    @property
    def may_stand(self) -> bool:
        """Whether this replica may be elected: it is a voter, or its removal is in its log but not known to be
        committed.

        In the second case no other replica might have a log that long (thesis section 4.2.2).
        """
        if self.is_voter:
            return True
        history = self.log.history
        return (
            self.config.can_be_voter
            and history.latest_offset >= self.log.high_watermark
            and history.previous.contains(self.local)
        )

    @property
    def is_only_voter(self) -> bool:
        return self.config.can_be_voter and self.voters.is_only(self.local)

    def other_voters(self) -> list[int]:
        return [node_id for node_id in self.voters.ids if node_id != self.local.id]

    def endpoints_of(self, node_id: int) -> Endpoints:
        if node_id == self.local.id:
            return self.config.endpoints
        voter = self.voters.get(node_id)
        if voter is not None and voter.endpoints:
            return voter.endpoints
        return self.role.leader_endpoints if isinstance(self.role, Follower) and self.role.leader_id == node_id else ()

    def hint(self) -> LeaderHint:
        """Return the leader that this replica names in responses."""
        leader_id = self.election.leader_id
        return LeaderHint(
            leader_id, self.election.epoch, self.endpoints_of(leader_id) if leader_id != NO_LEADER else ()
        )

    def random_election_timeout_ms(self) -> int:
        return self.config.election_timeout_ms + self._rng.randrange(self.config.election_timeout_ms)

    def random_haste_ms(self) -> int:
        """Return a short random wait, used when no leader is known. It only prevents all voters from starting an
        election at the same moment."""
        return self._rng.randrange(self.config.haste_ms_max + 1)

    def random_below(self, bound: int) -> int:
        return self._rng.randrange(bound)

    # Epochs named by other replicas

    def take_claimed_epoch(self, epoch: int) -> bool:
        """Whether to accept the epoch of a request. If so, the rise is charged to the allowance.
        See `epoch_allowance`."""
        if not self._allowance.admits_request(self.epoch, epoch, self.now_ms):
            self.refused_epochs += 1
            return False
        self._allowance.spend(max(epoch - self.epoch, 0))
        return True

    def believes_answered_epoch(self, epoch: int) -> bool:
        """Whether to accept the epoch of a response. See `epoch_allowance`."""
        if self._allowance.admits_answer(self.epoch, epoch, self.now_ms):
            return True
        self.refused_epochs += 1
        return False

    # Transitions between roles

    def become_unattached(self, epoch: int, *, leader_id: int = NO_LEADER, in_haste: bool = False) -> None:
        """Enter a higher epoch, or stay in this one without a reachable leader. A vote given in this epoch stays. With
        `in_haste`, a pre-vote follows soon."""
        assert epoch >= self.epoch, "an epoch never falls"
        if epoch > self.epoch:
            self._persist(ElectionState(epoch, leader_id))
        elif leader_id != self.election.leader_id and leader_id != NO_LEADER:
            self._learn_leader(leader_id)
        self._enter(
            Unattached(self.now_ms + (self.random_haste_ms() if in_haste else self.random_election_timeout_ms()))
        )

    def become_follower(self, epoch: int, leader_id: int, endpoints: Endpoints) -> None:
        assert leader_id != self.local.id, "no replica follows itself"
        assert epoch >= self.epoch, "an epoch never falls"
        if epoch > self.epoch:
            self._persist(ElectionState(epoch, leader_id))
        elif leader_id != self.election.leader_id:
            self._learn_leader(leader_id)
        timeout_ms = self.config.fetch_timeout_ms
        self._enter(
            Follower(
                leader_id,
                endpoints or self.endpoints_of(leader_id),
                self.now_ms + timeout_ms,
                self.now_ms + 2 * timeout_ms,
                self.now_ms + timeout_ms,
            )
        )

    def become_prospective(self) -> None:
        assert self.may_stand, "only voters stand for election"
        endpoints = self.role.leader_endpoints if isinstance(self.role, Follower | Prospective) else ()
        self._enter(
            Prospective(self.voters.ids, self.local.id, self.now_ms + self.random_election_timeout_ms(), endpoints)
        )

    def become_candidate(self) -> None:
        assert self.may_stand, "only voters stand for election"
        self._persist(ElectionState(self.epoch + 1, NO_LEADER, self.local))
        self.resume_candidacy()

    def resume_candidacy(self) -> None:
        assert self.election.voted == self.local, "a candidate has voted for itself"
        self._enter(Candidate(self.voters.ids, self.local.id, self.now_ms + self.random_election_timeout_ms()))

    def become_leader(self) -> Leader:
        assert not self.election.has_leader, f"epoch {self.epoch} has a leader already"
        self._learn_leader(self.local.id)
        leader = Leader(self.log.end_offset, self.now_ms)
        self._enter(leader)
        return leader

    def become_resigned(self, preferred: tuple[ReplicaKey, ...] = ()) -> None:
        assert self.election.leader_id == self.local.id, "only the leader of an epoch resigns"
        self._enter(Resigned(self.now_ms + self.random_election_timeout_ms(), self.other_voters(), preferred))

    def grant_vote(self, candidate: ReplicaKey) -> None:
        """Vote for the candidate in this epoch. The response leaves only after the vote is on disk."""
        assert self.election.voted in (None, candidate), "one vote an epoch"
        self._persist(self.election._replace(voted=candidate))
        if isinstance(self.role, Unattached | Prospective):
            self._enter(Unattached(self.now_ms + self.random_election_timeout_ms()))

    def _learn_leader(self, leader_id: int) -> None:
        assert self.election.leader_id in (NO_LEADER, leader_id), (
            f"two leaders in epoch {self.epoch}: {self.election.leader_id} and {leader_id}"
        )
        self._persist(self.election._replace(leader_id=leader_id))

    def _persist(self, election: ElectionState) -> None:
        assert election.epoch <= EPOCH_MAX, (
            f"epoch {election.epoch} does not exist, {EPOCH_MAX} was the last: see `kraft docs lost-quorum`"
        )
        assert election.epoch >= self.epoch, f"epoch {self.epoch} would fall to {election.epoch}"
        if election.epoch == self.epoch:
            assert self.election.voted in (None, election.voted), (
                f"a second vote in epoch {self.epoch}: {self.election.voted} and {election.voted}"
            )
            assert self.election.leader_id in (NO_LEADER, election.leader_id), (
                f"a second leader in epoch {self.epoch}: {self.election.leader_id} and {election.leader_id}"
            )
        self.election = election
        self._effects_election = election

    def _enter(self, role: Role) -> None:
        left = self.role
        assert (left.name, role.name) in MOVES, f"a {left.name} does not become a {role.name}"
        self.role = role
        self._in_flight.clear()
        self._busy.clear()
        self._backoff.clear()
        if isinstance(left, Leader):
            self._release(left)

    def _release(self, leader: Leader) -> None:
        """Respond to the requests that wait on this replica as the leader, with an error: it no longer leads."""
        for parked in leader.parked.values():
            self.reply(parked.token, FetchResponse(self.hint(), ErrorCode.NOT_LEADER_OR_FOLLOWER))
        change = leader.voter_change
        if change is not None and not change.responded:
            self.reply(
                change.token,
                VoterResponse(
                    self.hint(),
                    ErrorCode.NOT_LEADER_OR_FOLLOWER,
                    "the leader changed before the voter change was committed",
                ),
            )

    # Requests to other replicas: at most one of a kind per peer is in flight

    def can_send(self, kind: type[Request], to: int) -> bool:
        return (kind, to) not in self._busy and self._backoff.get((kind, to), 0) <= self.now_ms

    def send(self, to: int, endpoints: Endpoints, request: Request) -> None:
        self._correlation += 1
        self._in_flight[self._correlation] = InFlight(to, request, self.now_ms + self.config.request_timeout_ms)
        self._busy[type(request), to] = self._correlation
        self._effects_messages.append(Send(to, endpoints, self._correlation, request))

    def answered(self, correlation: int) -> InFlight | None:
        """Remove and return the request with this correlation; None if the core no longer waits for it."""
        waiting = self._in_flight.pop(correlation, None)
        if waiting is not None:
            del self._busy[type(waiting.request), waiting.to]
        return waiting

    def back_off(self, waiting: InFlight) -> None:
        self.pause(type(waiting.request), waiting.to, self.config.retry_backoff_ms)

    def pause(self, kind: type[Request], to: int, pause_ms: int) -> None:
        """Send no request of this kind to this replica for `pause_ms`."""
        self._backoff[kind, to] = self.now_ms + pause_ms

    def timed_out(self) -> list[int]:
        return [correlation for correlation, waiting in self._in_flight.items() if waiting.until_ms <= self.now_ms]

    def requests_deadline_ms(self) -> int:
        """Return the time at which the next request times out or may be sent again."""
        waits = [waiting.until_ms for waiting in self._in_flight.values()]
        waits.extend(until for until in self._backoff.values() if until > self.now_ms)
        return min(waits, default=NEVER_MS)

    # Effects of the step in progress

    def reply(self, token: object, response: Response, *, epoch: int = -1) -> None:
        self._effects_messages.append(Reply(token, response, epoch))

    def append(self, *batches: Batch) -> None:
        for batch in batches:
            self.log.append(batch)
        self._effects_log.append(Append(batches))
        self._flush()

    def truncate(self, end_offset: int) -> None:
        self.log.truncate_to(end_offset)
        self._effects_log.append(Truncate(end_offset))
        self._flush()

    def start_from_snapshot(
        self, operation: LogOperation, snapshot: OffsetAndEpoch, voters: VoterSet, kraft_version: int
    ) -> None:
        self.log.start_from_snapshot(snapshot, voters, kraft_version)
        self._effects_log.append(operation)
        self._flush()
        self._effects_high_watermark = self.log.high_watermark

    def operate(self, operation: LogOperation) -> None:
        self._effects_log.append(operation)

    def commit(self, high_watermark: int) -> None:
        """Raise the high watermark. It never falls. The first value from a leader is reported even if it equals the
        current one."""
        if high_watermark > self.log.high_watermark or (
            high_watermark == self.log.high_watermark and not self._committed_told
        ):
            self._committed_told = True
            assert high_watermark <= self.log.end_offset, "what is committed is in the log"
            self.log.high_watermark = high_watermark
            self._effects_high_watermark = high_watermark

    def _flush(self) -> None:
        self._effects_flush = Flush(self.log.end_offset, self.log.generation)

    def take_effects(self) -> Effects:
        if (
            not self._effects_messages
            and not self._effects_log
            and self._effects_election is None
            and self._effects_high_watermark is None
        ):
            return NOTHING
        effects = Effects(
            election=self._effects_election,
            log=tuple(self._effects_log),
            flush=self._effects_flush,
            messages=tuple(self._effects_messages),
            high_watermark=self._effects_high_watermark,
        )
        self._effects_election = self._effects_flush = self._effects_high_watermark = None
        self._effects_log, self._effects_messages = [], []
        return effects
