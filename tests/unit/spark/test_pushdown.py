"""Filters narrow a batch read, and never below what they let through."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from kraft.spark.source.pushdown import bounds_of
from kraft.spark.source.ranges import OffsetRange

RANGES = [OffsetRange(topic, partition, 10, 20) for topic in ("a", "b") for partition in (0, 1, 2)]


def made(kind: str, column: str, value: Any) -> Any:
    return type(kind, (SimpleNamespace,), {})(attribute=(column,), value=value)


def left(*filters: Any) -> list[OffsetRange]:
    bounds = bounds_of(filters)
    return [narrowed for each in RANGES if bounds.allows(each) and (narrowed := bounds.narrow(each)).size > 0]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("EqualTo", 12, (12, 13)),
        ("GreaterThan", 12, (13, 20)),
        ("GreaterThanOrEqual", 12, (12, 20)),
        ("LessThan", 12, (10, 12)),
        ("LessThanOrEqual", 12, (10, 13)),
        ("In", (11, 12), (10, 20)),
        ("Not", 12, (10, 20)),
    ],
)
def test_offset_filters_narrow_the_ranges(kind: str, value: Any, expected: tuple[int, int]) -> None:
    assert left(made(kind, "offset", value)) == [each._replace(start=expected[0], end=expected[1]) for each in RANGES]


def test_topic_and_partition_filters_select_the_ranges() -> None:
    assert left(made("EqualTo", "topic", "a"), made("In", "partition", (0, 2))) == [RANGES[0], RANGES[2]]
    assert left(made("In", "topic", ("b", "c")), made("GreaterThan", "partition", 1)) == [RANGES[5]]
    assert left(made("EqualTo", "offset", 9)) == left(made("GreaterThan", "offset", 19)) == []


def test_only_lower_bounds_of_timestamps_are_pushed_down() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert bounds_of([made("GreaterThanOrEqual", "timestamp", moment)]).timestamp_ms_low == int(
        moment.timestamp() * 1000
    )
    assert bounds_of([made("LessThan", "timestamp", moment)]).timestamp_ms_low is None
    assert bounds_of([made("GreaterThan", "timestamp", moment.replace(tzinfo=None))]).timestamp_ms_low is None


@pytest.mark.parametrize("ms", [-315_619_200_000, -2, -1, 0])
def test_a_timestamp_that_brokers_would_interpret_differently_narrows_nothing(ms: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    assert bounds_of([made("GreaterThanOrEqual", "timestamp", moment)]).timestamp_ms_low is None


def test_unsupported_filters_narrow_nothing() -> None:
    assert (
        left(made("EqualTo", "key", b"k"), made("StringContains", "topic", "zzz"), made("EqualTo", "offset", True))
        == RANGES
    )
