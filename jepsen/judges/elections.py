"""Which unclean elections there were, and what they can have cost.

A record that was written under one leader epoch is lost by an unclean election of a later one, whose leader does not
have it; nobody has it then who follows that leader, until another unclean election brings it back with its own.
Whoever had it and came back says so in a report, though not always in that of the very election: a log that is cut
at once through several epochs is told of once, in the report of the first election after the first of them.

Apache Kafka reports nothing. There any new leader epoch that was seen may have been that of an unclean election, and
of several.
"""

from __future__ import annotations

import math

from jepsen.checker.operations import Partition
from jepsen.history import LossReport, RunHistory

UNKNOWN = -1
SEVERAL = 2


class Elections:
    """Of one run. Epochs and offsets that are not known are UNKNOWN, and claim least."""

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
        """The leader epoch of each unclean election of the partition that was told of."""
        return sorted(self._told.get(place, ()))

    def told(self, place: Partition, epoch: int, until: float = math.inf) -> LossReport | None:
        """What was told last of one election, or last before some moment."""
        return next(
            (report for report in reversed(self._told[place][epoch]) if until == math.inf or report.at < until), None
        )

    def first_told(self, place: Partition, epoch: int) -> float:
        """When it was first told of."""
        return self._told[place][epoch][0].at

    def reports(self, place: Partition) -> list[LossReport]:
        """What was told last of each."""
        return [reports[-1] for _, reports in sorted(self._told.get(place, {}).items())]

    def all_reports(self) -> list[LossReport]:
        return [report for place in sorted(self._told) for report in self.reports(place)]

    def after(self, place: Partition, epoch: int, since: float = -math.inf) -> int:
        """How many there may have been after a record was written under a leader epoch, no earlier than `since`."""
        if not self._facts.unclean:
            return 0
        if not self._facts.tells_losses:
            return SEVERAL if self._seen.get(f"{place[0]}-{place[1]}", math.inf) > max(epoch, 0) else 0
        return sum(
            later > epoch and not _is_over(reports, since) for later, reports in self._told.get(place, {}).items()
        )

    def took(self, place: Partition, offset: int, epoch: int, since: float = -math.inf) -> bool:
        """Whether what is gone from there was lost by one of them, as far as that is known and was told."""
        if not self.after(place, epoch, since):
            return False
        return not self._facts.tells_losses or any(tells_of(report, offset) for report in self.reports(place))


def _is_over(reports: list[LossReport], since: float) -> bool:
    """Whether all replicas had come back and followed the elected leader or a later one: nobody writes under an
    earlier epoch any more."""
    return any(report.complete and not report.unknown and report.at < since for report in reports)


def tells_of(report: LossReport, offset: int) -> bool:
    """Whether a replica gave up that offset, or may have."""
    return bool(report.unknown) or any(
        start <= offset < end or offset == UNKNOWN for start, end in report.lost.values()
    )
