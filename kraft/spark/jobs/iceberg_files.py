"""Data files of an Iceberg table: tasks write the files in their final place, and the driver describes them for a
commit.

Each run has its own directory below the table's data. Object stores cannot rename, so a file has its final name from
the start, and becomes part of the table only by the commit. Files of a failed or late task are in no commit. The run
removes them at its end. A later run removes the files of a killed run.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kraft.spark.jobs.parquet_files import DAY_US, HOUR_US, File, Numbers, Slot, TaskFiles, as_in, parsed, serialized
from kraft.spark.jobs.running import JobFailed

if TYPE_CHECKING:
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.typedef import Record

CODEC = "write.parquet.compression-codec"
SECRETS = ("uri", "token", "credential", "oauth2-server-uri", "scope")
"""Properties that only the catalog needs. They are not passed to tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """How a run writes files. `place` is its directory. `columns` is the serialized schema with Iceberg's ids. `unit`
    is the period of the records in one file: `hour`, `day`, `month`, or empty for any. `access` has the properties for
    the storage."""

    place: str
    columns: str
    unit: str
    codec: str
    access: Mapping[str, str]
    by: tuple[str, ...] = ()
    """Part of the interface of Layout. Empty: the files keep all columns."""
    sets_aside: bool = False
    """Whether bad records go to files of dead letters."""

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> TableLayout:
        found = json.loads(text)
        return cls(**{**found, "by": tuple(found["by"])})

    def files(self) -> TableFiles:
        return TableFiles(self)

    def opened(self, name: str) -> Any:
        """Open a file of a task for reading."""
        return storage(self.access).new_input(f"{self.place}/{name}").open()

    def check_sizes(self, sizes: Mapping[str, int]) -> None:
        check_whole(self, sizes)


def table_layout(table: Table, run: str, unit: str, codec: str, *, sets_aside: bool = False) -> TableLayout:
    """Return the layout of a run."""
    given = table.metadata.properties.get(CODEC, codec)
    return TableLayout(
        place=place_of(table, run),
        columns=serialized(arrow_columns(table)),
        unit=unit,
        codec="none" if given == "uncompressed" else given,
        access=access_of(table),
        sets_aside=sets_aside,
    )


def arrow_columns(table: Table) -> pa.Schema:
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return schema_to_pyarrow(table.schema(), include_field_ids=True)


def access_of(table: Table) -> dict[str, str]:
    """Return the properties with which tasks access the storage."""
    return {name: str(value) for name, value in table.io.properties.items() if name not in SECRETS}


def storage(access: Mapping[str, str]) -> PyArrowFileIO:
    from pyiceberg.io.pyarrow import PyArrowFileIO

    return PyArrowFileIO(dict(access))


def place_of(table: Table, run: str) -> str:
    return f"{table.location_provider().data_path}/kraft-{run}"


class TableFiles(TaskFiles):
    """Writes the rows of one task to data files."""

    def __init__(self, layout: TableLayout) -> None:
        self.table = layout
        self.storage = storage(layout.access)
        super().__init__(layout)
        self.footers: dict[str, list[Any]] = {}
        self.streams: dict[str, Any] = {}

    @cached_property
    def columns(self) -> pa.Schema:
        return parsed(self.table.columns)

    def numbers(self, times: pa.Array) -> Numbers:
        """Return the hour, day or month since 1970 of each time; without a unit, 0."""
        found = np.asarray(times.cast(pa.int64()))
        if self.table.unit == "month":
            return found.astype("M8[us]").astype("M8[M]").astype(np.int64)
        return found // {"hour": HOUR_US, "day": DAY_US}[self.table.unit] if self.table.unit else np.zeros_like(found)

    def shown(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with the table's columns."""
        return as_in(self.columns, rows)

    def created(self, name: str) -> Any:
        return self.storage.new_output(f"{self.table.place}/{name}").create()

    def begun(self, first: int, schema: pa.Schema) -> File:
        from pyarrow.parquet import ParquetWriter

        name = f"{uuid.uuid4().hex}.parquet"
        self.footers[name] = []
        self.streams[name] = self.created(name)
        writer = ParquetWriter(
            self.streams[name],
            schema,
            compression=self.table.codec,
            store_schema=False,
            version="2.6",
            metadata_collector=self.footers[name],
        )
        return File(name, first, writer)

    def row_of(self, slot: Slot, file: File) -> dict[str, Any]:
        stream = self.streams.pop(file.name)
        size = stream.tell()
        stream.close()
        footer = io.BytesIO()
        self.footers.pop(file.name)[0].write_metadata_file(footer)
        return {
            "name": file.name,
            "topic": slot.topic,
            "partition": slot.partition,
            "time": begun_at(slot.number, self.table.unit),
            "first": file.first,
            "records": file.records,
            "bytes": size,
            "footer": footer.getvalue(),
        }


def begun_at(number: int, unit: str) -> int:
    """Return the start of an hour, day or month counted since 1970, in microseconds."""
    if unit == "month":
        return int(np.datetime64(number, "M").astype("M8[D]").astype(np.int64)) * DAY_US
    return number * {"hour": HOUR_US, "day": DAY_US}.get(unit, 0)


def data_files(
    table: Table, layout: TableLayout, rows: Iterable[Any], partitions: Sequence[Record] | None = None
) -> list[DataFile]:
    """Describe the files of tasks, given by their rows, for a commit. `partitions` are the table's partitions, needed
    if they cannot be derived from the rows. Raises JobFailed for a file that is missing or was changed since its task
    wrote it."""
    given = list(rows)
    check_whole(layout, {each["name"]: each["bytes"] for each in given})
    known = partitions if partitions is not None else [partition_of(table, each) for each in given]
    return [data_file(table, layout, *both) for both in zip(given, known, strict=True)]


def check_whole(layout: TableLayout, sizes: Mapping[str, int]) -> None:
    access = storage(layout.access)
    scheme, netloc, path = access.parse_location(layout.place)
    seen = access.fs_by_scheme(scheme, netloc).get_file_info([f"{path}/{name}" for name in sizes])
    for each, size in zip(seen, sizes.values(), strict=True):
        if each.size != size:
            what = f"has {each.size} bytes" if each.is_file else "is not there"
            raise JobFailed(
                f"{each.path} {what}, but its task wrote {size} bytes: Spark's executors need the "
                "table's files under the same path as this process"
            )


def partition_of(table: Table, row: Any) -> Record:
    """Return the table partition of a file's records."""
    from pyiceberg.typedef import Record

    source = {"topic": row["topic"], "partition": row["partition"], "timestamp": row["time"]}
    values = []
    for each in table.spec().fields:
        column = table.schema().find_field(each.source_id)
        values.append(each.transform.transform(column.field_type)(source[column.name]))
    return Record(*values)


def data_file(table: Table, layout: TableLayout, row: Any, partition: Record) -> DataFile:
    """Describe a file with the statistics of its footer."""
    from pyarrow import parquet
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{layout.place}/{row['name']}",
        file_format=FileFormat.PARQUET,
        partition=partition,
        file_size_in_bytes=row["bytes"],
        sort_order_id=None,
        spec_id=table.spec().spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics(table, parquet.read_metadata(io.BytesIO(row["footer"]))),
    )


def statistics(table: Table, footer: Any) -> dict[str, Any]:
    """Return the statistics that Iceberg keeps of a file. A column is left out if the file has no statistics for it (a
    value is too long), or if Python cannot represent its times (years beyond 9999)."""
    from pyiceberg.io.pyarrow import (
        MetricModeTypes,
        MetricsMode,
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
    )

    ids = parquet_path_to_id_mapping(table.schema())
    plan = compute_statistics_plan(table.schema(), table.metadata.properties)
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            number = ids[column.path_in_schema]
            if not is_usable(column):
                plan[number] = replace(plan[number], mode=MetricsMode(MetricModeTypes.NONE))
    found = data_file_statistics_from_parquet_metadata(
        parquet_metadata=footer, stats_columns=plan, parquet_column_mapping=ids
    )
    return dict(found.to_serialized_dict())


def is_usable(column: Any) -> bool:
    try:
        return bool(column.is_stats_set) and (column.statistics.min, column.statistics.max) is not None
    except (OverflowError, ValueError, NotImplementedError):
        return False


def files_in(table: Table, run: str) -> Iterator[str]:
    """Return the locations of all files that a run has written."""
    from pyarrow.fs import FileSelector

    place = place_of(table, run)
    io_of = storage(access_of(table))
    scheme, netloc, path = io_of.parse_location(place)
    for each in io_of.fs_by_scheme(scheme, netloc).get_file_info(FileSelector(path, allow_not_found=True)):
        if each.is_file:
            yield f"{place}/{each.base_name}"


def remove_orphans(table: Table, run: str, kept: set[str] | None = None) -> int:
    """Remove the files of a run that are in no snapshot of the table. Returns how many were removed. `kept` are the
    locations of the files in a snapshot, if the caller knows them. The run must no longer be able to commit the files.
    """
    found = set(files_in(table, run))
    known = kept if kept is not None else (referenced(table) if found else set())
    access = storage(access_of(table))
    for each in sorted(found - known):
        access.delete(each)
    return len(found - known)


def referenced(table: Table) -> set[str]:
    """Return the locations of the data files of all snapshots."""
    found, seen = set(), set()
    for snapshot in table.snapshots():
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                found |= {each.data_file.file_path for each in entries}
    return found
