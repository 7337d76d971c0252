"""The counts of a comparison and their meaning: whether two sides agree, where they first differ, and what was left out
and why. Pure.

The sides are called topic (left) and other (right). Every record, or key, of either side is of one kind. For each kind
of a partition, only its count and first record leave Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

LISTED_MAX = 20
"""The limit of listed partitions: those that differ, and those with records left out."""


class Kind(StrEnum):
    """The kind of a case. `GONE_*`: this side lacks the record because of retention, and the other side holds it.
    `COMPACTED`: compaction removed the record from the topic. `KEYLESS_*`: a record without a key on this side, which
    compaction removes."""

    SAME = "same"
    UNEQUAL = "unequal"
    LEFT_ONLY = "left only"
    RIGHT_ONLY = "right only"
    GONE_LEFT = "gone left"
    GONE_RIGHT = "gone right"
    COMPACTED = "compacted"
    KEYLESS_LEFT = "keyless left"
    KEYLESS_RIGHT = "keyless right"


COMPARED = (Kind.SAME, Kind.UNEQUAL)
DIFFERENT = (Kind.UNEQUAL, Kind.LEFT_ONLY, Kind.RIGHT_ONLY)
TOPIC, OTHER = "topic", "other"
LEFT_OUT = {
    Kind.GONE_LEFT: (OTHER, "retention"),
    Kind.GONE_RIGHT: (TOPIC, "retention"),
    Kind.COMPACTED: (OTHER, "compaction"),
    Kind.KEYLESS_LEFT: (TOPIC, "no key"),
    Kind.KEYLESS_RIGHT: (OTHER, "no key"),
}
"""The side that holds the record, and the reason why it is not compared."""


class Tally(NamedTuple):
    """The count of one kind in a partition, compared under `shift` (see alignment.py). `left` and `right` count
    records; `cases` may count keys. The first case is at `place`, and has these offsets; None for a side without one.
    """

    partition: int
    shift: int
    kind: str
    cases: int
    left: int
    right: int
    place: int
    left_offset: int | None
    right_offset: int | None


def differing(tallies: Iterable[Tally]) -> int:
    return sum(each.cases for each in tallies if each.kind in DIFFERENT)


def partitions_of(tallies: Iterable[Tally]) -> list[tuple[int, list[Tally]]]:
    """Return the tallies by partition. Partitions and their tallies are sorted."""
    ordered = sorted(tallies, key=attrgetter("partition", "shift", "kind"))
    return [(partition, list(each)) for partition, each in groupby(ordered, key=attrgetter("partition"))]


def best_shifts(tallies: Iterable[Tally]) -> list[Tally]:
    """Return the tallies of each partition's best shift: fewest differing records, then smallest."""
    kept: list[Tally] = []
    for _, of_partition in partitions_of(tallies):
        by_shift = [list(of_shift) for _, of_shift in groupby(of_partition, key=attrgetter("shift"))]
        best = min(by_shift, key=cost)
        kept += best
    return kept


def cost(tallies: Sequence[Tally]) -> tuple[int, int, int]:
    """The cost of one shift: the records that differ, then the size of the shift."""
    return differing(tallies), abs(tallies[0].shift), tallies[0].shift


def verdict(tallies: Sequence[Tally], compared_by: str, *, aligned: bool) -> dict[str, Any]:
    """Return the part of the summary with the result of the comparison (docs/cli.md). `aligned`: the sides were aligned
    by records that both hold. Without such records there is no verdict."""
    by_partition = partitions_of(tallies)
    found = [difference(partition, each) for partition, each in by_partition if differing(each)]
    left_out = [left_out_of(each) for _, of_partition in by_partition for each in of_partition if each.kind in LEFT_OUT]
    compared = sum(each.cases for each in tallies if each.kind in COMPARED)
    unproven = aligned and not compared and bool(tallies)
    return {
        "agree": not found and not unproven,
        "compared_by": compared_by,
        "compared": compared,
        "unequal": total(tallies, Kind.UNEQUAL),
        "only_in_topic": total(tallies, Kind.LEFT_ONLY),
        "only_in_other": total(tallies, Kind.RIGHT_ONLY),
        "left_out_count": sum(each["count"] for each in left_out),
        "records": sum(each.left for each in tallies),
        "other_records": sum(each.right for each in tallies),
        "partitions": len(by_partition),
        "note": note(compared, bool(tallies), unproven and not found),
        "differences": found[:LISTED_MAX],
        "left_out": left_out[:LISTED_MAX],
    }


def total(tallies: Iterable[Tally], kind: Kind) -> int:
    return sum(each.cases for each in tallies if each.kind == kind)


def difference(partition: int, tallies: Sequence[Tally]) -> dict[str, int | None]:
    first = min((each for each in tallies if each.kind in DIFFERENT), key=lambda each: (each.place, each.kind))
    return {
        "partition": partition,
        "count": differing(tallies),
        "offset": first.left_offset,
        "other_offset": first.right_offset,
    }


def left_out_of(tally: Tally) -> dict[str, Any]:
    """Describe the cases that were left out. `offset` is the first of them on the side that holds it."""
    held_by, reason = LEFT_OUT[Kind(tally.kind)]
    offset = tally.left_offset if held_by == TOPIC else tally.right_offset
    return {"partition": tally.partition, "count": tally.cases, "held_by": held_by, "offset": offset, "reason": reason}


def why(left_out: dict[str, Any]) -> str:
    """Return the reason, for a message, why one side lacks a record that the other side holds."""
    if left_out["reason"] == "no key":
        return "it has no key"
    return f"{left_out['reason']} of the {OTHER if left_out['held_by'] == TOPIC else TOPIC}"


def note(compared: int, any_records: bool, unproven: bool) -> str | None:
    """Return a remark if nothing was compared, which the counts alone might hide; None otherwise."""
    if compared or not any_records:
        return None
    return "the two sides have no records in common any more: nothing was compared" + (
        ", so it is unknown whether they agreed" if unproven else ""
    )
