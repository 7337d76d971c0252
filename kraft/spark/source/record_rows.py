"""Convert the record batches of one range to rows: Arrow record batches of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from kraft.protocol.records.record import InvalidRecord
from kraft.protocol.records.record_batch import RecordBatch
from kraft.protocol.records.varint import read_varint
from kraft.spark.decode.arrow_decoder import Columns, decode
from kraft.spark.decode.rows import arrow_schema
from kraft.spark.errors import malformed_header_name
from kraft.spark.source.ranges import OffsetRange
from kraft.spark.source.timestamps import check_timestamps

ROWS_MAX = 20_000


class RecordRows:
    """Builds the rows of one range. Header names that are not UTF-8 are refused, or their bytes replaced as in Java."""

    def __init__(self, offsets: OffsetRange, include_headers: bool, *, refuse_names: bool = False) -> None:
        self.offsets = offsets
        self.include_headers = include_headers
        self.refuse_names = refuse_names
        self.schema = arrow_schema(include_headers)

    def rows(self, found: list[RecordBatch], first: int) -> Iterator[pa.RecordBatch]:
        """Yield the records from offset `first` on. `first` is needed because a batch may start before the position, or
        before the log start offset."""
        data = [batch for batch in found if not batch.is_control]
        for columns in decode(data, first, self.offsets.end):
            whole = pa.RecordBatch.from_arrays(self.arrays(columns), schema=self.schema)
            for start in range(0, whole.num_rows, ROWS_MAX):
                yield whole.slice(start, ROWS_MAX)

    def arrays(self, found: Columns) -> list[pa.Array]:
        count = len(found.offsets)
        check_timestamps(found.timestamps_ms, self.offsets.topic, self.offsets.partition, int(found.offsets[0]))
        arrays = [
            found.keys,
            found.values,
            pa.repeat(pa.scalar(self.offsets.topic, pa.string()), count),
            pa.array(np.full(count, self.offsets.partition, np.int32)),
            pa.array(found.offsets),
            pa.array(found.timestamps_ms * 1000, self.schema.field("timestamp").type),
            pa.array(found.timestamp_types),
        ]
        return [*arrays, self.headers(found)] if self.include_headers else arrays

    @property
    def errors(self) -> str:
        """Python's name for the handling of header names that are not UTF-8: `strict` or `replace`."""
        return "strict" if self.refuse_names else "replace"

    def headers(self, found: Columns) -> pa.Array:
        """Return the headers in order, with duplicates; null for a record without headers, as in the official
        connector."""
        rows: list[list[dict[str, object]] | None] = [None] * len(found.offsets)
        for index in np.flatnonzero(found.header_counts).tolist():
            try:
                rows[index] = headers_at(
                    found.data, int(found.header_starts[index]), int(found.header_counts[index]), self.errors
                )
            except UnicodeDecodeError as problem:
                detail = (
                    f": {problem.object!r}; headerNames=replace (--replace-header-names of `kraft spark`) "
                    "replaces such bytes, as Java does"
                )
                raise malformed_header_name(
                    self.offsets.topic, self.offsets.partition, int(found.offsets[index]), detail
                ) from problem
        return pa.array(rows, self.schema.field("headers").type)


def headers_at(data: Any, position: int, count: int, errors: str = "replace") -> list[dict[str, object]]:
    """Read `count` headers from `position` on. `errors` is Python's name for the handling of names that are not UTF-8.
    The default replaces the bytes, as Java does.

    Raises InvalidRecord, and UnicodeDecodeError if `errors` is strict.
    """
    view = memoryview(data)
    found: list[dict[str, object]] = []
    try:
        for _ in range(count):
            size, position = read_varint(view, position)
            name = str(view[position : position + size], "utf-8", errors)
            size_of_value, position = read_varint(view, position + size)
            value = None if size_of_value < 0 else bytes(view[position : position + size_of_value])
            position += max(size_of_value, 0)
            found.append({"key": name, "value": value})
    except UnicodeDecodeError:
        raise
    except (IndexError, ValueError) as problem:
        raise InvalidRecord(f"a header: {problem}") from problem
    return found
