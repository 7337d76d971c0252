"""Checks the loss reports of unclean elections.

Each lost acknowledged record has to be in a report of its partition: within the offsets that some replica says it gave
up, unless a replica has not come back and may have taken it along. No report may name a record that still exists: below
the offset up to which the replica knew its records to be committed, the log has none that was acknowledged there before
the election.

After several unclean elections the log may have the record although the replica gave up another one at its offset. So
the second check applies only if both come from the same leaders: the replica had come back after the election before,
no other election had happened when it reported, and the log has the records written in between.
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
    """An acknowledged record that is gone; its offset is -1 if the acknowledgement had none."""

    value: str
    place: Partition
    offset: int


def untrue(run: RunHistory, lost: Sequence[Lost], acknowledged: Mapping[str, int]) -> Iterator[str]:
    """Yield the findings. `acknowledged` is the acknowledged offset of each record."""
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
    """Findings of existing records that a report calls lost, for replicas that had come back before the election."""
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
