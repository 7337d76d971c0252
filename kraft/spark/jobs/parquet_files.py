"""Write Parquet files in tasks by pyarrow, and move them to where readers find them.

A task writes to unique names in a hidden directory of the run, and returns the files that it wrote. The driver moves
only the files that it receives from Spark. Files of a failed or late task stay in the hidden directory, and are removed
with it. Once the hidden directory is removed, no task can write to it.
"""

from __future__ import annotations

import base64
import datetime
import itertools
import json
import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kraft.spark.jobs.dead_letters import DeadFile
from kraft.spark.jobs.pending_renames import REPLACED, WRITING
from kraft.spark.jobs.running import JobFailed

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile, ParquetWriter
    from pyspark.sql import SparkSession

Numbers = npt.NDArray[np.int64]
HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
HELD_BYTES_MAX = 64 << 20
"""Bytes of rows that a task holds before it writes them. They become the row groups of its files."""
OPEN_MAX = 100
"""Files that a task has open. With more directories than this, a directory gets several files of a task."""
CODEC = "spark.sql.parquet.compression.codec"
CODECS = {"none": "none", "uncompressed": "none", "lz4_raw": "lz4", "lz4": "lz4"}
"""pyarrow's names for codecs that have another name in Spark. Spark's lz4 is a form that Parquet has deprecated."""
INT96 = pa.timestamp("ns")
"""The type as which pyarrow reads INT96."""
SCHEMA = pa.schema(
    [
        pa.field("name", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("day", pa.string()),
        pa.field("hour", pa.int32()),
        pa.field("first", pa.int64()),
        pa.field("records", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("time", pa.int64()),
        pa.field("footer", pa.binary()),
        pa.field("dead", pa.int64()),
    ]
)
DDL = (
    "name STRING, topic STRING, partition INT, day STRING, hour INT, first BIGINT, records BIGINT, bytes BIGINT, "
    "time BIGINT, footer BINARY, dead BIGINT"
)
"""The row that describes a file. `day` and `hour`, or `time` (in microseconds since 1970), give the period of its
records. For a file of a table, the row also has the file's Parquet footer. A row for a file of dead letters has only
`name`, `bytes` and `dead`, the number of its records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a run writes files. `staging` is its hidden directory. `by` are the columns that name directories, outermost
    first. `int96`: times are written as INT96, as plain archives always had them. `columns` is the serialized schema of
    the files; empty: that of the rows. `sets_aside`: bad records go to files of dead letters."""

    staging: str
    by: tuple[str, ...]
    codec: str
    int96: bool
    columns: str = ""
    sets_aside: bool = False

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> Layout:
        found = json.loads(text)
        return cls(**{**found, "by": tuple(found["by"])})

    def files(self) -> TaskFiles:
        return PlainFiles(self)

    def opened(self, name: str) -> Any:
        """Open a file of a task for reading."""
        return (Path(self.staging) / name).open("rb")

    def check_sizes(self, sizes: Mapping[str, int]) -> None:
        """Raise JobFailed if a file does not have the size that its task reported."""
        for name, size in sizes.items():
            check_whole(Path(self.staging) / name, size)


def serialized(columns: pa.Schema) -> str:
    """Return the columns as text, for a layout."""
    return base64.b64encode(columns.serialize().to_pybytes()).decode()


def parsed(columns: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(columns)))


class AnyLayout(Protocol):
    """The interface of a layout for the driver and the tasks of a run."""

    @property
    def by(self) -> tuple[str, ...]: ...

    @property
    def sets_aside(self) -> bool: ...

    def text(self) -> str: ...

    def files(self) -> TaskFiles: ...


def codec_of(session: SparkSession) -> str:
    """Return pyarrow's name of the codec that Spark is configured to use for Parquet."""
    name = (session.conf.get(CODEC, "snappy") or "snappy").lower()
    return CODECS.get(name, name)


class Slot(NamedTuple):
    """The directory of one partition's records of one day, or hour. `number` counts days or hours since 1970."""

    topic: str
    partition: int
    number: int


@dataclass(slots=True)
class File:
    """An open file of a task, and the first offset in it."""

    name: str
    first: int
    writer: ParquetWriter
    records: int = 0


class TaskFiles(ABC):
    """Writes the rows of one task. Memory is bounded by HELD_BYTES_MAX plus the rows of one fetch."""

    def __init__(self, layout: AnyLayout) -> None:
        self.by = layout.by
        self.held: dict[Slot, list[pa.RecordBatch]] = {}
        self.firsts: dict[Slot, int] = {}  # first offset of the buffered rows
        self.held_bytes = 0
        self.open: dict[Slot, File] = {}  # the one that was written last is the last
        self.closed: list[dict[str, Any]] = []
        self.dead = DeadFile(self.created) if layout.sets_aside else None

    def add(self, rows: pa.RecordBatch, shown: pa.RecordBatch) -> None:
        """Add rows of one partition in order of offsets. `shown` are the same rows with the columns of the files."""
        if self.dead is not None:
            rows, shown = self.dead.parted(rows, shown)
        if not rows.num_rows:
            return
        topic, partition = rows.column("topic")[0].as_py(), rows.column("partition")[0].as_py()
        numbers, offsets = self.numbers(rows.column("timestamp")), np.asarray(rows.column("offset"))
        kept = self.shown(shown)
        if (numbers[1:] < numbers[:-1]).any():
            order = np.argsort(numbers, kind="stable")
            kept, numbers, offsets = kept.take(pa.array(order)), numbers[order], offsets[order]
        cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        for start, end in itertools.pairwise(cuts):
            slot = Slot(topic, partition, int(numbers[start]))
            self.firsts.setdefault(slot, int(offsets[start]))
            self.held.setdefault(slot, []).append(kept.slice(start, end - start))
        self.held_bytes += kept.nbytes
        if self.held_bytes >= HELD_BYTES_MAX:
            self.flush()

    def hold(self, slot: Slot, rows: pa.RecordBatch) -> None:
        """Buffer rows of this slot. The rows have the columns of the files."""
        if rows.num_rows:
            self.firsts.setdefault(slot, rows.column("offset")[0].as_py())
            self.held.setdefault(slot, []).append(rows)
            self.held_bytes += rows.nbytes
            if self.held_bytes >= HELD_BYTES_MAX:
                self.flush()

    def flush(self) -> None:
        """Write the buffered rows. Beyond OPEN_MAX open files, the least recently written one is closed."""
        for slot, batches in self.held.items():
            file = self.open.pop(slot, None)
            if file is None:
                if len(self.open) >= OPEN_MAX:
                    self.close(next(iter(self.open)))
                file = self.begun(self.firsts[slot], batches[0].schema)
            self.open[slot] = file
            table = pa.Table.from_batches(batches)
            file.writer.write_table(table)
            file.records += table.num_rows
        self.held.clear()
        self.firsts.clear()
        self.held_bytes = 0

    def close(self, slot: Slot) -> None:
        file = self.open.pop(slot)
        file.writer.close()
        self.closed.append(self.row_of(slot, file))

    def end(self) -> pa.RecordBatch:
        """Close all files. Return one row for each."""
        self.flush()
        for slot in list(self.open):
            self.close(slot)
        dead = [] if self.dead is None else self.dead.end()
        return pa.RecordBatch.from_pylist([*self.closed, *dead], schema=SCHEMA)

    @abstractmethod
    def numbers(self, times: pa.Array) -> Numbers:
        """Return the number of the directory, or partition, of each time."""

    @abstractmethod
    def shown(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with the columns of the files."""

    @abstractmethod
    def created(self, name: str) -> Any:
        """Open a file of this name for writing."""

    @abstractmethod
    def begun(self, first: int, schema: pa.Schema) -> File:
        """Open a file that starts with this offset."""

    @abstractmethod
    def row_of(self, slot: Slot, file: File) -> dict[str, Any]:
        """Return the row that describes a closed file."""


class PlainFiles(TaskFiles):
    """Writes files below the hidden directory of the run."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        self.layout = layout
        self.by_hour = "hour" in layout.by
        self.columns = parsed(layout.columns) if layout.columns else None

    def numbers(self, times: pa.Array) -> Numbers:
        return np.asarray(times.cast(pa.int64())) // (HOUR_US if self.by_hour else DAY_US)

    def shown(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        kept = rows.select([name for name in rows.schema.names if name not in self.by])
        return kept if self.columns is None else as_in(self.columns, kept)

    def created(self, name: str) -> Any:
        return (Path(self.layout.staging) / name).open("wb")

    def begun(self, first: int, schema: pa.Schema) -> File:
        name, how = f"{uuid.uuid4().hex}.parquet", self.layout
        return File(name, first, parquet_writer(Path(how.staging) / name, schema, codec=how.codec, int96=how.int96))

    def row_of(self, slot: Slot, file: File) -> dict[str, Any]:
        return {
            "name": file.name,
            "topic": slot.topic,
            "partition": slot.partition,
            "day": day_of(slot.number // 24 if self.by_hour else slot.number),
            "hour": slot.number % 24 if self.by_hour else None,
            "first": file.first,
            "records": file.records,
            "bytes": (Path(self.layout.staging) / file.name).stat().st_size,
        }


def as_in(columns: pa.Schema, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows in the types of a table's columns. A nested field that the rows lack is null."""
    known = [columns.field(name) for name in columns.names if name in rows.schema.names]
    arrays = [rows.column(each.name).cast(each.type) for each in known]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(known))


def parquet_writer(path: Path, schema: pa.Schema, *, codec: str, int96: bool) -> ParquetWriter:
    """Open a file for writing. Like a file of Spark, it has no Arrow schema in its metadata."""
    from pyarrow.parquet import ParquetWriter

    return ParquetWriter(
        path, schema, compression=codec, use_deprecated_int96_timestamps=int96, store_schema=False, version="2.6"
    )


def day_of(number: int) -> str:
    """Format a day since 1970 as Spark does: years beyond 9999 have a sign."""
    if datetime.date.min.toordinal() <= number + EPOCH <= datetime.date.max.toordinal():
        return datetime.date.fromordinal(number + EPOCH).isoformat()
    found = str(np.datetime64(number, "D"))
    if number > 0:
        return f"+{found}"
    year, _, rest = found.lstrip("-").partition("-")
    return f"{'-' if found.startswith('-') else ''}{int(year):04d}-{rest}"


EPOCH = datetime.date(1970, 1, 1).toordinal()


@contextmanager
def staging(place: Path) -> Iterator[Path]:
    """Yield a hidden directory for the files of a run's tasks. It is removed at the end."""
    place.mkdir(parents=True, exist_ok=True)
    found = place / f"{WRITING}{uuid.uuid4().hex}"
    found.mkdir()
    try:
        yield found
    finally:
        # Late tasks find no directory of this name, and add nothing while it is emptied.
        gone = found.rename(place / f"{REPLACED}{found.name}")
        shutil.rmtree(gone)


def put(found: Iterable[Any], layout: Layout, place: Path) -> None:
    """Move the files of tasks, given by their rows, to their directories below `place`, which is recreated. Raises
    JobFailed for a file that is missing or was changed since its task wrote it."""
    if place.exists():
        shutil.rmtree(place)
    place.mkdir()
    for each in found:
        path = Path(layout.staging) / each["name"]
        check_whole(path, each["bytes"])
        inner = place.joinpath(*(f"{name}={each[name]}" for name in layout.by))
        inner.mkdir(parents=True, exist_ok=True)
        path.rename(inner / f"part-{each['first']:020d}-{each['name']}")


def check_whole(path: Path, size: int) -> None:
    """Raise JobFailed if the file does not have the size that its task reported."""
    has = path.stat().st_size if path.is_file() else None
    if has != size:
        what = "is not there" if has is None else f"has {has} bytes"
        raise JobFailed(
            f"{path} {what}, but its task wrote {size} bytes: Spark's executors need the directory "
            "of the archive under the same path as this process"
        )


class Merge(NamedTuple):
    """Files to merge into one, or into several of at most `records_max` records. `name` identifies the merge."""

    name: str
    paths: Sequence[str]
    records_max: int


def merged(wanted: Merge, layout: Layout) -> list[dict[str, Any]]:
    """Write the rows of files in order of offsets. Returns name, merge, records, bytes and first offset of each file.
    Row groups that overlap are sorted together; otherwise memory is bounded by one row group. Times are written
    unchanged."""
    schemas, groups = seen(wanted.paths)
    int96 = any(schema.field("timestamp").type == INT96 for schema in schemas)
    schema = pa.unify_schemas([read_plain(each) for each in schemas])
    found: list[dict[str, Any]] = []
    writer: ParquetWriter | None = None

    def end() -> None:
        if writer is not None:
            writer.close()
            found[-1]["bytes"] = (Path(layout.staging) / found[-1]["name"]).stat().st_size

    for rows in in_order(groups, schema):
        at = 0
        while at < rows.num_rows:
            if writer is None or found[-1]["records"] == wanted.records_max:
                end()
                name, first = f"{uuid.uuid4().hex}.parquet", rows.column("offset")[at].as_py()
                found.append({"name": name, "merge": wanted.name, "records": 0, "first": first})
                writer = parquet_writer(Path(layout.staging) / name, schema, codec=layout.codec, int96=int96)
            part = rows.slice(at, wanted.records_max - found[-1]["records"])
            writer.write_table(part)
            found[-1]["records"] += part.num_rows
            at += part.num_rows
    end()
    return found


def read_plain(schema: pa.Schema) -> pa.Schema:
    """Return the schema with the source's types of times."""
    return pa.schema([each.with_type(pa.timestamp("us", tz="UTC")) if each.type == INT96 else each for each in schema])


class RowGroup(NamedTuple):
    """A row group that is not empty, ordered by its offsets."""

    first: int
    last: int
    path: str
    number: int

    def read(self) -> pa.Table:
        from pyarrow.parquet import ParquetFile

        with ParquetFile(self.path, coerce_int96_timestamp_unit="us") as file:
            return file.read_row_group(self.number)


def seen(paths: Sequence[str]) -> tuple[list[pa.Schema], list[RowGroup]]:
    """Return the schema of each file, and all row groups in order. The files are not kept open: there may be more than
    the limit of open files."""
    from pyarrow.parquet import ParquetFile

    schemas, groups = [], []
    for path in paths:
        with ParquetFile(path) as file:
            schemas.append(file.schema_arrow)
            filled = [at for at in range(file.num_row_groups) if file.metadata.row_group(at).num_rows]
            groups += [RowGroup(*bounds(file, at), path, at) for at in filled]
    return schemas, sorted(groups)


def in_order(groups: Sequence[RowGroup], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows of row groups in order of offsets, in tables of about HELD_BYTES_MAX bytes or one row group."""
    held: list[pa.Table] = []
    size, last = 0, -1
    for each in groups:
        if size >= HELD_BYTES_MAX and each.first > last:
            yield sorted_rows(held)
            held, size = [], 0
        held.append(fitted(each.read(), schema))
        size += held[-1].nbytes
        last = max(last, each.last)
    if held:
        yield sorted_rows(held)


def bounds(file: ParquetFile, index: int) -> tuple[int, int]:
    """Return the first and last offset of a row group, from its statistics, or from its column if it has none."""
    from pyarrow.compute import min_max

    group = file.metadata.row_group(index)
    columns = [group.column(at) for at in range(group.num_columns)]
    statistics = next(each.statistics for each in columns if each.path_in_schema == "offset")
    if statistics is not None and statistics.has_min_max:
        return statistics.min, statistics.max
    found = min_max(file.read_row_group(index, columns=["offset"]).column("offset")).as_py()
    return found["min"], found["max"]


def fitted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows with the columns of the schema. A column that the rows lack is null."""
    columns = [
        rows.column(field.name).cast(field.type) if field.name in rows.schema.names else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def sorted_rows(tables: Sequence[pa.Table]) -> pa.Table:
    rows = pa.concat_tables(tables)
    offsets = np.asarray(rows.column("offset"))
    return rows if (offsets[1:] >= offsets[:-1]).all() else rows.take(pa.array(np.argsort(offsets, kind="stable")))
