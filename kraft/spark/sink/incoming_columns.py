"""The columns that Spark passes to a writing task, under the sink's names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraft.spark.errors import null_topic
from kraft.spark.sink.arrow_encoder import BINARY, Rows, binary, encode_headers
from kraft.spark.sink.sink_options import SinkOptions


class Incoming(NamedTuple):
    """Rows to write, the topic of each, and its partition if the row has one."""

    topics: str | pa.Array
    partitions: pa.Array | None
    rows: Rows

    def by_topic(self) -> Iterator[tuple[str, pa.Array | None, Rows]]:
        """Yield each topic with its partitions (if given) and its rows, in order. Raises SourceError for a row without
        a topic, before anything is yielded."""
        if not self.rows.records:
            return
        if isinstance(self.topics, str):
            yield self.topics, self.partitions, self.rows
            return
        if self.topics.null_count:
            raise null_topic()
        coded = self.topics.dictionary_encode()
        codes = coded.indices.to_numpy()
        for code, topic in enumerate(coded.dictionary.to_pylist()):
            places = np.flatnonzero(codes == code)
            given = None if self.partitions is None else pc.take(self.partitions, pa.array(places))
            yield topic, given, self.rows.take(places)


def incoming(sink: SinkOptions, batch: pa.RecordBatch, now_ms: int) -> Incoming:
    """Extract the sink's columns. A row without a timestamp gets `now_ms`. Raises ValueError for a header without a
    key."""

    def column(name: str) -> pa.Array | None:
        return batch.column(sink.columns.index(name)) if name in sink.columns else None

    count = batch.num_rows
    key, value, headers = column("key"), column("value"), column("headers")
    rows = Rows(
        timestamps_of(column("timestamp") if sink.keep_timestamp else None, count, now_ms),
        pa.nulls(count, BINARY) if key is None else binary(key),
        pa.nulls(count, BINARY) if value is None else binary(value),
        None if headers is None else encode_headers(headers),
    )
    return Incoming(sink.topic if sink.topic is not None else column("topic"), column("partition"), rows)


def timestamps_of(column: pa.Array | None, count: int, now_ms: int) -> np.ndarray:
    """Convert Spark's microseconds to milliseconds."""
    if column is None:
        return np.full(count, now_ms, np.int64)
    microseconds = column.cast(pa.int64())
    found = microseconds.fill_null(0).to_numpy() // 1000
    return np.where(microseconds.is_null().to_numpy(zero_copy_only=False), now_ms, found)
