"""Checks that a real loss is reported exactly: the partition and its offsets, no more and no less. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from jepsen.spark.checks import Seen, Verdict


class Lost(NamedTuple):
    """Offsets `[start, end)` of a partition that a query needs, or has read, and that the log does not hold."""

    topic: str
    partition: int
    start: int
    end: int


UNREADABLE = re.compile(
    r"Could not read records in offset \[(?P<start>\d+), (?P<end>\d+)\) for topic partition "
    r"(?P<topic>\S+)-(?P<partition>\d+)\b"
)
SET_BACK = re.compile(
    r"Partition (?P<topic>\S+)-(?P<partition>\d+) offset was changed from (?P<end>\d+) to (?P<start>\d+)\b"
)


def reported(text: str) -> frozenset[Lost]:
    """Return the ranges that an error or a warning names."""
    found = [match for pattern in (UNREADABLE, SET_BACK) for match in pattern.finditer(text)]
    return frozenset(
        Lost(each["topic"], int(each["partition"]), int(each["start"]), int(each["end"])) for each in found
    )


def judge_failure(verdict: Verdict, query: str, failed: str | None, lost: frozenset[Lost]) -> None:
    """Check a query with failOnDataLoss=true: it ends with an error that names a lost range, and no range that is not
    lost. One range is enough, because each task fails by itself and Spark reports one task.

    Spark's own connector names the lost partition and the offset that it wanted, but not the lost range. This is noted.
    """
    told = reported(failed or "")
    if failed is None:
        verdict.violations.append(f"{query}: went on over {shown(lost)}")
    elif told and told <= lost:
        return
    elif verdict.source == "kafka" and told and {each[:2] for each in told} <= {each[:2] for each in lost}:
        verdict.notes.append(f"{query}: lost {shown(lost)}, told {shown(told)}")
    else:
        verdict.violations.append(f"{query}: lost {shown(lost)}, told {shown(told)}: {failed[:1000]}")


def judge_warning(verdict: Verdict, query: str, failed: str | None, warned: str, lost: frozenset[Lost]) -> None:
    """Check a query with failOnDataLoss=false: it continues, and every lost range is reported."""
    told = reported(warned)
    if failed is not None:
        verdict.violations.append(f"{query}: did not go on: {failed[:1000]}")
    if told != lost:
        verdict.violations.append(f"{query}: lost {shown(lost)}, told {shown(told)}")


def judge_rest(
    verdict: Verdict, query: str, found: Sequence[Seen], must: frozenset[Seen], may: frozenset[Seen]
) -> None:
    """Check that everything not lost arrived once, and nothing else. `may` is everything ever acknowledged."""
    counts = Counter(found)
    missing, again, strange = (
        sorted(must - counts.keys()),
        [each for each, count in counts.items() if count > 1],
        sorted(counts.keys() - may),
    )
    verdict.checked += len(must)
    verdict.lost += len(missing)
    verdict.duplicated += len(again)
    for what, those in (
        ("are missing and no report names them", missing),
        ("are there more than once", again),
        ("were never acknowledged", strange),
    ):
        if those:
            verdict.violations.append(f"{query}: {len(those)} records {what}, first {those[:3]}")


def shown(ranges: frozenset[Lost]) -> str:
    return (
        ", ".join(f"{each.topic}-{each.partition} [{each.start}, {each.end})" for each in sorted(ranges)) or "nothing"
    )
