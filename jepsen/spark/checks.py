"""Judges a round by what was sent, what was acknowledged, and what arrived. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Seen(NamedTuple):
    """A record in a sink: its partition and offset in the topic, and its value."""

    partition: int
    offset: int
    value: str


class Plan(NamedTuple):
    """A plan of a batch read from the beginning. `needed` has for each partition the offset after the last record
    acknowledged before the plan began. `ranges` has the range read of each partition, `[start, end)`. `failed` is the
    error of a plan that failed."""

    needed: Mapping[int, int]
    ranges: Mapping[int, tuple[int, int]]
    failed: str
    seconds: float


@dataclass
class Verdict:
    """The findings about one source in one round. A violation is a sentence."""

    source: str
    lost: int = 0
    duplicated: int = 0
    checked: int = 0
    violations: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not (self.lost or self.duplicated or self.violations)


def judge_sink(
    verdict: Verdict,
    sink: str,
    found: Sequence[Seen],
    acknowledged: Iterable[str],
    sent: frozenset[str],
    *,
    exactly_once: bool,
) -> None:
    """Check that the sink has everything acknowledged, exactly once if it promises that, and nothing that was never
    sent."""
    counts = Counter(each.value for each in found)
    wanted = frozenset(acknowledged)
    lost = sorted(wanted - counts.keys())
    again = sorted(value for value, count in counts.items() if count > 1)
    places = Counter((each.partition, each.offset) for each in found)
    verdict.checked += len(wanted)
    verdict.lost += len(lost)
    if lost:
        verdict.violations.append(f"{sink}: {len(lost)} acknowledged records are missing, first {lost[:3]}")
    if again and exactly_once:
        verdict.duplicated += sum(counts[value] - 1 for value in again)
        verdict.violations.append(f"{sink}: {len(again)} records are there more than once, first {again[:3]}")
    elif again:
        verdict.notes.append(f"{sink}: {len(again)} records more than once, as at-least-once allows")
    if strange := sorted(counts.keys() - sent):
        verdict.violations.append(f"{sink}: {len(strange)} records were never sent, first {strange[:3]}")
    if exactly_once and any(count > 1 for count in places.values()):
        verdict.violations.append(f"{sink}: an offset is there more than once")


def judge_order(verdict: Verdict, sink: str, found: Sequence[Seen], *, exactly_once: bool) -> None:
    """Check the order of records in a sink. `found` has them in the order of the target's partitions; each source
    partition is in one target partition. With `exactly_once` offsets must rise; otherwise any order passes, because
    records may be repeated."""
    highest: dict[int, int] = {}
    for each in found:
        if exactly_once and each.offset <= highest.get(each.partition, -1):
            verdict.violations.append(
                f"{sink}: offset {each.offset} of partition {each.partition} comes after {highest[each.partition]}"
            )
            return
        highest[each.partition] = max(highest.get(each.partition, -1), each.offset)


def judge_values_by_place(
    verdict: Verdict, sink: str, found: Iterable[Seen], log: Mapping[tuple[int, int], str]
) -> None:
    """Check that each value is the one that the log has at its offset."""
    for each in found:
        if log.get((each.partition, each.offset)) != each.value:
            verdict.violations.append(f"{sink}: {each} where the log has {log.get((each.partition, each.offset))}")
            return


def judge_checkpoint(verdict: Verdict, query: str, offsets: Sequence[Mapping[str, int]]) -> None:
    """Check a checkpoint's offsets by partition, batch by batch: none goes back, and no partition disappears."""
    before: Mapping[str, int] = {}
    for batch, now in enumerate(offsets):
        for partition, offset in before.items():
            if now.get(partition, -1) < offset:
                verdict.violations.append(
                    f"{query}: checkpointed batch {batch} sets partition {partition} back from {offset} to "
                    f"{now.get(partition)}"
                )
                return
        before = now


def judge_batch_read(verdict: Verdict, counted: Mapping[int, tuple[int, int, int]], start: str) -> None:
    """Check one batch read: (records, distinct offsets, highest offset) by partition. The topic has no gaps, so the
    three must agree."""
    for partition, (records, distinct, highest) in sorted(counted.items()):
        if not records == distinct == highest + 1:
            verdict.violations.append(
                f"{start}: partition {partition} has {records} records, {distinct} offsets, up to {highest}"
            )
            return


def judge_plans(verdict: Verdict, plans: Sequence[Plan]) -> None:
    """Check that each plan is complete: it has every partition, from its first record to the last one acknowledged
    before. A plan may have failed instead, but not the last one, since all nodes run then."""
    if not plans:
        verdict.violations.append("plans: none was made")
        return
    made = [each for each in plans if not each.failed]
    failures = [each.failed for each in plans if each.failed]
    short = [each for each in made if lacking(each)]
    if short:
        verdict.violations.append(
            f"plans: {len(short)} of {len(plans)} would leave out acknowledged records, first {lacking(short[0])}"
        )
    if plans[-1].failed:
        verdict.violations.append(f"plans: the last one failed, though all nodes run: {plans[-1].failed[:500]}")
    longest = max(each.seconds for each in plans)
    verdict.notes.append(
        f"plans: {len(made) - len(short)} whole, {len(failures)} failed, the longest took {longest:.1f} s"
    )


def lacking(plan: Plan) -> list[str]:
    """Return the parts of a plan that do not cover the records acknowledged before the plan began."""
    found = []
    for partition, end in sorted(plan.needed.items()):
        if partition not in plan.ranges:
            found.append(f"partition {partition} is missing, its end was {end}")
        elif plan.ranges[partition][0] != 0 or plan.ranges[partition][1] < end:
            found.append(f"partition {partition} is read in {plan.ranges[partition]}, its end was {end}")
    return found
