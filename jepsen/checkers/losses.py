"""Whether the cluster told the truth about what unclean elections cost.

Whatever was acknowledged and is gone has to be in a report of its partition: within the offsets that some replica says it gave up (a replica that has not come
back, or never will, may have taken it along). And nothing is told to be lost that is still there: where a replica gave up something, the log does not have what
was acknowledged there before the election. (After another unclean election of the partition it may: what the first one lost can come back with its leader.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from jepsen.history import LossReport, RunHistory
from kraft.testing.checker.operations import FinalRead, Partition

UNTOLD_MAX = 5


class Lost(NamedTuple):
    """A record that was acknowledged and is gone; its offset is -1 where the acknowledgement named none."""

    value: str
    place: Partition
    offset: int


def latest(run: RunHistory) -> list[LossReport]:
    """Of each election what was told last."""
    return list({(report.topic, report.partition, report.leader_epoch): report for report in run.loss_reports}.values())


def untrue(run: RunHistory, lost: Sequence[Lost], acknowledged: Mapping[str, int]) -> Iterator[str]:
    """Findings. `acknowledged` is each record's offset as it was told."""
    reports = latest(run)
    untold = [each for each in lost if not any(tells_of(report, each) for report in reports)]
    for each in untold[:UNTOLD_MAX]:
        where = f"{each.place[0]}-{each.place[1]}, offset {each.offset}"
        yield f"untold: {each.value} ({where}) was acknowledged and is gone, and no report of an unclean election tells of it ({len(untold)} in all)"
    for read in run.operations.of(FinalRead):
        of_partition = [report for report in reports if (report.topic, report.partition) == read.place]
        if len(of_partition) == 1:
            yield from _still_there(of_partition[0], read, acknowledged)


def tells_of(report: LossReport, lost: Lost) -> bool:
    if (report.topic, report.partition) != lost.place:
        return False
    return bool(report.unknown) or any(start <= lost.offset < end or lost.offset < 0 for start, end in report.lost.values())


def _still_there(report: LossReport, read: FinalRead, acknowledged: Mapping[str, int]) -> Iterator[str]:
    before = [(offset, value) for offset, value, epoch in read.records if 0 <= epoch < report.leader_epoch]
    for replica, (start, end) in sorted(report.lost.items()):
        kept = [offset for offset, value in before if start <= offset < end and acknowledged.get(value) == offset]
        if kept or end <= start:
            where = f"{report.topic}-{report.partition}, epoch {report.leader_epoch}"
            yield f"told in vain: node {replica} says it gave up [{start}, {end}) ({where}), and offsets {kept[:3]} from before are there"
