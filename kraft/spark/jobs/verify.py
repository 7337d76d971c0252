"""Compare a topic with another topic or an archive, as far as both still hold the same records.

A topic and its archive are compared by partition and offset. Two topics are compared by place in the partition, or by
key if one of them is compacted. The compared fields are key, value, headers and timestamp. Records that one side lacks
because of retention or compaction are left out and counted: see alignment.py.

Ranges of records are compared by their digests, and record by record only where the digests differ (digesting.py).
Frames of records are compared (comparing.py) in three cases: one side is compacted; retention has deleted the beginning
of a partition that does not agree; the archive is a Delta table.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kraft.security.acls import Operation
from kraft.spark.jobs.access import Access
from kraft.spark.jobs.alignment import by_partition, moved, partition_contents
from kraft.spark.jobs.archive import is_archive, is_typed, read_archive
from kraft.spark.jobs.comparing import by_key, by_offset, by_place, firsts, found_at, placed, prints
from kraft.spark.jobs.delta import is_table, read_table, require_library
from kraft.spark.jobs.digesting import (
    Compare,
    Part,
    TopicPart,
    Unclear,
    digested,
    file_parts,
    tallied,
    topic_parts,
)
from kraft.spark.jobs.digests import Explained, compared
from kraft.spark.jobs.early_cluster import EarlyCluster, early
from kraft.spark.jobs.early_files import check_readable
from kraft.spark.jobs.iceberg import TableName
from kraft.spark.jobs.iceberg_reading import require_archive, table_parts, table_rows
from kraft.spark.jobs.log_side import LogSide, log_side
from kraft.spark.jobs.pending_renames import is_pending
from kraft.spark.jobs.running import JobFailed, JobNotFound, Say, spark_errors
from kraft.spark.jobs.running import Part as Done
from kraft.spark.jobs.tally import Tally, best_shifts, differing, partitions_of, verdict
from kraft.spark.jobs.topic_configs import describe
from kraft.spark.jobs.watching import watched

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEY_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    """The parameters of a comparison. `archive` is a directory, `table` an Iceberg table; without them the other side
    is a topic."""

    topic: str
    at: Access
    other_topic: str | None = None
    other_at: Access | None = None
    archive: str | None = None
    table: TableName | None = None
    ignore_timestamps: bool = False
    committed: bool = False


def check_verify(wanted: Verify) -> None:
    """Check all that can be checked before Spark starts. Raises JobNotFound, JobFailed."""
    sides = [(wanted.at, wanted.topic)]
    if wanted.archive is not None:
        check_readable(Path(wanted.archive))
        check_archived(wanted.archive)
    elif wanted.table is not None:
        require_archive(wanted.table)
    else:
        sides.append((wanted.other_at or wanted.at, wanted.other_topic or wanted.topic))
    for at, topic in sides:
        early(at, partial(EarlyCluster.existing, topic=topic, operation=Operation.READ))
        describe(at, topic)


def check_archived(directory: str) -> None:
    """Raise JobNotFound if the directory is no archive, JobFailed if it is typed or a compaction has not ended."""
    place = Path(directory).absolute()
    if not is_archive(place):
        raise JobNotFound(f"{directory} holds no archive (`kraft spark archive` creates one)")
    if is_pending(place):
        raise JobFailed(
            f"{place} has an unfinished compaction: wait until `kraft spark compact` ends, or run it again if it "
            "was interrupted"
        )
    if is_typed(place):
        raise JobFailed(f"{place} has typed values, not the bytes of the topic: it cannot be compared with the topic")
    if is_table(place):
        require_library()


def verify(session: SparkSession, wanted: Verify, say: Say) -> dict[str, Any]:
    """Return the summary: `agree`, what was compared and left out, and the first difference of each partition. Raises
    JobNotFound, JobFailed."""
    begun = time.monotonic()
    with watched(session, say, "comparing"):
        summary = compare(session, wanted)
    say(Done(summary["records"], 0, time.monotonic() - begun))
    return summary


def compare(session: SparkSession, wanted: Verify) -> dict[str, Any]:
    topic = log_side(wanted.at, wanted.topic, committed=wanted.committed)
    if wanted.archive is not None:
        other, found = wanted.archive, with_archive(session, wanted, topic, Path(wanted.archive).absolute())
    elif wanted.table is not None:
        other, found = wanted.table.shown, with_table(session, wanted, topic, wanted.table)
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
    check_archived(str(place))
    if is_table(place):
        tallies = archive_frames(session, wanted, topic, partial(read_table, session, place))
    elif topic.compacted:
        tallies = archive_frames(session, wanted, topic, partial(read_archive, session, place))
    else:
        tallies = archived(session, wanted, topic, file_parts(place))
    return verdict(tallies, "partition and offset", aligned=False)


def with_table(session: SparkSession, wanted: Verify, topic: LogSide, name: TableName) -> dict[str, Any]:
    parts = table_parts(name, topic.topic)
    if topic.compacted:
        tallies = archive_frames(session, wanted, topic, partial(table_rows, session, parts))
    else:
        tallies = archived(session, wanted, topic, parts)
    return verdict(tallies, "partition and offset", aligned=False)


def archived(session: SparkSession, wanted: Verify, topic: LogSide, archive: Sequence[Part]) -> list[Tally]:
    how, tasks = compare_of(wanted), 2 * session.sparkContext.defaultParallelism
    left, right = digested(session, how, topic_parts(topic, by_place=False, tasks=tasks), archive)
    ours, theirs = left.ranges(), right.ranges()
    found = []
    for each in sorted({**ours, **theirs}):
        explained = Explained(left_below=topic.starts.get(each, 0), right_below=0)
        found.append(
            Unclear(each, 0, explained, compared(each, 0, ours.get(each, {}), theirs.get(each, {}), explained))
        )
    return tallied(session, how, left, right, found)


def archive_frames(
    session: SparkSession, wanted: Verify, topic: LogSide, archive: Callable[[], DataFrame]
) -> list[Tally]:
    with spark_errors():
        left, right = side(topic.rows(session), wanted), side(archive(), wanted)
        starts = session.createDataFrame(list(topic.starts.items()), "partition int, left_start long")
        return by_offset(left, right, starts, compacted=topic.compacted)


def with_topic(session: SparkSession, wanted: Verify, topic: LogSide, other: LogSide) -> dict[str, Any]:
    if topic.compacted or other.compacted:
        with spark_errors():
            left, right = side(topic.rows(session), wanted), side(other.rows(session), wanted)
            partitions = sorted(topic.starts.keys() | other.starts.keys())
            both = [(each, topic.starts.get(each, 0), other.starts.get(each, 0)) for each in partitions]
            starts = session.createDataFrame(both, "partition int, left_start long, right_start long")
            return verdict(by_key(left, right, starts), "last value of each key", aligned=True)
    return verdict(copied(session, wanted, topic, other), "place in the partition", aligned=True)


def copied(session: SparkSession, wanted: Verify, topic: LogSide, other: LogSide) -> list[Tally]:
    """Compare two topics by place. If a log no longer starts at 0, the sides can agree only under the shift that aligns
    their last records, so they are compared again under that shift. Partitions that still do not agree are compared as
    frames, under every plausible shift."""
    how = compare_of(wanted)
    sides = [topic_parts(each, by_place=True, tasks=0) for each in (topic, other)]
    left, right = digested(session, how, *sides)
    cut = moved(topic.starts, other.starts)
    shifts = {each.partition: 0 for each in [*left.parts, *right.parts]}
    for each in sorted(cut):
        shift = left.records(each) - right.records(each)
        shifts[each] = shift if -topic.starts.get(each, 0) <= shift <= other.starts.get(each, 0) else 0
    if any(shifts.values()):
        (right,) = digested(session, how, shifted(right.parts, shifts))
    ours, theirs = left.ranges(), right.ranges()
    found = []
    for each, shift in sorted(shifts.items()):
        explained = Explained(left_below=1, right_below=shift + 1)
        seen = compared(each, shift, ours.get(each, {}), theirs.get(each, {}), explained)
        found.append(Unclear(each, shift, explained, seen))
    tallies = tallied(session, how, left, right, found)
    doubtful = [each for each, of_partition in partitions_of(tallies) if each in cut and differing(of_partition)]
    certain = [each for each in tallies if each.partition not in doubtful]
    return certain + (topic_frames(session, wanted, topic, other, doubtful) if doubtful else [])


def shifted(parts: Sequence[Part], shifts: Mapping[int, int]) -> list[Part]:
    return [replace(each, place=1 + shifts[each.partition]) for each in parts if isinstance(each, TopicPart)]


def topic_frames(
    session: SparkSession, wanted: Verify, topic: LogSide, other: LogSide, partitions: Sequence[int]
) -> list[Tally]:
    with spark_errors():
        left, right = (
            placed(side(each.rows(session).where(f"partition IN ({', '.join(map(str, partitions))})"), wanted))
            for each in (topic, other)
        )
        shifts = shifts_of(session, left, right, topic, other, partitions)
        return best_shifts(by_place(left, right, session.createDataFrame(shifts, "partition int, shift long")))


def compare_of(wanted: Verify) -> Compare:
    return Compare(secrets.token_bytes(KEY_BYTES), not wanted.ignore_timestamps)


def side(rows: DataFrame, wanted: Verify) -> DataFrame:
    return prints(rows, timestamps=not wanted.ignore_timestamps)


def shifts_of(
    session: SparkSession,
    left: DataFrame,
    right: DataFrame,
    topic: LogSide,
    other: LogSide,
    partitions: Sequence[int],
) -> list[tuple[int, int]]:
    """Return the shifts to try for these partitions."""
    of_left, of_right = firsts(left), firsts(right)
    left_in_right = found_at(right, session.createDataFrame(first_prints(of_left), "partition int, print string"))
    right_in_left = found_at(left, session.createDataFrame(first_prints(of_right), "partition int, print string"))
    return by_partition(
        partition_contents(topic.starts, of_left, left_in_right),
        partition_contents(other.starts, of_right, right_in_left),
        partitions,
    )


def first_prints(found: dict[int, tuple[int, str]]) -> list[tuple[int, str]]:
    return [(partition, first) for partition, (_, first) in sorted(found.items())]
