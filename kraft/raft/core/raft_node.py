"""`RaftNode`: one replica of the quorum as a state machine. Dispatch only; each concern has its module.

    effects = node.step(event, now_ms)      # then carry out effects.stages(), in order
    node.deadline_ms                        # step(Tick(), now) no later than this

The caller persists before it sends, in the order of `Effects`. Nothing changes between two steps. After an exception
the node must not be used again: its state must be read from disk again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from kraft.common.errors import NotLeader
from kraft.raft.core import auto_join, events, following, leadership, messages, reconfiguration, snapshots, voting
from kraft.raft.core.config import QuorumConfig
from kraft.raft.core.effects import Effects
from kraft.raft.core.election_state import NO_LEADER, ElectionState
from kraft.raft.core.log_state import LogState
from kraft.raft.core.messages import LeaderHint
from kraft.raft.core.quorum_state import NEVER_MS, InFlight, QuorumState
from kraft.raft.core.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from kraft.raft.core.voter_set import VoterSet

RequestHandler = Callable[[QuorumState, object, Any], None]
ResponseHandler = Callable[[QuorumState, InFlight, Any], None]

REQUEST_HANDLERS: dict[type, RequestHandler] = {
    messages.VoteRequest: voting.on_vote_request,
    messages.BeginQuorumEpochRequest: following.on_begin_request,
    messages.EndQuorumEpochRequest: following.on_end_request,
    messages.FetchRequest: leadership.on_fetch_request,
    messages.FetchSnapshotRequest: snapshots.on_fetch_snapshot_request,
    messages.AddVoterRequest: reconfiguration.on_add_voter,
    messages.RemoveVoterRequest: reconfiguration.on_remove_voter,
    messages.UpdateVoterRequest: reconfiguration.on_update_voter,
    messages.UpdateVersionRequest: reconfiguration.on_update_version,
}
RESPONSE_HANDLERS: dict[type, ResponseHandler] = {
    messages.VoteRequest: voting.on_vote_response,
    messages.BeginQuorumEpochRequest: leadership.on_begin_response,
    messages.EndQuorumEpochRequest: following.on_end_response,
    messages.FetchRequest: following.on_fetch_response,
    messages.FetchSnapshotRequest: snapshots.on_fetch_snapshot_response,
    messages.UpdateVoterRequest: following.on_update_response,
    messages.AddVoterRequest: auto_join.on_join_response,
    messages.RemoveVoterRequest: auto_join.on_join_response,
    messages.ProbeVersionsRequest: reconfiguration.on_probe_response,
}


class RaftNode:
    """One replica. `log` and `election` are the state found on disk; the node owns `log` from then on. The first
    effects are returned by the first `step`."""

    def __init__(
        self, config: QuorumConfig, log: LogState, election: ElectionState, rng: random.Random, now_ms: int
    ) -> None:
        self._q = QuorumState(config, log, election, rng, now_ms)
        self.deadline_ms = now_ms
        resume(self._q)

    # State for the driver and the tests

    @property
    def role(self) -> Role:
        return self._q.role

    @property
    def epoch(self) -> int:
        return self._q.election.epoch

    @property
    def election(self) -> ElectionState:
        return self._q.election

    @property
    def log(self) -> LogState:
        return self._q.log

    @property
    def voters(self) -> VoterSet:
        return self._q.voters

    @property
    def is_voter(self) -> bool:
        return self._q.is_voter

    @property
    def is_leader(self) -> bool:
        return isinstance(self._q.role, Leader)

    @property
    def leader(self) -> LeaderHint:
        """The leader, if it is known. A leader that has resigned does not count."""
        hint = self._q.hint()
        return hint._replace(leader_id=NO_LEADER, endpoints=()) if isinstance(self._q.role, Resigned) else hint

    @property
    def refused_epochs(self) -> int:
        """The number of messages since the start whose epoch was refused as implausible."""
        return self._q.refused_epochs

    @property
    def is_shut_down(self) -> bool:
        """Whether a requested shutdown is complete, so that the node may stop."""
        role = self._q.role
        return self._q.shutting_down and not (isinstance(role, Resigned) and role.unacknowledged)

    # Events

    def step(self, event: events.Event, now_ms: int) -> Effects:
        q = self._q
        q.now_ms = max(now_ms, q.now_ms)
        handle(q, event)
        self.deadline_ms = poll(q)
        return q.take_effects()

    def append(self, epoch: int, count: int, payload: object, now_ms: int) -> tuple[int, Effects]:
        """Append `count` records as one batch. `epoch` is the epoch that the caller believes to lead. Returns the first
        offset. Raises NotLeader."""
        q = self._q
        q.now_ms = max(now_ms, q.now_ms)
        if not isinstance(q.role, Leader) or q.epoch != epoch or q.shutting_down:
            raise NotLeader(f"node {q.local.id} does not lead epoch {epoch}", q.election.leader_id, q.epoch)
        batch = leadership.append(q, q.role, count, payload)
        self.deadline_ms = poll(q)
        return batch.base_offset, q.take_effects()


def resume(q: QuorumState) -> None:
    """Enter the initial role (KIP-595). A replica never leads again in an epoch that it led. It resumes a candidacy, or
    follows a known leader."""
    election = q.election
    if q.log.last_epoch > election.epoch:
        q.become_unattached(q.log.last_epoch, in_haste=True)
    elif election.leader_id == q.local.id:
        q.become_resigned()
    elif election.voted == q.local and q.may_stand and not election.has_leader:
        q.resume_candidacy()
    elif election.has_leader and q.endpoints_of(election.leader_id):
        q.become_follower(election.epoch, election.leader_id, q.endpoints_of(election.leader_id))
    else:
        q.become_unattached(election.epoch, in_haste=True)
    if q.is_only_voter:
        if not isinstance(q.role, Candidate):
            q.become_candidate()
        voting.count_votes(q)


def handle(q: QuorumState, event: events.Event) -> None:
    if isinstance(event, events.RequestReceived):
        REQUEST_HANDLERS[type(event.request)](q, event.token, event.request)
    elif isinstance(event, events.ResponseReceived):
        on_response(q, event)
    elif isinstance(event, events.RequestFailed):
        on_failed(q, event.correlation, event.refused)
    elif isinstance(event, events.LogFlushed):
        on_flushed(q, event)
    elif isinstance(event, events.SnapshotDownloaded):
        snapshots.on_snapshot_downloaded(q, event)
    elif isinstance(event, events.SnapshotDownloadFailed):
        snapshots.on_download_failed(q, event.snapshot)
    elif isinstance(event, events.SnapshotCreated):
        q.log.add_snapshot(event.snapshot)
    elif isinstance(event, events.LogStartAdvanced):
        q.log.advance_start(event.snapshot)
    elif isinstance(event, events.ResignRequested):
        if isinstance(q.role, Leader) and q.epoch == event.epoch:
            leadership.resign(q, q.role)
    elif isinstance(event, events.ShutdownRequested):
        if isinstance(q.role, Leader):
            leadership.resign(q, q.role)
        q.shutting_down = True
    for correlation in q.timed_out():
        on_failed(q, correlation, refused=False)


def on_response(q: QuorumState, event: events.ResponseReceived) -> None:
    waiting = q.answered(event.correlation)
    if waiting is None:
        return
    response = event.response
    if not isinstance(response, messages.ProbeVersionsResponse):
        if not q.believes_answered_epoch(response.hint.epoch):
            following.on_request_failed(q, waiting, refused=False)
            return
        if voting.on_leader_hint(q, response.hint):
            return
    RESPONSE_HANDLERS[type(waiting.request)](q, waiting, response)


def on_failed(q: QuorumState, correlation: int, refused: bool) -> None:
    waiting = q.answered(correlation)
    if waiting is None:
        return
    if isinstance(waiting.request, messages.ProbeVersionsRequest):
        reconfiguration.on_probe_failed(q, waiting)
    following.on_request_failed(q, waiting, refused)


def on_flushed(q: QuorumState, event: events.LogFlushed) -> None:
    """Count this replica's own log up to the flushed end. A flush that started before a truncation is ignored: it says
    nothing about later writes."""
    if event.generation == q.log.generation:
        assert event.end_offset <= q.log.end_offset, f"flushed to {event.end_offset}, and the log is shorter"
        q.log.flushed_end = max(q.log.flushed_end, event.end_offset)
        if isinstance(q.role, Leader):
            leadership.advance_high_watermark(q, q.role)


def poll(q: QuorumState) -> int:
    """Do everything that the time and the role require. Returns the time of the next check."""
    for _ in range(8):  # Unattached, Prospective, Candidate, Leader is the longest chain of transitions in one step.
        wake = poll_role(q, q.role)
        if wake > q.now_ms:
            return min(wake, max(q.requests_deadline_ms(), q.now_ms + 1))
    raise AssertionError(f"roles do not settle: {q.role.name} in epoch {q.epoch}")


def poll_role(q: QuorumState, role: Role) -> int:
    if q.shutting_down and not isinstance(role, Resigned):
        return NEVER_MS
    if isinstance(role, Follower):
        return following.poll_follower(q, role)
    if isinstance(role, Leader):
        return leadership.poll_leader(q, role)
    if isinstance(role, Unattached):
        wake = voting.poll_unattached_voter(q, role)
        return min(wake, following.poll_unattached(q)) if q.role is role else wake
    if isinstance(role, Prospective):
        return voting.poll_prospective(q, role)
    if isinstance(role, Candidate):
        return voting.poll_candidate(q, role)
    return following.poll_resigned(q, role)
