"""Comparing by digests finds what comparing all records finds, and looks only at ranges that differ. Without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.spark.decode.rows import ARROW_SCHEMA_WITH_HEADERS
from kraft.spark.jobs import digests as subject
from kraft.spark.jobs.digests import (
    RUN_RANGES_MAX,
    Explained,
    Prints,
    by_partition,
    compared,
    digests,
    pairs,
    prints,
    runs,
    together,
)
from kraft.spark.jobs.tally import Kind, Tally

KEY = b"k" * 32
Row = tuple[int, bytes]
"""Position and value. A record's offset is a hundred more than its position."""


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "RANGE", 4)


def batch(rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    whole = {"key": None, "value": None, "headers": None, "timestamp": datetime(2024, 1, 1, tzinfo=UTC), "offset": 0}
    return pa.RecordBatch.from_pylist([{**whole, **row} for row in rows], ARROW_SCHEMA_WITH_HEADERS)


def part(rows: Sequence[Row]) -> Prints:
    positions = np.array([position for position, _ in rows], np.int64)
    words = prints(batch([{"value": value} for _, value in rows]), positions, KEY, timestamps=True)
    return Prints(positions, positions + 100, words)


def parts(rows: Sequence[Row], size: int) -> Iterator[Prints]:
    for begin in range(0, len(rows), size):
        yield part(rows[begin : begin + size])


def by_digests(left: Sequence[Row], right: Sequence[Row], explained: Explained, size: int) -> list[Tally]:
    """As the job does it."""
    ours, theirs = (by_partition(digests(0, parts(side, size))).get(0, {}) for side in (left, right))
    found = compared(0, 0, ours, theirs, explained)
    told = list(found.tallies)
    for first, last in runs(found.unclear):
        low, high = first * subject.RANGE, (last + 1) * subject.RANGE
        ours_here, theirs_here = ([row for row in side if low <= row[0] < high] for side in (left, right))
        told += pairs(0, 0, parts(ours_here, size), parts(theirs_here, size), explained)
    return sorted(together(told))


def plainly(left: Sequence[Row], right: Sequence[Row], explained: Explained) -> list[Tally]:
    """Each record of the left, of which there is one at a position, with one of the right, the equal one if there is
    any."""
    found, ours = [], dict(left)
    for position in sorted({row[0] for row in (*left, *right)}):
        a = ours.get(position)
        theirs: list[bytes | None] = sorted(
            (value for at, value in right if at == position), key=lambda value: value != a
        )
        for b in theirs or [None]:
            if a is None:
                kind = Kind.GONE_LEFT if position < explained.left_below else Kind.RIGHT_ONLY
            elif b is None:
                kind = Kind.GONE_RIGHT if position < explained.right_below else Kind.LEFT_ONLY
            else:
                kind = Kind.SAME if a == b else Kind.UNEQUAL
            offsets = [None if each is None else position + 100 for each in (a, b)]
            found.append(Tally(0, 0, kind, 1, int(a is not None), int(b is not None), position, *offsets))
            a = None
    return sorted(together(found))


VALUES = st.sampled_from([b"", b"a", b"b"])
SIDES = st.lists(st.tuples(st.integers(-3, 25), VALUES), max_size=30)


@given(
    left=st.dictionaries(st.integers(-3, 25), VALUES),
    right=SIDES,
    below=st.tuples(*2 * [st.integers(-4, 12)]),
    size=st.integers(1, 7),
)
def test_digests_find_the_same_differences_as_full_records_whichever_side_changed(
    left: dict[int, bytes], right: list[Row], below: tuple[int, int], size: int
) -> None:
    ours, explained = sorted(left.items()), Explained(*below)
    assert by_digests(ours, right, explained, size) == plainly(ours, right, explained)


@given(
    rows=st.lists(VALUES, min_size=1, max_size=40),
    change=st.sampled_from(["alter", "drop", "add", "swap", "copy"]),
    at=st.integers(0, 39),
    size=st.integers(1, 7),
)
def test_digests_find_a_copy_changed_at_one_offset(rows: list[bytes], change: str, at: int, size: int) -> None:
    left = list(enumerate(rows, 1))
    right = changed(left, change, at % len(left))
    explained = Explained(1, 1)
    assert by_digests(left, right, explained, size) == plainly(left, right, explained)


def changed(rows: list[Row], change: str, at: int) -> list[Row]:
    values = [value for _, value in rows]
    if change == "alter":
        values[at] += b"!"
    elif change == "drop":
        del values[at]
    elif change == "add":
        values.insert(at, b"new")
    elif change == "swap":
        values[at], values[0] = values[0], values[at]
    else:
        return [*rows, rows[at]]
    return list(enumerate(values, 1))


@pytest.mark.parametrize(
    ("left", "right"),
    [("abba", "baab"), ("abbabaab", "baababba"), ("a--a", "-aa-")],
)
def test_equal_records_at_other_offsets_are_a_difference(left: str, right: str) -> None:
    ours, theirs = (
        [(position, value.encode()) for position, value in enumerate(side, 8) if value != "-"] for side in (left, right)
    )
    found = by_digests(ours, theirs, Explained(0, 0), 3)
    assert found == plainly(ours, theirs, Explained(0, 0))
    assert {each.kind for each in found} != {Kind.SAME}


def numbers(left: Iterable[Prints], right: Iterable[Prints], explained: Explained) -> list[int]:
    ours, theirs = (by_partition(digests(0, side)).get(0, {}) for side in (left, right))
    return compared(0, 0, ours, theirs, explained).unclear


def test_a_duplicate_record_in_a_copy_is_a_difference() -> None:
    rows = [(position, b"%d" % position) for position in range(6)]
    met = {each.kind: (each.cases, each.place) for each in by_digests(rows, [*rows, rows[2]], Explained(0, 0), 3)}
    assert met == {Kind.SAME: (6, 0), Kind.RIGHT_ONLY: (1, 2)}
    altered = by_digests(rows, [*rows, (2, b"altered")], Explained(0, 0), 3)
    assert {each.kind: each.cases for each in altered} == {Kind.SAME: 6, Kind.RIGHT_ONLY: 1}


def test_only_ranges_with_different_digests_are_read() -> None:
    left = [(position, b"%d" % position) for position in range(40)]
    right = [(position, b"altered" if position == 17 else value) for position, value in left]
    assert numbers(parts(left, 40), parts(left[::-1], 3), Explained(0, 0)) == []
    assert numbers(parts(left, 40), parts(right, 3), Explained(0, 0)) == [4]
    assert numbers(parts(left[10:], 40), parts(left, 3), Explained(10, 0)) == [2]
    assert numbers(parts(left, 40), parts(left[10:], 3), Explained(0, 10)) == [2]


@pytest.mark.parametrize(
    "other",
    [
        {"key": None},
        {"key": b""},
        {"value": b"k"},
        {"key": b"kv", "value": b""},
        {"headers": None},
        {"headers": []},
        {"headers": [{"key": "a", "value": b"1"}, {"key": "b", "value": b"2"}][::-1]},
        {"headers": [{"key": "a", "value": b"1"}, {"key": "b", "value": None}]},
        {"timestamp": datetime(2024, 1, 1, 0, 0, 0, 1000, tzinfo=UTC)},
    ],
)
def test_every_field_of_a_record_is_part_of_its_digest(other: dict[str, Any]) -> None:
    one = {"key": b"k", "value": b"v", "headers": [{"key": "a", "value": b"1"}, {"key": "b", "value": b"2"}]}
    rows = batch([one, {**one, **other}, {**one, "offset": 7}, one])
    found = prints(rows, np.array([5, 5, 5, 6]), KEY, timestamps=True).tolist()
    assert found[0] == found[2]
    assert found[0] != found[1]
    assert found[0] != found[3]
    untimed = prints(batch([one, {**one, **other}]), np.array([5, 5]), KEY, timestamps=False).tolist()
    assert (untimed[0] == untimed[1]) == ("timestamp" in other)


def test_adjacent_ranges_are_compared_together_within_a_limit() -> None:
    assert runs([]) == []
    assert runs([1, 2, 5]) == [(1, 2), (5, 5)]
    assert runs(range(RUN_RANGES_MAX + 2)) == [(0, RUN_RANGES_MAX - 1), (RUN_RANGES_MAX, RUN_RANGES_MAX + 1)]


def test_the_digest_of_a_record_does_not_depend_on_adjacent_records() -> None:
    rows = [{"value": b"a"}, {"value": b"b", "headers": [{"key": "n", "value": b"1"}]}, {"headers": []}]
    positions = np.arange(len(rows))
    whole = prints(batch(rows), positions, KEY, timestamps=True)
    each = [prints(batch([row]), positions[at : at + 1], KEY, timestamps=True) for at, row in enumerate(rows)]
    assert whole.tolist() == np.concatenate(each).tolist()
