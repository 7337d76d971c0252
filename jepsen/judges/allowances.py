"""What may be lost, and only that.

With flush.messages=1, or while at least one in-sync replica keeps its power, nothing that was acknowledged may be
lost. Under default flush settings an acknowledged record may be lost if every replica that was in sync at its
acknowledgement lost power afterwards. What was only read, not acknowledged, may go in the same way: readers see a
record before it is synced. Unclean elections may take what they are told to have taken, of leader epochs before
their own (`elections`). All that is allowed is counted, record by record; everything else in the partition stays
under every rule.

Metadata is synced before it is acknowledged: nothing here concerns topics.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from jepsen.checker.history import History
from jepsen.checker.operations import INFO, OK, Commit, Committed, FinalRead, Operation, Partition, Poll, Send
from jepsen.history import PowerLoss, RunHistory, Sample
from jepsen.judges.elections import UNKNOWN, Elections
from jepsen.judges.ways import Record, Ways

LOST_AS_ALLOWED = "lost, as the promise allows"
SAMPLE_SLACK_SECONDS = 2.0
"""In-sync sets are sampled: one that was seen so near to an acknowledgement may have been in force."""
ROUND_SECONDS = 2.5
"""Within this time each of five nodes has been asked for the in-sync sets, one after the other."""


@dataclass(slots=True)
class Allowed:
    """Values of acknowledged records that were lost and may be, and those among them that a loss of power explains;
    how many reads of records that are gone were passed over; values that are there and need not be seen."""

    lost: list[str] = field(default_factory=list)
    by_power: set[str] = field(default_factory=set)
    reads: int = 0
    brought_back: set[str] = field(default_factory=set)


class Power:
    """Which nodes lost power when, and which replicas were in sync when. With fewer than `min_in_sync` of them
    nothing is acknowledged, where a partition has so many replicas."""

    def __init__(self, samples: list[Sample], losses: list[PowerLoss], min_in_sync: int) -> None:
        self._samples = samples
        self._losses = sorted(losses, key=lambda loss: loss.at)
        self._min_in_sync = min_in_sync

    def in_sync_sets(self, place: Partition, began: float, ended: float) -> Iterator[set[int]]:
        """Those that may have been in force and let a record be committed."""
        name = f"{place[0]}-{place[1]}"
        for sample in self._samples:
            if began - SAMPLE_SLACK_SECONDS <= sample.at <= ended + SAMPLE_SLACK_SECONDS and name in sample.partitions:
                _, _, in_sync, replicas = sample.partitions[name]
                if len(in_sync) >= min(self._min_in_sync, len(replicas)):
                    yield set(in_sync)

    def excuses(self, place: Partition, began: float, ended: float, until: float = math.inf) -> bool:
        """Whether power failed, later, until no replica of an in-sync set of that time had kept the record."""
        losses = [loss for loss in self._losses if began <= loss.at <= until]
        return bool(losses) and any(
            in_sync and self._all_lost(place, in_sync, losses) for in_sync in self.in_sync_sets(place, began, ended)
        )

    def _all_lost(self, place: Partition, in_sync: set[int], losses: list[PowerLoss]) -> bool:
        """Losses add up, but not for ever: a replica that is in sync again has copied the record from those that
        kept it."""
        lost: dict[int, float] = {}
        for loss in losses:
            for node, since in list(lost.items()):
                if self._is_in_sync_again(place, node, since, loss.at):
                    del lost[node]
            lost.update(dict.fromkeys(loss.nodes, loss.at))
            if in_sync <= lost.keys():
                return True
        return False

    def _is_in_sync_again(self, place: Partition, node: int, since: float, until: float) -> bool:
        """Whether a replica was seen to leave the in-sync set between two moments and to be in it again, for a whole
        round of the nodes that are asked: one alone may tell what is old."""
        name = f"{place[0]}-{place[1]}"
        has_left, again_since = False, math.inf
        for sample in self._samples:
            if since < sample.at < until and name in sample.partitions:
                if node not in sample.partitions[name][2]:
                    has_left, again_since = True, math.inf
                elif has_left:
                    again_since = min(again_since, sample.at)
                    if sample.at - again_since >= ROUND_SECONDS:
                        return True
        return False


def allow(run: RunHistory) -> Allowed:
    """Changes the run's operations: what is allowed to be lost becomes unknown, what was read of it was not read."""
    excuses = Allowances(run)
    allowed = Allowed(brought_back=excuses.brought_back(run))
    for send in run.operations.of(Send):
        if send.outcome != OK or send.ended is None or not excuses.is_gone(send.place, send.offset, send.values[0]):
            continue
        by_power = excuses.by_power(send)
        if by_power or excuses.by_election(send):
            allowed.lost.append(send.values[0])
            allowed.by_power.update(send.values[:by_power])
            send.outcome, send.offset, send.error = INFO, -1, LOST_AS_ALLOWED
    if run.power_losses or run.facts.unclean:
        excuses.kept = {
            send.values[0]: send.ended
            for send in run.operations.of(Send)
            if send.outcome == OK and send.ended is not None
        }
        ways = Ways(excuses.took, excuses.may_go_back)
        run.operations = History(each for operation in run.operations.operations for each in _reread(ways, operation))
        allowed.reads = ways.gone
    if not run.facts.flush:
        _allow_commits(run)
    return allowed


def _reread(ways: Ways, operation: Operation) -> list[Poll] | list[Operation]:
    return ways.of(operation) if isinstance(operation, Poll) else [operation]


class Allowances:
    """Says of each record, acknowledged or read, whether its loss is explained."""

    def __init__(self, run: RunHistory) -> None:
        self._flush = run.facts.flush
        self._power = Power(run.samples, run.power_losses, run.facts.min_in_sync)
        self._elections = Elections(run)
        self._final = {
            read.place: {offset: value for offset, value, _ in read.records} for read in run.operations.of(FinalRead)
        }
        self._epochs: dict[tuple[Partition, int, str], int] = {}
        for read in [*run.operations.of(Poll), *run.operations.of(FinalRead)]:
            for offset, value, epoch in read.records:
                known = (read.place, offset, value)
                if epoch >= 0:
                    self._epochs[known] = min(epoch, self._epochs.get(known, epoch))
        self._sent = {value: send.began for send in run.operations.of(Send) for value in send.values}
        self.kept: dict[str, float] = {}
        """Values that are acknowledged, and held to be: when that was."""

    def is_gone(self, place: Partition, offset: int, value: str) -> bool:
        """Whether it is not there in the end; of a partition that nobody read then, nobody knows."""
        return place in self._final and self._final[place].get(offset) != value

    def _epoch(self, place: Partition, offset: int, value: str) -> int:
        """Of a record, from whoever read it; what was sent twice may have been at one offset under two leaders: the
        earlier counts."""
        return self._epochs.get((place, offset, value), UNKNOWN)

    def by_power(self, send: Send) -> bool:
        return not self._flush and send.ended is not None and self._power.excuses(send.place, send.began, send.ended)

    def by_election(self, send: Send) -> bool:
        epoch = self._epoch(send.place, send.offset, send.values[0])
        return self._elections.took(send.place, send.offset, epoch, send.began)

    def brought_back(self, run: RunHistory) -> set[str]:
        """Values that one unclean election took and another brought back, after readers had been at their offsets
        under a leader in between.

        A consumer goes back to where its last record's epoch ends on the new leader (KIP-320), not to what had ended
        there before it began.
        """
        passed: dict[tuple[Partition, int], int] = {}
        for poll in run.operations.of(Poll) if run.facts.unclean else ():
            for offset, _, epoch in poll.records:
                passed[poll.place, offset] = max(epoch, passed.get((poll.place, offset), UNKNOWN))
        return {
            value
            for read in run.operations.of(FinalRead)
            for offset, value, epoch in read.records
            if passed.get((read.place, offset), UNKNOWN) > epoch and self._elections.after(read.place, epoch) > 1
        }

    def took(self, poll: Poll, record: Record) -> bool:
        """Whether a record that was read is gone, and may be.

        What was read at a leader that was lost, or before power was, may have been sent again, and be acknowledged
        at another place afterwards."""
        offset, value, _ = record
        if not self.is_gone(poll.place, offset, value):
            return False
        if self._elections.took(poll.place, offset, self._epoch(poll.place, offset, value)):
            return True
        acknowledged = self.kept.get(value, math.inf)
        return self._power.excuses(poll.place, self._written(poll, value), poll.ended or poll.began, until=acknowledged)

    def _written(self, poll: Poll, value: str) -> float:
        """From when on a record may have been in the log: a client gives records long after it fetched them, and
        after a power loss that came in between."""
        return min(poll.began, self._sent.get(value, poll.began))

    def may_go_back(self, poll: Poll, last: Record, by: Poll) -> bool:
        """Whether a reader that got `last` by one poll may be told by another that its position is beyond the end,
        and start over.

        What one unclean election took is gone for good, unless a second one brings it back; so is what was not
        synced, where all that is acknowledged is."""
        offset, value, _ = last
        gone = self.is_gone(poll.place, offset, value)
        elections = self._elections.after(poll.place, self._epoch(poll.place, offset, value))
        if elections > 1 or (elections and gone):
            return True
        until = by.ended or by.began
        return (gone or not self._flush) and self._power.excuses(
            poll.place, self._written(poll, value), poll.ended or poll.began, until=until
        )


def _allow_commits(run: RunHistory) -> None:
    """Committed offsets are records like others: those from before a power loss of a majority may be gone."""
    cuts = _losses_of_a_majority(run)
    if not cuts:
        return
    for commit in run.operations.of(Commit):
        _after_loss(commit, max(cuts))
    for read in run.operations.of(Committed):
        if read.began < max(cuts):
            read.outcome = INFO


def _after_loss(commit: Commit, lost_at: float) -> None:
    """Changes what a commit is to the time after a loss of power."""
    if commit.began < lost_at:
        if commit.ended is not None and commit.ended < lost_at:
            commit.may_be_gone = True
        else:
            commit.outcome = INFO


def _losses_of_a_majority(run: RunHistory) -> list[float]:
    return sorted(loss.at for loss in run.power_losses if len(loss.nodes) > 2)


def commits_between_losses(run: RunHistory) -> Iterator[History]:
    """What groups committed and were told up to the first loss of power that may take committed offsets, and from
    each to the next. What follows the last one remains in the run's own history."""
    if run.facts.flush:
        return
    since = -math.inf
    for until in _losses_of_a_majority(run):
        part: list[Operation] = []
        for commit in run.operations.of(Commit):
            if commit.began < until:
                copy = replace(commit)
                _after_loss(copy, since)
                if copy.ended is None or copy.ended >= until:
                    copy.outcome = INFO
                part.append(copy)
        part += [
            read
            for read in run.operations.of(Committed)
            if since <= read.began and read.ended is not None and read.ended < until
        ]
        yield History(part)
        since = until
