"""Defects that the property test must catch: each breaks one rule of Raft in one place.

A mutant that survives means that the simulation does not reach, or the invariants do not see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kraft.raft.core import following, leadership, raft_node, reconfiguration, voting
from kraft.raft.core.effects import Effects, Stage
from kraft.raft.core.election_state import ElectionState
from kraft.raft.core.epoch_allowance import EpochAllowance
from kraft.raft.core.log_state import LogState
from kraft.raft.core.quorum_state import QuorumState
from kraft.raft.core.roles import Leader
from kraft.raft.core.voter_set import ReplicaKey, VoterSetHistory

Mutant = Callable[[pytest.MonkeyPatch], None]


def vote_not_persisted(patch: pytest.MonkeyPatch) -> None:
    def grant_vote(self: QuorumState, candidate: ReplicaKey) -> None:
        self.election = self.election._replace(voted=candidate)

    patch.setattr(QuorumState, "grant_vote", grant_vote)


def votes_twice_in_an_epoch(patch: pytest.MonkeyPatch) -> None:
    def would_grant(q: QuorumState, request: voting.VoteRequest) -> bool:
        return voting.is_up_to_date(q, request) and not q.election.has_leader

    patch.setattr(voting, "would_grant", would_grant)


def votes_for_a_shorter_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(voting, "is_up_to_date", lambda q, request: True)


def compares_length_before_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        voting,
        "is_up_to_date",
        lambda q, request: (request.end_offset, request.last_epoch) >= (q.log.end_offset, q.log.last_epoch),
    )


def commits_old_epochs_by_counting(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        leadership,
        "may_commit",
        lambda q, leader, candidate: candidate > max(leader.high_watermark, q.log.high_watermark),
    )


def sends_before_sync(patch: pytest.MonkeyPatch) -> None:
    def stages(self: Effects) -> Iterator[Stage]:
        yield from (stage for stage in (self.election, *self.messages, *self.log, self.flush) if stage is not None)

    patch.setattr(Effects, "stages", stages)


def sends_before_storing_election(patch: pytest.MonkeyPatch) -> None:
    original = Effects.stages

    def stages(self: Effects) -> Iterator[Stage]:
        found = list(original(self))
        yield from (stage for stage in found if not isinstance(stage, ElectionState))
        yield from (stage for stage in found if isinstance(stage, ElectionState))

    patch.setattr(Effects, "stages", stages)


def truncates_committed_records(patch: pytest.MonkeyPatch) -> None:
    original = LogState.truncate_to

    def truncate_to(self: LogState, offset: int) -> None:
        self.high_watermark, kept = 0, self.high_watermark
        original(self, offset)
        self.high_watermark = min(kept, offset)

    def truncate_to_common(q: QuorumState, diverging: object) -> None:
        q.truncate(max(q.log.start_offset, q.log._starts[-1] if q.log._starts else 0))

    patch.setattr(LogState, "truncate_to", truncate_to)
    patch.setattr(following, "truncate_to_common", truncate_to_common)


def leader_counts_its_unsynced_log(patch: pytest.MonkeyPatch) -> None:
    original = leadership.replicated_end
    patch.setattr(
        leadership,
        "replicated_end",
        lambda q, leader, voter: q.log.end_offset if voter.matches(q.local) else original(q, leader, voter),
    )


def half_is_a_majority(patch: pytest.MonkeyPatch) -> None:
    def majority_offset(q: QuorumState, leader: Leader) -> int:
        offsets = sorted((leadership.replicated_end(q, leader, voter.key) for voter in q.voters.voters), reverse=True)
        return offsets[(len(offsets) - 1) // 2]

    patch.setattr(leadership, "majority_offset", majority_offset)


def observers_count(patch: pytest.MonkeyPatch) -> None:
    def majority_offset(q: QuorumState, leader: Leader) -> int:
        offsets = sorted(
            [q.log.flushed_end, *(progress.end_offset for progress in leader.progress.values())], reverse=True
        )
        return offsets[min(len(q.voters) // 2, len(offsets) - 1)] if len(offsets) > len(q.voters) // 2 else -1

    patch.setattr(leadership, "majority_offset", majority_offset)


def removed_leader_counts_itself(patch: pytest.MonkeyPatch) -> None:
    def majority_offset(q: QuorumState, leader: Leader) -> int:
        offsets = [leadership.replicated_end(q, leader, voter.key) for voter in q.voters.voters]
        if not q.is_voter:
            offsets[offsets.index(min(offsets))] = q.log.flushed_end
        return sorted(offsets, reverse=True)[len(offsets) // 2]

    patch.setattr(leadership, "majority_offset", majority_offset)


def voter_change_survives_truncation(patch: pytest.MonkeyPatch) -> None:
    def truncate_to(self: VoterSetHistory, end_offset: int) -> None:
        self._sets = [
            *self._sets[:1],
            *((min(offset, end_offset - 1), voters) for offset, voters in self._sets[1:][-1:]),
        ]

    patch.setattr(VoterSetHistory, "truncate_to", truncate_to)


def two_voter_changes_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reconfiguration, "has_change_under_way", lambda q, leader: False)


def restarted_leader_leads_on(patch: pytest.MonkeyPatch) -> None:
    original = raft_node.resume

    def resume(q: QuorumState) -> None:
        if q.election.leader_id == q.local.id and q.log.last_epoch <= q.epoch and q.is_voter:
            q.role = Leader(q.log.end_offset, q.now_ms)
        else:
            original(q)

    patch.setattr(raft_node, "resume", resume)


def appends_without_checking_the_offset(patch: pytest.MonkeyPatch) -> None:
    original = leadership.divergence

    def divergence(q: QuorumState, request: leadership.FetchRequest) -> leadership.FetchResponse | None:
        answer = original(q, request)
        return (
            None
            if answer is not None and answer.diverging is not None and request.offset <= q.log.end_offset
            else answer
        )

    patch.setattr(leadership, "divergence", divergence)


def follower_believes_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    def commit(self: QuorumState, high_watermark: int) -> None:
        if high_watermark > self.log.high_watermark:
            self.log.high_watermark = min(high_watermark, self.log.end_offset)
            self._effects_high_watermark = self.log.high_watermark

    def on_fetch_response(q: QuorumState, waiting: object, response: leadership.FetchResponse) -> None:
        q.commit(response.high_watermark)
        original(q, waiting, response)  # type: ignore[arg-type]

    original = following.on_fetch_response
    patch.setattr(QuorumState, "commit", commit)
    patch.setitem(raft_node.RESPONSE_HANDLERS, leadership.FetchRequest, on_fetch_response)


def high_watermark_may_fall(patch: pytest.MonkeyPatch) -> None:
    def commit(self: QuorumState, high_watermark: int) -> None:
        if high_watermark >= 0:
            self.log.high_watermark = high_watermark
            self._effects_high_watermark = high_watermark

    patch.setattr(QuorumState, "commit", commit)
    patch.setattr(leadership, "may_commit", lambda q, leader, candidate: candidate > leader.epoch_start)


def requests_may_name_any_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EpochAllowance, "admits_request", lambda self, own_epoch, claimed_epoch, now_ms: True)
    patch.setattr(EpochAllowance, "spend", lambda self, rise: None)


MUTANTS: tuple[Mutant, ...] = (
    vote_not_persisted,
    votes_twice_in_an_epoch,
    votes_for_a_shorter_log,
    compares_length_before_epoch,
    commits_old_epochs_by_counting,
    sends_before_sync,
    sends_before_storing_election,
    truncates_committed_records,
    leader_counts_its_unsynced_log,
    half_is_a_majority,
    observers_count,
    removed_leader_counts_itself,
    voter_change_survives_truncation,
    two_voter_changes_at_once,
    restarted_leader_leads_on,
    appends_without_checking_the_offset,
    follower_believes_the_high_watermark,
    high_watermark_may_fall,
)
