"""Maintain an Iceberg table: merge its small files, and expire its old snapshots.

Files are merged if they belong to the same partition of the table and of the topic, have columns that can be read as
the table's present ones, and have no deleted rows. Tasks read them and write the merged files into a run's directory
(iceberg_files.py). One commit replaces all of them, or none. Other writers may append in between. After any other
change nothing is committed.

pyiceberg removes expired snapshots from the table's metadata, but keeps their files. Files that no other snapshot has
are removed here.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from kraft.spark.jobs.evolution import is_list, is_wider
from kraft.spark.jobs.iceberg import TableName, committed, error_line, plain_type, reloaded, require_table
from kraft.spark.jobs.iceberg_files import TableLayout, data_files, remove_orphans, table_layout
from kraft.spark.jobs.iceberg_reading import ROWS_MAX, bounds
from kraft.spark.jobs.parquet_files import Slot, codec_of
from kraft.spark.jobs.running import JobFailed, Part, Say, Work, spark_errors
from kraft.spark.jobs.watching import watched

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask, Table, Transaction
    from pyspark.sql import SparkSession

TASKS_MAX = 1000
FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactTable:
    """The parameters of a compaction. Files of `bytes_max` bytes or more are not changed. Smaller files are merged into
    files of about that size."""

    table: TableName
    bytes_max: int = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintain:
    """The parameters of maintenance. Snapshots that are older than `keep` expire."""

    table: TableName
    keep: timedelta


class TableMerge(NamedTuple):
    """Files to merge into one: the number of the group, the slot of the records (the slot's number is not used), and
    the locations of the files."""

    number: int
    slot: Slot
    files: list[str]


def check_compact_table(wanted: CompactTable, settings: Mapping[str, str]) -> None:
    """Check a compaction before it runs. Raises JobNotFound, JobFailed."""
    require_table(wanted.table)


def plan_compact_table(wanted: CompactTable, settings: Mapping[str, str]) -> dict[str, Any]:
    """Return what a compaction would do. Raises JobNotFound, JobFailed."""
    groups = merge_groups(require_table(wanted.table), wanted.bytes_max)
    return {
        "job": "compact",
        "dry_run": True,
        "table": wanted.table.shown,
        "files": sum(map(len, groups)),
        "files_after": len(groups),
        "bytes": sum(each.file.file_size_in_bytes for group in groups for each in group),
    }


def compact_table(session: SparkSession, wanted: CompactTable, say: Say) -> dict[str, Any]:
    """Merge the small files of a table, in one commit. Raises JobNotFound, JobFailed."""
    table = require_table(wanted.table)
    before = count_files(table)
    groups = merge_groups(table, wanted.bytes_max)
    if groups:
        with watched(session, say, f"merging {sum(map(len, groups))} files"):
            part = replace_files(session, table, groups)
        if part.records:
            say(part)
    return {
        "job": "compact",
        "table": wanted.table.shown,
        "files_before": before,
        "files_after": count_files(reloaded(table)),
    }


def count_files(table: Table) -> int:
    return sum(1 for _ in planned(table))


def planned(table: Table) -> list[FileScanTask]:
    try:
        return list(table.scan().plan_files())
    except Exception as problem:
        raise JobFailed(f"the table {'.'.join(table.name())} cannot be read: {error_line(problem)}") from problem


def merge_groups(table: Table, bytes_max: int) -> list[list[FileScanTask]]:
    """Return the groups of files to merge, in order of offsets: two or more files with at most `bytes_max` bytes in
    all. Left out are files whose statistics do not show a single topic and partition, files of other partition specs,
    and files with deleted rows."""
    found: dict[tuple[Any, ...], list[FileScanTask]] = {}
    for each in planned(table):
        file = each.file
        ends = [bounds(table, file, column) for column in ("topic", "partition", "offset")]
        alone = all(end is not None and (end[0] == end[1]) for end in ends[:2])
        if alone and ends[2] is not None and file.spec_id == table.spec().spec_id and not each.delete_files:
            record = tuple(file.partition[at] for at in range(len(table.spec().fields)))
            found.setdefault((record, ends[0], ends[1]), []).append(each)
    return [group for files in found.values() for group in in_size(table, files, bytes_max)]


def in_size(table: Table, files: Sequence[FileScanTask], bytes_max: int) -> Iterator[list[FileScanTask]]:
    def first(each: FileScanTask) -> int:
        end = bounds(table, each.file, "offset")
        assert end is not None
        return int(end[0])

    group: list[FileScanTask] = []
    size = 0
    for each in sorted(files, key=first):
        own = each.file.file_size_in_bytes
        if group and size + own > bytes_max:
            if len(group) > 1:
                yield group
            group, size = [], 0
        group.append(each)
        size += own
    if len(group) > 1:
        yield group


def replace_files(session: SparkSession, table: Table, groups: Sequence[Sequence[FileScanTask]]) -> Part:
    """Write the merged files in tasks, and replace the original files by them in one commit. Returns the records and
    bytes of the merged files, and the seconds taken. Raises JobFailed."""
    begun = time.monotonic()
    run, base = uuid.uuid4().hex, table.metadata.current_snapshot_id
    layout = table_layout(table, run, "", codec_of(session))
    by_size = sorted(range(len(groups)), key=lambda at: -sum(each.file.file_size_in_bytes for each in groups[at]))
    wanted = [merge_of(table, number, groups[number]) for number in by_size]
    with spark_errors():
        tasks = session.sparkContext.parallelize(wanted, max(1, min(len(wanted), TASKS_MAX)))
        rows = tasks.flatMap(lambda each: merged(each, layout)).collect()
    files = data_files(table, layout, rows, [groups[each["merge"]][0].file.partition for each in rows])
    check_counts(groups, rows)
    old = [one.file for each in rows for one in groups[each["merge"]]]
    if files:
        committed(table, "the merged files", lambda transaction: stage(transaction, table, base, old, files))
    remove_orphans(table, run, {each.file_path for each in files})
    return Part(
        sum(each.record_count for each in files),
        sum(each.file_size_in_bytes for each in files),
        time.monotonic() - begun,
    )


def merge_of(table: Table, number: int, group: Sequence[FileScanTask]) -> TableMerge:
    topic, partition = (bounds(table, group[0].file, each) for each in ("topic", "partition"))
    assert topic is not None
    assert partition is not None
    return TableMerge(number, Slot(topic[0], partition[0], 0), [each.file.file_path for each in group])


def merged(wanted: TableMerge, layout: TableLayout) -> list[dict[str, Any]]:
    """Merge the records of files into one file, and return its row. Returns nothing if a file's columns cannot be read
    as the table's."""
    from pyarrow.parquet import ParquetFile

    files = layout.files()
    for path in wanted.files:
        with files.storage.new_input(path).open() as stream, ParquetFile(stream) as file:
            if not fits(file.schema_arrow, files.columns):
                files.end()
                return []
            for batch in file.iter_batches(ROWS_MAX):
                files.hold(wanted.slot, files.shown(batch))
    return [{**each, "merge": wanted.number} for each in files.end().to_pylist()]


def fits(file: pa.Schema, table: pa.Schema) -> bool:
    """Whether the columns of a file are columns of the table, with the same ids and names, and the same types or
    narrower ones. Columns that the file lacks are null."""
    return all(each.name in table.names and field_fits(each, table.field(each.name)) for each in file)


def field_fits(file: pa.Field, table: pa.Field) -> bool:
    if (file.metadata or {}).get(FIELD_ID) != (table.metadata or {}).get(FIELD_ID):
        return False
    one, other = file.type, table.type
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return all(other.get_field_index(each.name) >= 0 and field_fits(each, other.field(each.name)) for each in one)
    if is_list(one) and is_list(other):
        return field_fits(one.value_field, other.value_field)
    if pa.types.is_map(one) and pa.types.is_map(other):
        return field_fits(one.key_field, other.key_field) and field_fits(one.item_field, other.item_field)
    return bool(plain_type(one) == plain_type(other) or is_wider(other, one))


def check_counts(groups: Sequence[Sequence[FileScanTask]], rows: Sequence[Mapping[str, Any]]) -> None:
    """Raise JobFailed if a merged file has another number of records than its source files."""
    for each in rows:
        had = sum(one.file.record_count for one in groups[each["merge"]])
        if each["records"] != had:
            raise JobFailed(
                f"a merged file has {each['records']} records, but its sources have {had}: nothing was changed"
            )


def stage(
    transaction: Transaction, table: Table, base: int | None, old: Sequence[DataFile], new: Sequence[DataFile]
) -> bool:
    """Stage the replacement of files. Raises JobFailed if another writer did anything but append since the snapshot
    `base`."""
    from pyiceberg.table.snapshots import Operation, ancestors_of

    for each in ancestors_of(table.current_snapshot(), table.metadata):
        if each.snapshot_id == base:
            break
        if each.summary is None or each.summary.operation != Operation.APPEND:
            raise JobFailed(
                f"the table {'.'.join(table.name())} was changed by another writer while its files were merged: "
                "nothing was committed; run the job again"
            )
    with transaction.update_snapshot().overwrite() as overwrite:
        for file in old:
            overwrite.delete_data_file(file)
        for file in new:
            overwrite.append_data_file(file)
    return True


def maintain(wanted: Maintain, now: datetime, say: Say) -> dict[str, Any]:
    """Expire old snapshots, and remove files that no other snapshot has. The current snapshot, and the snapshots of
    branches and tags, are kept. Raises JobNotFound, JobFailed."""
    say(Work("expiring snapshots"))
    table = require_table(wanted.table)
    before, files = len(table.snapshots()), all_files(table)

    def expire(transaction: Transaction) -> bool:
        from pyiceberg.table.update.snapshot import ExpireSnapshots

        expired = expired_in(table, wanted, now)
        if expired:
            ExpireSnapshots(transaction).by_ids(expired).commit()
        return bool(expired)

    removed: set[str] = set()
    if committed(table, "the expiry of snapshots", expire):
        removed = files - all_files(reloaded(table))
        for done, each in enumerate(sorted(removed)):
            say(Work("removing files", done, len(removed)))
            table.io.delete(each)
        say(Work("removing files", len(removed), len(removed)))
    return {
        "job": "maintain",
        "table": wanted.table.shown,
        "snapshots_before": before,
        "snapshots_after": len(table.snapshots()),
        "files_removed": len(removed),
    }


def plan_maintain(wanted: Maintain, now: datetime) -> dict[str, Any]:
    """Return what maintenance would do. Raises JobNotFound, JobFailed."""
    table = require_table(wanted.table)
    return {
        "job": "maintain",
        "dry_run": True,
        "table": wanted.table.shown,
        "snapshots": len(table.snapshots()),
        "snapshots_expired": len(expired_in(table, wanted, now)),
    }


def expired_in(table: Table, wanted: Maintain, now: datetime) -> list[int]:
    """Return the snapshots that are too old. The current snapshot, and snapshots that a branch or tag refers to, are
    left out."""
    protected = {each.snapshot_id for each in table.refs().values()}
    limit_ms = int((now - wanted.keep).timestamp() * 1000)
    old = [each.snapshot_id for each in table.snapshots() if each.timestamp_ms < limit_ms]
    return [each for each in old if each not in protected]


def all_files(table: Table) -> set[str]:
    """Return the locations of the manifest lists, manifests, and files of all snapshots."""
    found: set[str] = set()
    for snapshot in table.snapshots():
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in found:
                found.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                found |= {each.data_file.file_path for each in entries}
    return found
