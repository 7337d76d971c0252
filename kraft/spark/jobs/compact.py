"""Small files of an archive become larger ones: the directories of consecutive micro-batches become one.

It is crash-safe. The larger directory is written beside under a hidden name, and counted. Then `_compaction.json` tells
what takes the place of what, and the directories are renamed: those that are replaced get hidden names, then the
larger one takes the place of the first. Whoever is cut off before the file is there has changed nothing; behind it, the
next run of `compact` or `archive` carries out the rest. A reader never sees a record twice, and misses those that are
being replaced for as long as the renames take.

The newest micro-batch stays as it is: Spark may not have noted it, and would write it again. A Delta table is
compacted by its library, in one commit.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kraft.spark.jobs.archive import BATCH, CHECKPOINT, TOPIC, WHOLE, is_archive
from kraft.spark.jobs.delta import is_table, require_library
from kraft.spark.jobs.files import literal
from kraft.spark.jobs.memory import Memory
from kraft.spark.jobs.pending_renames import MERGED, carry_out, note, sync
from kraft.spark.jobs.running import JobFailed, JobNotFound, Notice, Say

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE_RECORDS_MAX = 5_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    """`bytes_max` is about the most that a directory of several micro-batches has."""

    directory: str
    bytes_max: int = 1 << 30


class Sizes:
    """Files and their bytes, before and after."""

    def __init__(self) -> None:
        self.before = self.after = 0


def compact(session: SparkSession, wanted: Compact, say: Say) -> dict[str, Any]:
    """An archive, or all those in `topic=<name>` below. Raises JobNotFound, JobFailed."""
    place = Path(wanted.directory).absolute()
    archives = [place] if is_archive(place) else [each for each in sorted(place.glob(f"{TOPIC}*")) if is_archive(each)]
    if not archives:
        raise JobNotFound(f"{wanted.directory} holds no archive (`kraft spark archive` makes one)")
    sizes = Sizes()
    for each in archives:
        memory = Memory(session, str(each / CHECKPOINT))
        with memory.alone(say):
            if is_table(each):
                compact_table(each, wanted.bytes_max, sizes)
            else:
                compact_files(session, each, wanted.bytes_max, sizes, say)
    return {
        "job": "compact",
        "directory": str(place),
        "archives": len(archives),
        "files_before": sizes.before,
        "files_after": sizes.after,
    }


def compact_table(place: Path, bytes_max: int, sizes: Sizes) -> None:
    """Raises JobFailed. Files that are replaced stay for readers of older versions, until somebody vacuums."""
    require_library()
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    table = DeltaTable(str(place))
    sizes.before += len(table.file_uris())
    try:
        table.optimize.compact(target_size=bytes_max)
    except DeltaError as problem:
        raise JobFailed(f"{place} was not compacted: {problem}") from problem
    sizes.after += len(DeltaTable(str(place)).file_uris())


def compact_files(session: SparkSession, place: Path, bytes_max: int, sizes: Sizes, say: Say) -> None:
    carry_out(place)
    batches = sorted(each for each in place.glob(f"{BATCH}*") if (each / WHOLE).is_file())
    sizes.before += count_files(batches)
    for group in groups(batches[:-1], bytes_max):
        say(Notice(f"{len(group)} micro-batches from {group[0].name} on become one"))
        merge(session, place, group)
    sizes.after += count_files(sorted(place.glob(f"{BATCH}*")))


def groups(batches: Sequence[Path], bytes_max: int) -> Iterator[list[Path]]:
    """Runs of directories, each of more than one, that have at most so many bytes together."""
    group: list[Path] = []
    size = 0
    for each in batches:
        own = sum(path.stat().st_size for path in each.rglob("*.parquet"))
        if group and size + own > bytes_max:
            if len(group) > 1:
                yield group
            group, size = [], 0
        group.append(each)
        size += own
    if len(group) > 1:
        yield group


def merge(session: SparkSession, place: Path, group: Sequence[Path]) -> None:
    """Raises JobFailed where the larger directory does not have what the others had."""
    by_hour = any(any(each.glob("day=*/hour=*")) for each in group)
    columns = ["day", "hour", "partition"] if by_hour else ["day", "partition"]
    merged = place / f"{MERGED}{group[0].name}"
    shutil.rmtree(merged, ignore_errors=True)
    filled = [each for each in group if any(each.rglob("*.parquet"))]
    if filled:
        rows = session.read.option("basePath", str(place)).parquet(*[literal(each) for each in filled]).drop("batch")
        tasks = in_order(rows, columns)
        tasks.write.option("maxRecordsPerFile", FILE_RECORDS_MAX).partitionBy(*columns).parquet(str(merged))
    else:
        merged.mkdir()
        (merged / WHOLE).touch()
    had, has = sum(map(count_records, group)), count_records(merged)
    if had != has or not (merged / WHOLE).is_file():
        raise JobFailed(f"{merged} has {has} records, and those that it is made of have {had}: nothing was changed")
    for path in sorted(merged.rglob("*")):
        sync(path)
    note(place, merged, group)
    carry_out(place)


def in_order(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """The rows of each file of a write by `columns` in the order of their offsets. They are sorted by these columns
    first: Spark sorts by them anew whatever is sorted otherwise, and keeps no order where it spills."""
    return rows.repartition(*columns).sortWithinPartitions(*columns, "offset")


def count_records(directory: Path) -> int:
    from pyarrow import parquet

    return sum(parquet.read_metadata(path).num_rows for path in directory.rglob("*.parquet"))


def count_files(directories: Sequence[Path]) -> int:
    return sum(1 for each in directories for _ in each.rglob("*.parquet"))
