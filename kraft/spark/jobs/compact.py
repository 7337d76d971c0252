"""Merge small files of an archive into larger ones: the directories of consecutive micro-batches become one.

It is crash-safe. The merged directory is written under a hidden name, and its records are counted. Then
`_compaction.json` records which directory replaces which. Last, the directories are renamed: the replaced ones get
hidden names, and the merged one gets the name of the first. A crash before the file is written changes nothing. After a
later crash, the next run of `compact` or `archive` completes the renames. A reader never sees a record twice. During
the renames it misses the records being replaced.

The newest micro-batch is not merged: Spark may not have recorded it, and would write it again. A Delta table is
compacted by its library, in one commit.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kraft.spark.jobs.archive import BATCH, CHECKPOINT, TOPIC, WHOLE, is_archive
from kraft.spark.jobs.delta import is_table, require_library
from kraft.spark.jobs.early_files import check_readable, check_writable, local_checkpoint
from kraft.spark.jobs.job_state import Memory
from kraft.spark.jobs.parquet_files import Layout, Merge, check_whole, codec_of, merged, staging
from kraft.spark.jobs.pending_renames import MERGED, carry_out, note, sync
from kraft.spark.jobs.running import JobFailed, JobNotFound, Notice, Part, Say, spark_errors
from kraft.spark.jobs.watching import watched

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

FILE_RECORDS_MAX = 5_000_000
TASKS_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    """The parameters of a compaction. `bytes_max` is the approximate maximum size of a merged directory in bytes."""

    directory: str
    bytes_max: int = 1 << 30


class Sizes:
    """The number and bytes of files, before and after."""

    def __init__(self) -> None:
        self.before = self.after = 0


def check_compact(wanted: Compact, settings: Mapping[str, str]) -> None:
    """Check all that can be checked before Spark starts. `settings` are those for Spark. Writes nothing. Raises
    JobNotFound, JobFailed."""
    check_readable(Path(wanted.directory))
    for each in archives_in(Path(wanted.directory).absolute()):
        check_writable(each)
        if is_table(each):
            require_library()
        checkpoint = local_checkpoint(str(each / CHECKPOINT), settings)
        if checkpoint is not None:
            checkpoint.check_free()


def archives_in(place: Path) -> list[Path]:
    """Return the directory if it is an archive, else the archives in it. Raises JobNotFound if there is none."""
    found = [place] if is_archive(place) else [each for each in sorted(place.glob(f"{TOPIC}*")) if is_archive(each)]
    if not found:
        raise JobNotFound(f"{place} holds no archive (`kraft spark archive` creates one)")
    return found


def compact(session: SparkSession, wanted: Compact, say: Say) -> dict[str, Any]:
    """Compact an archive, or all archives in `topic=<name>` below the directory. Raises JobNotFound, JobFailed."""
    place = Path(wanted.directory).absolute()
    archives = archives_in(place)
    sizes = Sizes()
    for each in archives:
        memory = Memory(session, str(each / CHECKPOINT))
        with memory.alone(say):
            if is_table(each):
                compact_table(each, wanted.bytes_max, sizes, say)
            else:
                compact_files(session, each, wanted.bytes_max, sizes, say)
    return {
        "job": "compact",
        "directory": str(place),
        "archives": len(archives),
        "files_before": sizes.before,
        "files_after": sizes.after,
    }


def compact_table(place: Path, bytes_max: int, sizes: Sizes, say: Say) -> None:
    """Compact a Delta table. Replaced files are kept for readers of older versions until the table is vacuumed. Raises
    JobFailed."""
    require_library()
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    begun = time.monotonic()
    table = DeltaTable(str(place))
    before = files_of_table(table)
    sizes.before += len(before)
    try:
        table.optimize.compact(target_size=bytes_max)
    except DeltaError as problem:
        raise JobFailed(f"{place} was not compacted: {problem}") from problem
    after = files_of_table(DeltaTable(str(place)))
    sizes.after += len(after)
    if new := [after[each] for each in after.keys() - before]:
        records, size = (sum(each) for each in zip(*new, strict=True))
        say(Part(records, size, time.monotonic() - begun))


def files_of_table(table: DeltaTable) -> dict[str, tuple[int, int]]:
    """Return the records and bytes of each file of a Delta table."""
    import pyarrow as pa

    found = pa.table(table.get_add_actions(flatten=True)).select(["path", "num_records", "size_bytes"]).to_pylist()
    return {each["path"]: (each["num_records"] or 0, each["size_bytes"]) for each in found}


def compact_files(session: SparkSession, place: Path, bytes_max: int, sizes: Sizes, say: Say) -> None:
    carry_out(place)
    batches = sorted(each for each in place.glob(f"{BATCH}*") if (each / WHOLE).is_file())
    sizes.before += count_files(batches)
    for group in groups(batches[:-1], bytes_max):
        say(Notice(f"{len(group)} micro-batches from {group[0].name} on are merged into one"))
        with watched(session, say, f"merging {group[0].name}"):
            say(merge(session, place, group))
    sizes.after += count_files(sorted(place.glob(f"{BATCH}*")))


def groups(batches: Sequence[Path], bytes_max: int) -> Iterator[list[Path]]:
    """Yield runs of two or more consecutive directories that together have at most `bytes_max` bytes."""
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


def merge(session: SparkSession, place: Path, group: Sequence[Path]) -> Part:
    """Merge a group of directories into one, and return its records, its bytes and the seconds taken. Raises JobFailed
    if the merged directory does not have the same number of records."""
    begun = time.monotonic()
    new = place / f"{MERGED}{group[0].name}"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    with staging(place) as hidden:
        layout = Layout(staging=str(hidden), by=(), codec=codec_of(session), int96=False)
        wanted = merges(group)
        with spark_errors():
            tasks = session.sparkContext.parallelize(wanted, max(1, min(len(wanted), TASKS_MAX)))
            found = tasks.flatMap(lambda each: merged(each, layout)).collect()
        for each in found:
            check_whole(hidden / each["name"], each["bytes"])
            inner = new / each["merge"]
            inner.mkdir(parents=True, exist_ok=True)
            (hidden / each["name"]).rename(inner / f"part-{each['first']:020d}-{each['name']}")
    (new / WHOLE).touch()
    had, has = sum(map(count_records, group)), count_records(new)
    if had != has:
        raise JobFailed(f"{new} has {has} records, but its sources have {had}: nothing was changed")
    for path in sorted(new.rglob("*")):
        sync(path)
    note(place, new, group)
    carry_out(place)
    return Part(has, sum(each["bytes"] for each in found), time.monotonic() - begun)


def merges(group: Sequence[Path]) -> list[Merge]:
    """Return the merges to do: the files of the same inner directory become one, the largest group first."""
    paths: dict[str, list[Path]] = {}
    for each in group:
        for path in sorted(each.rglob("*.parquet")):
            paths.setdefault(str(path.parent.relative_to(each)), []).append(path)
    by_size = sorted(paths.items(), key=lambda item: -sum(path.stat().st_size for path in item[1]))
    return [Merge(name, [str(path) for path in found], FILE_RECORDS_MAX) for name, found in by_size]


def count_records(directory: Path) -> int:
    from pyarrow import parquet

    return sum(parquet.read_metadata(path).num_rows for path in directory.rglob("*.parquet"))


def count_files(directories: Sequence[Path]) -> int:
    return sum(1 for each in directories for _ in each.rglob("*.parquet"))
