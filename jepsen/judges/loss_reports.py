"""Whether the cluster told the truth about what unclean elections cost.

Whatever was acknowledged and is gone has to be in a report of its partition: within the offsets that some replica
says it gave up (a replica that has not come back, or never will, may have taken it along). And nothing is told to be
lost that is still there: below the offset up to which the replica knew its records to be committed, the log does not
have what was acknowledged there before the election.

After several unclean elections the log may have it and the replica may have given up something else in its place. So
that is asked only where both come from the same leaders: the replica had come back after the election before,
nothing else had been elected when it told, and the log has what was written in between.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from jepsen.checker.operations import FinalRead, Partition
from jepsen.history import LossReport, RunHistory
from jepsen.judges.elections import Elections, tells_of

UNTOLD_MAX = 5


class Lost(NamedTuple):
    """A record that was acknowledged and is gone; its offset is -1 where the acknowledgement named none."""

    value: str
    place: Partition
    offset: int


def untrue(run: RunHistory, lost: Sequence[Lost], acknowledged: Mapping[str, int]) -> Iterator[str]:
    """Findings. `acknowledged` is each record's offset as it was told."""
    elections = Elections(run)
    untold = [
        each for each in lost if not any(tells_of(report, each.offset) for report in elections.reports(each.place))
    ]
    for each in untold[:UNTOLD_MAX]:
        where = f"{each.place[0]}-{each.place[1]}, offset {each.offset}"
        yield (
            f"untold: {each.value} ({where}) was acknowledged and is gone, and no report of an unclean election "
            f"tells of it ({len(untold)} in all)"
        )
    for read in run.operations.of(FinalRead):
        yield from _empty(elections.reports(read.place))
        yield from _still_there(elections, read, acknowledged)


def _empty(reports: Sequence[LossReport]) -> Iterator[str]:
    for report in reports:
        for replica, (start, end) in sorted(report.lost.items()):
            if end <= start:
                yield f"told in vain: node {replica} says it gave up [{start}, {end}) ({_where(report)})"


def _still_there(elections: Elections, read: FinalRead, acknowledged: Mapping[str, int]) -> Iterator[str]:
    epochs = elections.epochs(read.place)
    before: LossReport | None = None
    was_there = True
    for epoch, following in zip_longest(epochs, epochs[1:]):
        report = elections.told(
            read.place, epoch, math.inf if following is None else elections.first_told(read.place, following)
        )
        is_there = following is None or any(epoch <= each < following for _, _, each in read.records)
        if report is not None and was_there and is_there and (before is not None or epoch == epochs[0]):
            yield from _kept(report, [] if before is None else before.unknown, read, acknowledged)
        before, was_there = report, is_there


def _kept(
    report: LossReport, strangers: Sequence[int], read: FinalRead, acknowledged: Mapping[str, int]
) -> Iterator[str]:
    """Of the replicas that had come back before the election."""
    old = [
        offset
        for offset, value, epoch in read.records
        if 0 <= epoch < report.leader_epoch and acknowledged.get(value) == offset
    ]
    for replica, (start, end) in sorted(report.lost.items()):
        kept = [offset for offset in old if start <= offset < min(end, report.committed.get(replica, 0))]
        if kept and replica not in strangers:
            yield (
                f"told in vain: node {replica} says it gave up [{start}, {end}) ({_where(report)}), and offsets "
                f"{kept[:3]} from before are there"
            )


def _where(report: LossReport) -> str:
    return f"{report.topic}-{report.partition}, epoch {report.leader_epoch}"
