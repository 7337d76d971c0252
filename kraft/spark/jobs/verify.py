"""Whether a topic agrees with another topic or with an archive, as far as both still hold the same records.

A topic and its archive are compared by partition and offset, two topics by place in the partition, or key by key if
one of them is compacted. Of a record, key, value, headers and timestamp are compared. What one side lacks because of
retention or compaction is left out, and counted: comparing.py, alignment.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kraft.spark.jobs.access import Access
from kraft.spark.jobs.alignment import by_partition, held, moved
from kraft.spark.jobs.archive import is_archive, read_archive
from kraft.spark.jobs.comparing import by_key, by_offset, by_place, firsts, found_at, placed, prints
from kraft.spark.jobs.log_side import LogSide, log_side
from kraft.spark.jobs.running import JobNotFound, spark_errors
from kraft.spark.jobs.tally import best_shifts, verdict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    """`archive` is a directory; without it the other side is a topic."""

    topic: str
    at: Access
    other_topic: str | None = None
    other_at: Access | None = None
    archive: str | None = None
    ignore_timestamps: bool = False
    committed: bool = False


def verify(session: SparkSession, wanted: Verify) -> dict[str, Any]:
    """`agree`, what was compared and what was left out, and the first difference of each partition. Raises
    JobNotFound, JobFailed."""
    topic = log_side(wanted.at, wanted.topic, committed=wanted.committed)
    if wanted.archive is not None:
        other, found = wanted.archive, with_archive(session, wanted, topic, Path(wanted.archive).absolute())
    else:
        other = wanted.other_topic or wanted.topic
        found = with_topic(
            session,
            wanted,
            topic,
            log_side(wanted.other_at or wanted.at, other, committed=wanted.committed),
        )
    return {"job": "verify", "topic": wanted.topic, "other": other, **found}


def with_archive(session: SparkSession, wanted: Verify, topic: LogSide, place: Path) -> dict[str, Any]:
    if not is_archive(place):
        raise JobNotFound(f"{wanted.archive} holds no archive (`kraft spark archive` makes one)")
    with spark_errors():
        left, right = side(topic.rows(session), wanted), side(read_archive(session, place), wanted)
        starts = session.createDataFrame(list(topic.starts.items()), "partition int, left_start long")
        return verdict(by_offset(left, right, starts, compacted=topic.compacted), "partition and offset", aligned=False)


def with_topic(session: SparkSession, wanted: Verify, topic: LogSide, other: LogSide) -> dict[str, Any]:
    with spark_errors():
        left, right = side(topic.rows(session), wanted), side(other.rows(session), wanted)
        if topic.compacted or other.compacted:
            partitions = sorted(topic.starts.keys() | other.starts.keys())
            both = [(each, topic.starts.get(each, 0), other.starts.get(each, 0)) for each in partitions]
            starts = session.createDataFrame(both, "partition int, left_start long, right_start long")
            return verdict(by_key(left, right, starts), "last value of each key", aligned=True)
        left, right = placed(left), placed(right)
        shifts = session.createDataFrame(shifts_of(session, left, right, topic, other), "partition int, shift long")
        return verdict(best_shifts(by_place(left, right, shifts)), "place in the partition", aligned=True)


def side(rows: DataFrame, wanted: Verify) -> DataFrame:
    return prints(rows, timestamps=not wanted.ignore_timestamps)


def shifts_of(
    session: SparkSession, left: DataFrame, right: DataFrame, topic: LogSide, other: LogSide
) -> list[tuple[int, int]]:
    """Of all partitions. As long as all logs begin at 0 nothing has to be read for it."""
    partitions = topic.starts.keys() | other.starts.keys()
    if not moved(topic.starts, other.starts):
        return by_partition({}, {}, partitions)
    of_left, of_right = firsts(left), firsts(right)
    left_in_right = found_at(right, session.createDataFrame(first_prints(of_left), "partition int, print string"))
    right_in_left = found_at(left, session.createDataFrame(first_prints(of_right), "partition int, print string"))
    return by_partition(
        held(topic.starts, of_left, left_in_right), held(other.starts, of_right, right_in_left), partitions
    )


def first_prints(found: dict[int, tuple[int, str]]) -> list[tuple[int, str]]:
    return [(partition, first) for partition, (_, first) in sorted(found.items())]
