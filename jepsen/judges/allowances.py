"""The losses that are allowed.

With flush.messages=1, or while at least one in-sync replica keeps its power, no acknowledged record may be lost. Under
default flush settings an acknowledged record may be lost if every replica that was in sync at its acknowledgement lost
power afterwards. A record that was read but not acknowledged may be lost in the same way: readers see a record before
it is synced. Unclean elections may lose what their reports say, of earlier leader epochs (`elections`). Each allowed
loss is counted; all other records of the partition stay under every rule.

Metadata is synced before it is acknowledged: topics are never lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from jepsen.checker.history import History
from jepsen.checker.operations import (
    INFO,
    OK,
    Acknowledged,
    Commit,
    Committed,
    FinalRead,
    Operation,
    Partition,
    Poll,
    Send,
    ShareStart,
)
from jepsen.history import PowerLoss, RunHistory, Sample
from jepsen.judges.elections import UNKNOWN, Elections
from jepsen.judges.ways import Record, Ways

LOST_AS_ALLOWED = "lost, as the promise allows"
SAMPLE_SLACK_SECONDS = 2.0
"""In-sync sets are sampled. A sample this close to an acknowledgement may have applied to it."""
ROUND_SECONDS = 2.5
"""Within this time each of the five nodes was asked for the in-sync sets, one after the other."""


@dataclass(slots=True)
class Allowed:
    """The allowed losses: the values of acknowledged records that were lost, and those explained by a power loss; the
    number of reads of lost records that were removed; and the values that exist but need not be seen."""

    lost: list[str] = field(default_factory=list)
    by_power: set[str] = field(default_factory=set)
    reads: int = 0
    brought_back: set[str] = field(default_factory=set)


class Power:
    """The power losses of nodes, and the in-sync sets, over time. A partition with at least `min_in_sync` replicas
    acknowledges nothing while fewer of them are in sync."""

    def __init__(self, samples: list[Sample], losses: list[PowerLoss], min_in_sync: int) -> None:
        self._samples = samples
        self._losses = sorted(losses, key=lambda loss: loss.at)
        self._min_in_sync = min_in_sync

    def in_sync_sets(self, place: Partition, began: float, ended: float) -> Iterator[set[int]]:
        """The in-sync sets that may have been in force between two moments and allow a record to be committed."""
        name = f"{place[0]}-{place[1]}"
        for sample in self._samples:
            if began - SAMPLE_SLACK_SECONDS <= sample.at <= ended + SAMPLE_SLACK_SECONDS and name in sample.partitions:
                _, _, in_sync, replicas = sample.partitions[name]
                if len(in_sync) >= min(self._min_in_sync, len(replicas)):
                    yield set(in_sync)

    def excuses(self, place: Partition, began: float, ended: float, until: float = math.inf) -> bool:
        """Whether all replicas of an in-sync set of that time later lost power, so that none kept the record."""
        losses = [loss for loss in self._losses if began <= loss.at <= until]
        return bool(losses) and any(
            in_sync and self._all_lost(place, in_sync, losses) for in_sync in self.in_sync_sets(place, began, ended)
        )

    def _all_lost(self, place: Partition, in_sync: set[int], losses: list[PowerLoss]) -> bool:
        """Whether all these replicas lost the record. Losses add up only until a replica is in sync again: it has then
        copied the record from those that kept it."""
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
        """Whether a replica was seen to leave the in-sync set between two moments and to be in it again. The latter
        must last for a whole round of samples, since a single node may report old state."""
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
    """Change the run's operations: allowed losses become sends of unknown outcome, and reads of lost records are
    removed."""
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
    """Decides for each record, acknowledged or read, whether its loss is explained."""

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
        """Values that must be kept, with the times of their acknowledgements."""

    def is_gone(self, place: Partition, offset: int, value: str) -> bool:
        """Whether the record does not exist at the end; False if the partition was not read then."""
        return place in self._final and self._final[place].get(offset) != value

    def _epoch(self, place: Partition, offset: int, value: str) -> int:
        """The leader epoch of a record, from any reader of it. A batch sent twice may have been at one offset under two
        leaders: the earlier epoch counts."""
        return self._epochs.get((place, offset, value), UNKNOWN)

    def by_power(self, send: Send) -> bool:
        return not self._flush and send.ended is not None and self._power.excuses(send.place, send.began, send.ended)

    def by_election(self, send: Send) -> bool:
        epoch = self._epoch(send.place, send.offset, send.values[0])
        return self._elections.took(send.place, send.offset, epoch, send.began)

    def brought_back(self, run: RunHistory) -> set[str]:
        """Values that one unclean election lost and another brought back, after readers had passed their offsets under
        a leader in between.

        A consumer goes back to where the epoch of its last record ends on the new leader (KIP-320), not to records that
        ended there before that epoch began.
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
        """Whether a record that was read is gone, and is allowed to be.

        A record read from a leader that was lost, or before a power loss, may have been sent again and acknowledged at
        another offset.
        """
        offset, value, _ = record
        if not self.is_gone(poll.place, offset, value):
            return False
        if self._elections.took(poll.place, offset, self._epoch(poll.place, offset, value)):
            return True
        acknowledged = self.kept.get(value, math.inf)
        return self._power.excuses(poll.place, self._written(poll, value), poll.ended or poll.began, until=acknowledged)

    def _written(self, poll: Poll, value: str) -> float:
        """The earliest time at which a record may have been in the log: a client may return records long after it
        fetched them, and after a power loss in between."""
        return min(poll.began, self._sent.get(value, poll.began))

    def may_go_back(self, poll: Poll, last: Record, by: Poll) -> bool:
        """Whether a reader that got `last` from one poll may be told by another that its position is beyond the end,
        and start over.

        A record lost by one unclean election stays lost unless a second one brings it back. So does a record that was
        not synced, if all acknowledged ones are kept.
        """
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
    """Allow the loss of committed offsets and of acknowledgements of share groups, which are records like others: those
    from before a power loss of a majority may be gone."""
    cuts = _losses_of_a_majority(run)
    if not cuts:
        return
    for commit in run.operations.of(Commit):
        _after_loss(commit, max(cuts))
    for read in run.operations.of(Committed):
        if read.began < max(cuts):
            read.outcome = INFO
    for acknowledged in run.operations.of(Acknowledged):
        if acknowledged.began < max(cuts):
            acknowledged.outcome = INFO
    for start in run.operations.of(ShareStart):
        if start.began < max(cuts):
            start.outcome = INFO


def _after_loss(commit: Commit, lost_at: float) -> None:
    """Adapt a commit to a power loss at `lost_at`: a commit acknowledged before may be gone, and one in progress has an
    unknown outcome."""
    if commit.began < lost_at:
        if commit.ended is not None and commit.ended < lost_at:
            commit.may_be_gone = True
        else:
            commit.outcome = INFO


def _losses_of_a_majority(run: RunHistory) -> list[float]:
    return sorted(loss.at for loss in run.power_losses if len(loss.nodes) > 2)


def commits_between_losses(run: RunHistory) -> Iterator[History]:
    """The commits and offset fetches up to the first power loss that may lose committed offsets, and from each such
    loss to the next. Those after the last one stay in the run's own history."""
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
