"""What must hold after every event, whatever the network and the disks do. One method a property."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kraft.raft.core.effects import Send
from kraft.raft.core.log_state import Batch
from kraft.raft.core.messages import FetchRequest, VoteRequest
from kraft.raft.core.voter_set import VoterSet

if TYPE_CHECKING:
    from tests.properties.raft_quorum.simulation import Replica, Simulation


class Violation(AssertionError):
    """An invariant does not hold."""


def require(condition: bool, message: str) -> None:
    if not condition:
        raise Violation(message)


class Invariants:
    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.leaders: dict[int, int] = {}
        self.votes: dict[tuple[int, int], int] = {}
        # By offset: epoch and value of every record that any replica has applied.
        self.committed: list[tuple[int, Any]] = []
        self.digests: list[int] = [0]
        self.committed_voters: VoterSet = simulation.bootstrap
        self.highest_leader: tuple[int, int] = (0, -1)

    def after_step(self, replica: Replica) -> None:
        self.epochs_never_fall(replica)
        self.high_watermarks_never_fall(replica)
        if replica.node.is_leader:
            self.one_leader_an_epoch(replica)
            self.leader_commits_only_what_a_majority_has(replica)
            self.one_voter_change_at_a_time(replica)

    def epochs_never_fall(self, replica: Replica) -> None:
        epoch = replica.node.epoch
        require(epoch >= replica.epoch_seen, f"epoch of {replica.id} fell from {replica.epoch_seen} to {epoch}")
        require(replica.disk.election.epoch <= epoch, f"{replica.id} forgot an epoch that it had stored")
        replica.epoch_seen = epoch

    def high_watermarks_never_fall(self, replica: Replica) -> None:
        high_watermark = replica.node.log.high_watermark
        require(
            high_watermark >= replica.high_watermark_seen, f"high watermark of {replica.id} fell to {high_watermark}"
        )
        require(high_watermark <= replica.node.log.end_offset, f"high watermark of {replica.id} is beyond its log")
        replica.high_watermark_seen = high_watermark

    def one_leader_an_epoch(self, replica: Replica) -> None:
        epoch = replica.node.epoch
        known = self.leaders.get(epoch)
        if known is None:
            self.leaders[epoch] = replica.id
            self.leader_is_complete(replica)
        require(known in (None, replica.id), f"two leaders in epoch {epoch}: {known} and {replica.id}")

    def leader_is_complete(self, replica: Replica) -> None:
        """Leader completeness (Raft figure 3), by the last committed record: the log matching property carries it to
        all before."""
        log, end = replica.node.log, len(self.committed)
        require(
            log.end_offset >= end,
            f"leader {replica.id} lacks committed records: ends at {log.end_offset}, committed {end}",
        )
        if end > log.start_offset:
            require(
                log.epoch_at(end - 1) == self.committed[end - 1][0],
                f"leader {replica.id} has another record at committed offset {end - 1}",
            )

    def leader_commits_only_what_a_majority_has(self, replica: Replica) -> None:
        epoch, high_watermark = replica.node.epoch, replica.node.role.high_watermark  # type: ignore[union-attr]  # Its role is Leader.
        if high_watermark < 0:
            return
        if epoch >= self.highest_leader[0]:
            require(
                high_watermark >= self.highest_leader[1],
                f"leader {replica.id} of epoch {epoch} lowered the high watermark to {high_watermark}",
            )
            if (epoch, high_watermark) == self.highest_leader:
                return
            self.highest_leader = (epoch, high_watermark)
        if high_watermark <= replica.majority_seen:
            return
        replica.majority_seen = high_watermark
        voters = replica.node.voters
        holders = sum(
            1 for node_id in voters.ids if self.simulation.replicas[node_id].disk.synced_end >= high_watermark
        )
        require(
            holders >= voters.majority,
            f"leader {replica.id} committed {high_watermark}, which only {holders} of {voters} have on disk",
        )

    def one_voter_change_at_a_time(self, replica: Replica) -> None:
        log = replica.node.log
        sets = log.history._sets
        if len(sets) > 1 and sets[-1][0] >= log.high_watermark:
            require(
                sets[-1][1].overlaps_majority(sets[-2][1]), f"voters {sets[-2][1]} and {sets[-1][1]} need not overlap"
            )
            require(
                sets[-2][0] < max(log.high_watermark, replica.node.role.epoch_start), "two changes of voters at once"
            )  # type: ignore[union-attr]

    def before_send(self, replica: Replica, message: Send) -> None:
        """A Fetch acknowledges only what is synced; a candidate's vote for itself is on disk."""
        request = message.request
        if isinstance(request, FetchRequest) and request.epoch == replica.node.epoch:
            require(
                replica.disk.synced_end >= request.offset,
                f"{replica.id} acknowledges {request.offset} but has synced {replica.disk.synced_end}",
            )
        elif isinstance(request, VoteRequest) and not request.pre_vote:
            self.vote_is_kept(replica, request.epoch, replica.id)

    def vote_is_kept(self, replica: Replica, epoch: int, candidate: int) -> None:
        """One vote an epoch, on disk before it is told."""
        known = self.votes.setdefault((epoch, replica.id), candidate)
        require(known == candidate, f"{replica.id} votes for {known} and {candidate} in epoch {epoch}")
        stored = replica.disk.election
        kept = stored.epoch > epoch or (
            stored.epoch == epoch and stored.voted is not None and stored.voted.id == candidate
        )
        require(kept, f"{replica.id} tells a vote in epoch {epoch} that is not on its disk: {stored}")

    def applied(self, replica: Replica, batch: Batch) -> None:
        """State machine safety (Raft figure 3): no two replicas apply different records at one offset."""
        for offset in range(batch.base_offset, batch.end_offset):
            record = (batch.epoch, batch.payload)
            if offset < len(self.committed):
                require(
                    self.committed[offset] == record,
                    f"{replica.id} applies {record} at {offset}, where {self.committed[offset]} is committed",
                )
            else:
                require(
                    offset == len(self.committed),
                    f"{replica.id} applies {offset} before anybody has applied {len(self.committed)}",
                )
                self.committed.append(record)
                self.digests.append(hash((self.digests[-1], batch.epoch, offset)))
        if batch.voters is not None and batch.end_offset == len(self.committed):
            require(
                batch.voters.overlaps_majority(self.committed_voters),
                f"voters {self.committed_voters} became {batch.voters}: majorities need not overlap",
            )
            self.committed_voters = batch.voters
