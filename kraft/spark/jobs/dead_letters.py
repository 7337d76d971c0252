"""Dead letters of an archive: records whose values do not fit the schema go to a topic, not to the archive.

A task writes such records to a Parquet file of its own beside its data files, and returns a row for it. The driver
writes all of a micro-batch to the topic in one transaction, before it commits the micro-batch's data files. The sink
knows the last micro-batch of the query. So a micro-batch that is repeated has its dead letters in the topic once.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from kraft.spark.decode.rows import HEADERS_TYPE
from kraft.spark.decode.shape import BAD
from kraft.spark.jobs.access import Access
from kraft.spark.jobs.files import ERROR_HEADER
from kraft.spark.jobs.running import JobFailed

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetWriter
    from pyspark.sql import SparkSession

TOPIC_HEADER, PARTITION_HEADER, OFFSET_HEADER = "kraft.topic", "kraft.partition", "kraft.offset"
SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS_TYPE),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
    ]
)


class Opens(Protocol):
    """The methods of a layout that read the files of its tasks."""

    def opened(self, name: str) -> Any: ...

    def check_sizes(self, sizes: Mapping[str, int]) -> None: ...


class DeadFile:
    """The dead letters of one task. `created` opens a file of that name for writing."""

    def __init__(self, created: Callable[[str], IO[bytes]]) -> None:
        self.created = created
        self.name = f"dead-{uuid.uuid4().hex}.parquet"
        self.records = 0
        self.stream: IO[bytes] | None = None
        self.writer: ParquetWriter | None = None

    def parted(self, rows: pa.RecordBatch, shown: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Write the bad records of a batch to the file. Returns the other rows, in both forms. `rows` are the source's
        rows. `shown` are the same rows with the columns of the files, and the column of reasons, which is removed."""
        bad = shown.column(BAD)
        kept = shown.select([each for each in shown.schema.names if each != BAD])
        if bad.null_count == len(bad):
            return rows, kept
        is_bad, is_good = bad.is_valid(), bad.is_null()
        self.write(rows.filter(is_bad), pc.struct_field(bad, "reason").filter(is_bad))
        return rows.filter(is_good), kept.filter(is_good)

    def write(self, rows: pa.RecordBatch, reasons: pa.Array) -> None:
        from pyarrow.parquet import ParquetWriter

        if self.writer is None:
            self.stream = self.created(self.name)
            self.writer = ParquetWriter(self.stream, SCHEMA, compression="snappy")
        self.writer.write_batch(letters(rows, reasons))
        self.records += rows.num_rows

    def end(self) -> list[dict[str, Any]]:
        """Close the file and return its row; no row if there are no dead letters."""
        if self.writer is None or self.stream is None:
            return []
        self.writer.close()
        size = self.stream.tell()
        self.stream.close()
        return [{"name": self.name, "bytes": size, "dead": self.records}]


def letters(rows: pa.RecordBatch, reasons: pa.Array) -> pa.RecordBatch:
    """Return the records for the dead letter topic. They keep key, value and headers. Further headers give the record's
    topic, partition and offset, and the reason."""
    found = []
    for row, reason in zip(rows.to_pylist(), reasons.to_pylist(), strict=True):
        given = {
            TOPIC_HEADER: row["topic"],
            PARTITION_HEADER: str(row["partition"]),
            OFFSET_HEADER: str(row["offset"]),
            ERROR_HEADER: reason,
        }
        headers = [*(row["headers"] or ()), *({"key": name, "value": text.encode()} for name, text in given.items())]
        found.append({"key": row["key"], "value": row["value"], "headers": headers, "timestamp": row["timestamp"]})
    return pa.RecordBatch.from_pylist(found, schema=SCHEMA)


def divided(rows: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Return the rows of data files, and the rows of files of dead letters."""
    given = list(rows)
    return [each for each in given if not each["dead"]], [each for each in given if each["dead"]]


@dataclass(slots=True)
class DeadLetters:
    """Writes the dead letters of micro-batches to a topic; without a topic there are none. `records` counts them."""

    at: Access
    topic: str | None
    records: int = 0

    @property
    def summary(self) -> dict[str, int]:
        return {} if self.topic is None else {"dead_letters": self.records}

    def write(self, session: SparkSession, layout: Opens, rows: Sequence[Any]) -> None:
        """Write the dead letters of one micro-batch. To be called in the thread of the micro-batch. Raises JobFailed
        for a file that is missing or was changed since its task wrote it."""
        from pyarrow import parquet

        if not rows:
            return
        if self.topic is None:
            raise JobFailed("a task has set records aside, but the job has no topic for dead letters")
        layout.check_sizes({each["name"]: each["bytes"] for each in rows})
        tables = []
        for each in sorted(rows, key=lambda row: str(row["name"])):
            with layout.opened(each["name"]) as stream:
                tables.append(parquet.read_table(stream, schema=SCHEMA))
        frame = session.createDataFrame(pa.concat_tables(tables))
        writer = frame.write.format("kraft").options(**self.at.options)
        writer = writer.option("topic", self.topic).option("exactlyOnce", "true").option("keepTimestamp", "true")
        # A repeated micro-batch may lack records that retention has deleted since.
        writer.option("onDifference", "keep").mode("append").save()
        self.records += sum(each["dead"] for each in rows)
