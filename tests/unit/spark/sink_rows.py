"""Rows for a sink, as Spark hands them to a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from kraft.spark.decode.rows import HEADERS_TYPE
from kraft.spark.sink.incoming_columns import Incoming, incoming
from kraft.spark.sink.sink_options import SinkOptions

SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("partition", pa.int32()),
        pa.field("headers", HEADERS_TYPE),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
    ]
)
NOW_MS = 1_700_000_000_123


def sink(topic: str | None = None) -> SinkOptions:
    """One that takes all columns of SCHEMA."""
    return SinkOptions(
        topic=topic,
        config={},
        columns=tuple(SCHEMA.names),
        bootstrap="h:1",
        exactly_once=True,
        once_id="",
        codec=0,
        keep_timestamp=True,
    )


def arrow_batch(rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    """Of rows as (topic, key, value, partition, headers as pairs, timestamp in us)."""
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in SCHEMA]
    columns[4] = [each and [{"key": key, "value": value} for key, value in each] for each in columns[4]]
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def incoming_rows(rows: Sequence[tuple[Any, ...]]) -> Incoming:
    """Rows as `arrow_batch` takes them."""
    return incoming(sink(), arrow_batch(rows), NOW_MS)
