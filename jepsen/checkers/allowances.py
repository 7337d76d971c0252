"""What may be lost, and only that.

With flush.messages=1, or while at least one in-sync replica keeps its power, nothing that was acknowledged may be lost. Under default flush settings
an acknowledged record may be lost if every replica that was in sync at its acknowledgement lost power afterwards. What was only read, not
acknowledged, may go in the same way: readers see a record before it is synced. With unclean elections allowed, a partition may lose what it likes.
All that is allowed is counted.

Metadata is synced before it is acknowledged: nothing here concerns topics.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from jepsen.history import PowerLoss, RunHistory, Sample
from kraft.testing.checker.operations import INFO, OK, Commit, Committed, FinalRead, Partition, Poll, Send

SAMPLE_SLACK_SECONDS = 2.0
"""In-sync sets are sampled: one that was seen so near to an acknowledgement may have been in force."""


@dataclass(slots=True)
class Allowed:
    """Values of acknowledged records that were lost and may be; how many reads of records that are gone were passed over."""

    lost: list[str] = field(default_factory=list)
    reads: int = 0
    partitions: set[Partition] = field(default_factory=set)


class Power:
    """Which nodes lost power when, and which replicas were in sync when."""

    def __init__(self, samples: list[Sample], losses: list[PowerLoss]) -> None:
        self._samples = samples
        self._losses = losses

    def lost_since(self, moment: float) -> set[int]:
        return {node for loss in self._losses if loss.at >= moment for node in loss.nodes}

    def in_sync_sets(self, place: Partition, began: float, ended: float) -> Iterator[set[int]]:
        name = f"{place[0]}-{place[1]}"
        for sample in self._samples:
            if began - SAMPLE_SLACK_SECONDS <= sample.at <= ended + SAMPLE_SLACK_SECONDS and name in sample.partitions:
                yield set(sample.partitions[name][2])

    def excuses(self, place: Partition, began: float, ended: float) -> bool:
        """Whether every replica of an in-sync set of that time lost power later."""
        gone = self.lost_since(began)
        return bool(gone) and any(in_sync and in_sync <= gone for in_sync in self.in_sync_sets(place, began, ended))


def allow(run: RunHistory) -> Allowed:
    """Changes the run's operations: what is allowed to be lost becomes unknown."""
    allowed = Allowed()
    power = Power(run.samples, run.power_losses)
    final = {read.place: {offset: value for offset, value, _ in read.records} for read in run.operations.of(FinalRead)}
    for send in run.operations.of(Send):
        if send.outcome != OK or send.ended is None or send.place not in final or final[send.place].get(send.offset) == send.values[0]:
            continue
        if run.facts.unclean or (not run.facts.flush and power.excuses(send.place, send.began, send.ended)):
            allowed.lost.append(send.values[0])
            allowed.partitions.add(send.place)
            send.outcome, send.offset, send.error = INFO, -1, "lost, as the promise allows"
    kept = {send.values[0] for send in run.operations.of(Send) if send.outcome == OK}
    for poll in run.operations.of(Poll):
        if poll.place in final:
            _allow_reads(run, poll, final[poll.place], kept, power, allowed)
    _reposition(run, allowed)
    if not run.facts.flush:
        _allow_commits(run)
    return allowed


def _allow_reads(run: RunHistory, poll: Poll, log: dict[int, str], kept: set[str], power: Power, allowed: Allowed) -> None:
    elsewhere = run.facts.unclean  # What was read at a leader that was lost may have been sent again, and be acknowledged at another place.
    gone = [record for record in poll.records if log.get(record[0]) != record[1] and (elsewhere or record[1] not in kept)]
    if gone and (run.facts.unclean or power.excuses(poll.place, poll.began, poll.ended or poll.began)):
        poll.records = [record for record in poll.records if record not in gone]
        allowed.reads += len(gone)
        allowed.partitions.add(poll.place)


def _reposition(run: RunHistory, allowed: Allowed) -> None:
    """A reader whose position is gone starts anew, and no client tells that it did."""
    last: dict[tuple[str, Partition], int] = {}
    for poll in run.operations.of(Poll):
        if poll.place in allowed.partitions and poll.records:
            key = (poll.process, poll.place)
            if last.get(key, -1) + 1 != poll.records[0][0]:
                poll.repositioned = True
                poll.position = poll.records[0][0]
            last[key] = poll.records[-1][0]


def _allow_commits(run: RunHistory) -> None:
    """Committed offsets are records like others: those from before a power loss of a majority may be gone."""
    cuts = [loss.at for loss in run.power_losses if len(loss.nodes) > 2]
    if not cuts:
        return
    for operations in (run.operations.of(Commit), run.operations.of(Committed)):
        for operation in operations:
            if operation.began < max(cuts):
                operation.outcome = INFO
