"""Compare two sides by digests (digests.py), in Spark's Python workers. The workers read records themselves; a task
returns only one digest per range, or counts.

One task reads a part of a side: a range of offsets of a topic, or a file of an archive. In a comparison by place, a
part is a whole partition, because a record's position is known only after all records before it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from kraft.spark.client.client_config import consumer_config
from kraft.spark.jobs.archive import PARTITION, files_of
from kraft.spark.jobs.digests import (
    RANGE,
    Compared,
    Explained,
    Prints,
    RangeDigest,
    by_partition,
    digests,
    pairs,
    prints,
    runs,
    together,
)
from kraft.spark.jobs.iceberg_reading import TablePart
from kraft.spark.jobs.log_side import LogSide
from kraft.spark.jobs.running import spark_errors
from kraft.spark.jobs.tally import Tally
from kraft.spark.source.batch_reader import fetch
from kraft.spark.source.options import SourceOptions, batch_options
from kraft.spark.source.ranges import OffsetRange, divide

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")
TASKS_MAX = 64
ROWS_MAX = 10_000
"""Rows of a file that are read together."""
COLUMNS = ["key", "value", "headers", "timestamp", "offset"]


class Compare(NamedTuple):
    """The parameters of prints: the key of the digest, and whether timestamps are compared."""

    key: bytes
    timestamps: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPart:
    """A range of offsets of a topic. `place` is the position of the first record; None if positions are offsets."""

    options: SourceOptions
    config: dict[str, str]
    range: OffsetRange
    place: int | None

    @property
    def partition(self) -> int:
        return self.range.partition

    def prints(self, how: Compare) -> Iterator[Prints]:
        place = self.place
        for batch in fetch(self.options, self.config, (self.range,)):
            offsets = batch.column("offset").to_numpy()
            positions = offsets if place is None else np.arange(place, place + len(offsets))
            place = None if place is None else place + len(offsets)
            yield Prints(positions, offsets, prints(batch, positions, how.key, timestamps=how.timestamps))

    def around(self, found: Sequence[RangeDigest]) -> TopicPart:
        """Return the part narrowed to these ranges."""
        begin, end = min(each.first_offset for each in found), max(each.end_offset for each in found)
        place = None if self.place is None else min(each.first for each in found)
        return replace(self, range=self.range._replace(start=begin, end=end), place=place)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """A file of an archive, limited to offsets `[start, end)` if they are given."""

    path: str
    partition: int
    offsets: tuple[int, int] | None = None

    def prints(self, how: Compare) -> Iterator[Prints]:
        import pyarrow.parquet as pq

        file = pq.ParquetFile(self.path, coerce_int96_timestamp_unit="us")
        for batch in file.iter_batches(ROWS_MAX, columns=COLUMNS):
            offsets = batch.column("offset").to_numpy()
            if self.offsets is not None:
                inside = (offsets >= self.offsets[0]) & (offsets < self.offsets[1])
                batch, offsets = batch.take(np.flatnonzero(inside)), offsets[inside]
            yield Prints(offsets, offsets, prints(batch, offsets, how.key, timestamps=how.timestamps))

    def around(self, found: Sequence[RangeDigest]) -> FilePart:
        numbers = [each.number for each in found]
        return replace(self, offsets=(min(numbers) * RANGE, (max(numbers) + 1) * RANGE))


Part = TopicPart | FilePart | TablePart


class Side(NamedTuple):
    """The parts of one side, and the digests of each part."""

    parts: Sequence[Part]
    found: Sequence[Sequence[RangeDigest]]

    def ranges(self) -> dict[int, dict[int, RangeDigest]]:
        return by_partition(each for of_part in self.found for each in of_part)

    def records(self, partition: int) -> int:
        return sum(each.records for of_part in self.found for each in of_part if each.partition == partition)

    def around(self, partition: int, first: int, last: int) -> list[Part]:
        """Return the parts that have records in these ranges, narrowed to them."""
        chosen = [
            (part, [each for each in of_part if first <= each.number <= last])
            for part, of_part in zip(self.parts, self.found, strict=True)
            if part.partition == partition
        ]
        return [part.around(found) for part, found in chosen if found]


class Unclear(NamedTuple):
    """The result of comparing a partition's digests, and the parameters of that comparison."""

    partition: int
    shift: int
    explained: Explained
    compared: Compared


class Run(NamedTuple):
    """Consecutive ranges to compare record by record."""

    partition: int
    shift: int
    left: list[Part]
    right: list[Part]
    explained: Explained


def topic_parts(topic: LogSide, *, by_place: bool, tasks: int) -> list[Part]:
    """Split all records of a topic into parts. For a comparison by offset there are about `tasks` parts."""
    options = batch_options(topic.options())
    config = consumer_config(options.kafka, f"{options.group_id_prefix}-{uuid.uuid4()}", options.security)
    whole = [OffsetRange(topic.topic, each, topic.starts.get(each, 0), end) for each, end in topic.ends.items()]
    total = sum(each.size for each in whole)
    found: list[Part] = []
    for each in whole:
        count = 1 if by_place else max(1, min(-(-each.size // RANGE), round(tasks * each.size / max(1, total))))
        found += [
            TopicPart(options=options, config=config, range=part, place=1 if by_place else None)
            for part in divide(each, count)
        ]
    return found


def file_parts(directory: Path) -> list[Part]:
    """Return the files of an archive as parts."""
    return [
        FilePart(path=str(each), partition=int(each.parent.name.removeprefix(PARTITION)))
        for each in files_of(directory)
    ]


def digested(session: SparkSession, how: Compare, *sides: Sequence[Part]) -> list[Side]:
    """Compute the digests of each side. Raises JobFailed."""
    every = [part for side in sides for part in side]
    found = in_tasks(session, every, lambda part: digests(part.partition, part.prints(how)))
    answer, at = [], 0
    for side in sides:
        answer.append(Side(side, found[at : at + len(side)]))
        at += len(side)
    return answer


def tallied(session: SparkSession, how: Compare, left: Side, right: Side, found: Sequence[Unclear]) -> list[Tally]:
    """Return the tallies of all partitions. Ranges whose digests differ are compared record by record. Raises
    JobFailed."""
    wanted = [
        Run(
            each.partition,
            each.shift,
            left.around(each.partition, *run),
            right.around(each.partition, *run),
            each.explained,
        )
        for each in found
        for run in runs(each.compared.unclear)
    ]

    def compare(run: Run) -> list[Tally]:
        ours, theirs = ((each for part in side for each in part.prints(how)) for side in (run.left, run.right))
        return pairs(run.partition, run.shift, ours, theirs, run.explained)

    by_records = in_tasks(session, wanted, compare)
    return together(
        [each for one in found for each in one.compared.tallies] + [each for one in by_records for each in one]
    )


def in_tasks(session: SparkSession, items: Sequence[T], function: Callable[[T], R]) -> list[R]:
    """Call `function` with each item in a Spark task. The results are in the order of `items`. Raises JobFailed."""
    if not items:
        return []
    with spark_errors():
        found: list[R] = session.sparkContext.parallelize(items, min(len(items), TASKS_MAX)).map(function).collect()
    return found
