"""Record by record, in Spark: what each record or key of two sides is a case of. Frames instead of topics: retention
and compaction need not be waited for. What comes of topics is in test_spark_jobs_verify.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from kraft.spark.jobs.comparing import by_key, by_offset, by_place, firsts, found_at, placed
from kraft.spark.jobs.tally import Kind, Tally

pytestmark = [
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.soak,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
Record = tuple[int, int, str | None, bool]
"""Partition, offset, key, and whether it has no value."""


@pytest.fixture
def frames(spark: SparkSession) -> Frames:
    return Frames(spark)


class Frames:
    """Sides, and the small frames beside them."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def side(self, records: Sequence[Record], prints: Sequence[str] = (), offset: int = 0) -> DataFrame:
        """A record's print is its offset unless it is given. `offset` is what a copy added."""
        given = list(prints) or [f"print {each[1]}" for each in records]
        rows = [
            (partition, at + offset, None if key is None else bytearray(key.encode()), dead, each)
            for (partition, at, key, dead), each in zip(records, given, strict=True)
        ]
        return self.spark.createDataFrame(rows, "partition int, offset long, key binary, dead boolean, print string")

    def small(self, rows: Sequence[Any], columns: str) -> DataFrame:
        return self.spark.createDataFrame(list(rows), columns)


def plain(offsets: Sequence[int], partition: int = 0) -> list[Record]:
    return [(partition, each, f"k{each % 3}", False) for each in offsets]


def met(tallies: Sequence[Tally]) -> dict[tuple[int, int, str], tuple[int, int | None, int | None]]:
    """(cases, offset, other offset) by partition, shift and kind."""
    return {
        (each.partition, each.shift, each.kind): (each.cases, each.left_offset, each.right_offset) for each in tallies
    }


def test_a_topic_and_its_archive_are_compared_from_the_log_start(frames: Frames) -> None:
    left = frames.side([*plain(range(5, 10)), *plain([0], partition=1)])
    right = frames.side(plain([0, 1, 2, 3, 4, 5, 7, 8, 20]))
    starts = frames.small([(0, 5), (1, 0)], "partition int, left_start long")
    assert met(by_offset(left, right, starts, compacted=False)) == {
        (0, 0, Kind.GONE_LEFT): (5, None, 0),
        (0, 0, Kind.SAME): (3, 5, 5),
        (0, 0, Kind.LEFT_ONLY): (2, 6, None),
        (0, 0, Kind.RIGHT_ONLY): (1, None, 20),
        (1, 0, Kind.LEFT_ONLY): (1, 0, None),
    }


def test_a_duplicate_record_in_an_archive_is_a_difference(frames: Frames) -> None:
    left, right = frames.side(plain([3, 4])), frames.side(plain([0, 3, 4, 4, 1, 1]))
    starts = frames.small([(0, 0)], "partition int, left_start long")
    assert met(by_offset(left, right, starts, compacted=False)) == {
        (0, 0, Kind.SAME): (2, 3, 3),
        (0, 0, Kind.RIGHT_ONLY): (4, None, 0),
    }
    assert met(by_offset(left, right, starts, compacted=True)) == {
        (0, 0, Kind.SAME): (2, 3, 3),
        (0, 0, Kind.COMPACTED): (2, None, 0),
        (0, 0, Kind.RIGHT_ONLY): (2, None, 1),
    }


def test_only_records_that_compaction_may_remove_are_left_out_of_a_comparison(frames: Frames) -> None:
    left = frames.side([(0, 3, "a", False), (0, 7, "b", False)])
    archived: list[Record] = [
        (0, 1, "a", False),
        (0, 2, "b", False),
        (0, 3, "a", False),
        (0, 4, "c", True),
        (0, 5, "d", False),
        (0, 6, None, False),
        (0, 7, "b", False),
    ]
    starts = frames.small([(0, 0)], "partition int, left_start long")
    assert met(by_offset(left, frames.side(archived), starts, compacted=True)) == {
        (0, 0, Kind.COMPACTED): (4, None, 1),
        (0, 0, Kind.RIGHT_ONLY): (1, None, 5),
        (0, 0, Kind.SAME): (2, 3, 3),
    }
    assert met(by_offset(left, frames.side(archived), starts, compacted=False))[0, 0, Kind.RIGHT_ONLY] == (5, None, 1)


def test_a_copy_is_compared_under_each_offset_shift(frames: Frames) -> None:
    left, right = placed(frames.side(plain(range(10)))), placed(frames.side(plain(range(4, 9)), offset=100))
    assert firsts(right) == {0: (5, "print 4")}
    assert found_at(left, frames.small([(0, "print 4"), (1, "print 4")], "partition int, print string")) == {0: 5}
    assert met(by_place(left, right, frames.small([(0, 0), (0, 4), (0, 5)], "partition int, shift long"))) == {
        (0, 0, Kind.UNEQUAL): (5, 0, 104),
        (0, 0, Kind.LEFT_ONLY): (5, 5, None),
        (0, 4, Kind.GONE_RIGHT): (4, 0, None),
        (0, 4, Kind.SAME): (5, 4, 104),
        (0, 4, Kind.LEFT_ONLY): (1, 9, None),
        (0, 5, Kind.GONE_RIGHT): (5, 0, None),
        (0, 5, Kind.UNEQUAL): (5, 5, 104),
    }
    assert met(by_place(right, left, frames.small([(0, -4)], "partition int, shift long"))) == {
        (0, -4, Kind.GONE_LEFT): (4, None, 0),
        (0, -4, Kind.SAME): (5, 104, 4),
        (0, -4, Kind.RIGHT_ONLY): (1, None, 9),
    }


def test_compacted_topics_are_compared_by_the_last_value_of_each_key(frames: Frames) -> None:
    records: list[Record] = [
        (0, 1, "a", False),
        (0, 2, "old", False),
        (0, 5, "a", False),
        (0, 6, "b", True),
        (0, 7, "c", False),
        (0, 8, "new", False),
        (0, 9, None, False),
    ]
    left = frames.side(records)
    right = frames.side([(0, 3, "a", False), (0, 4, "c", False), (0, 6, "d", True)], ["print 5", "another", "print d"])
    starts = frames.small([(0, 0, 3)], "partition int, left_start long, right_start long")
    tallies = by_key(left, right, starts)
    assert met(tallies) == {
        (0, 0, Kind.GONE_RIGHT): (1, 2, None),
        (0, 0, Kind.LEFT_ONLY): (1, 8, None),
        (0, 0, Kind.KEYLESS_LEFT): (1, None, None),
        (0, 0, Kind.SAME): (3, 5, 3),
        (0, 0, Kind.UNEQUAL): (1, 7, 4),
    }
    assert (sum(each.left for each in tallies), sum(each.right for each in tallies)) == (7, 3)
    kept = frames.small([(0, 0, 0)], "partition int, left_start long, right_start long")
    assert met(by_key(left, frames.side([]), kept))[0, 0, Kind.LEFT_ONLY] == (4, 2, None)
