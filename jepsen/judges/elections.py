"""The unclean elections of a run, and the losses that they can explain.

A record written under one leader epoch is lost by an unclean election of a later epoch whose leader does not have it.
All followers of that leader lose it too, until another unclean election brings it back. A replica that had the record
and comes back says so in a report, though not always in that of the same election: a log that is truncated through
several epochs in one step is reported once, for the first election after the first of these epochs.

Apache Kafka reports nothing. There any new leader epoch may have been that of an unclean election, and of several.
"""

from __future__ import annotations

import math

from jepsen.checker.operations import Partition
from jepsen.history import LossReport, RunHistory

UNKNOWN = -1
SEVERAL = 2


class Elections:
    """The unclean elections of one run. UNKNOWN stands for an epoch or offset that is not known."""

    def __init__(self, run: RunHistory) -> None:
        self._facts = run.facts
        self._told: dict[Partition, dict[int, list[LossReport]]] = {}
        for report in run.loss_reports:
            self._told.setdefault((report.topic, report.partition), {}).setdefault(report.leader_epoch, []).append(
                report
            )
        self._seen: dict[str, int] = {}
        for sample in run.samples:
            for name, (_, epoch, _, _) in sample.partitions.items():
                self._seen[name] = max(epoch, self._seen.get(name, 0))

    def epochs(self, place: Partition) -> list[int]:
        """The leader epochs of the partition's reported unclean elections."""
        return sorted(self._told.get(place, ()))

    def told(self, place: Partition, epoch: int, until: float = math.inf) -> LossReport | None:
        """The last report of one election, or the last before `until`."""
        return next(
            (report for report in reversed(self._told[place][epoch]) if until == math.inf or report.at < until), None
        )

    def first_told(self, place: Partition, epoch: int) -> float:
        """The time of the first report of an election."""
        return self._told[place][epoch][0].at

    def reports(self, place: Partition) -> list[LossReport]:
        """The last report of each election of the partition."""
        return [reports[-1] for _, reports in sorted(self._told.get(place, {}).items())]

    def all_reports(self) -> list[LossReport]:
        return [report for place in sorted(self._told) for report in self.reports(place)]

    def after(self, place: Partition, epoch: int, since: float = -math.inf) -> int:
        """The highest possible number of unclean elections after a record was written under a leader epoch, no earlier
        than `since`."""
        if not self._facts.unclean:
            return 0
        if not self._facts.tells_losses:
            return SEVERAL if self._seen.get(f"{place[0]}-{place[1]}", math.inf) > max(epoch, 0) else 0
        return sum(
            later > epoch and not _is_over(reports, since) for later, reports in self._told.get(place, {}).items()
        )

    def took(self, place: Partition, offset: int, epoch: int, since: float = -math.inf) -> bool:
        """Whether a record missing at that offset was lost by an unclean election, as far as reports tell."""
        if not self.after(place, epoch, since):
            return False
        return not self._facts.tells_losses or any(tells_of(report, offset) for report in self.reports(place))


def _is_over(reports: list[LossReport], since: float) -> bool:
    """Whether all replicas had come back and followed the elected leader or a later one, so that nothing is written
    under an earlier epoch any more."""
    return any(report.complete and not report.unknown and report.at < since for report in reports)


def tells_of(report: LossReport, offset: int) -> bool:
    """Whether a replica gave up that offset, or may have."""
    return bool(report.unknown) or any(
        start <= offset < end or offset == UNKNOWN for start, end in report.lost.values()
    )
