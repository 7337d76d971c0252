"""Encode rows as a record batch of format v2, with the producer id, epoch and sequence that the caller chooses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from crc32c import crc32c

from kraft.protocol.records.compression import NONE, compress
from kraft.protocol.records.record_batch import CRC_START, HEADER, HEADER_SIZE, LOG_OVERHEAD, MAGIC, Buffer
from kraft.protocol.records.varint import append_varint

Headers = tuple[tuple[str, bytes | None], ...]
ROW_OVERHEAD_BYTES = 20
"""Approximate bytes of a record besides key, value and headers."""


class Row(NamedTuple):
    """A record to write; `timestamp` in ms."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def content(self) -> tuple[bytes | None, bytes | None, Headers]:
        """The part of the row that must be the same in every attempt: all but the timestamp."""
        return self[1:]

    @property
    def size(self) -> int:
        return (
            ROW_OVERHEAD_BYTES
            + len(self.key or b"")
            + len(self.value or b"")
            + sum(len(name) + len(value or b"") + 4 for name, value in self.headers)
        )


def varint(value: int) -> bytes:
    out = bytearray()
    append_varint(out, value)
    return bytes(out)


SMALL = tuple(map(varint, range(16384)))
"""Precomputed varints of common lengths and deltas."""
NULL = varint(-1)


def sized(data: bytes | memoryview | None) -> tuple[bytes, bytes | memoryview]:
    """Return the encoded length of the data, and the data."""
    if data is None:
        return NULL, b""
    size = len(data)
    return SMALL[size] if size < 16384 else varint(size), data


def encode_batch(rows: Sequence[Row], codec: int, producer_id: int, epoch: int, base_sequence: int) -> bytes:
    """Encode all `rows` (at least one) as one batch. Offsets start at 0. Keys and values are copied once."""
    first_timestamp = max_timestamp = rows[0].timestamp
    records: list[Buffer] = []
    for delta, (timestamp, key, value, headers) in enumerate(rows):
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        since = timestamp - first_timestamp
        body = (
            b"\0",
            SMALL[since] if 0 <= since < 16384 else varint(since),
            SMALL[delta] if delta < 16384 else varint(delta),
            *sized(key),
            *sized(value),
            encode_headers(headers) if headers else b"\0",
        )
        records.append(varint(sum(map(len, body))))
        records += body
    if codec != NONE:
        records = [compress(codec, b"".join(records))]
    fields = (codec, len(rows) - 1, first_timestamp, max_timestamp, producer_id, epoch, base_sequence, len(rows))
    return framed(records, fields)


def framed(records: Sequence[Buffer], fields: tuple[int, ...]) -> bytes:
    """Build a batch from encoded records, compressed or not. `fields` are the header fields after the CRC."""
    size = HEADER_SIZE - LOG_OVERHEAD + sum(map(len, records))
    header = bytearray(HEADER_SIZE)
    HEADER.pack_into(header, 0, 0, size, -1, MAGIC, 0, *fields)
    crc = crc32c(memoryview(header)[CRC_START:])
    for piece in records:
        crc = crc32c(piece, crc)
    HEADER.pack_into(header, 0, 0, size, -1, MAGIC, crc, *fields)
    return b"".join((header, *records))


def encode_headers(headers: Headers) -> bytes:
    return b"".join(
        (varint(len(headers)), *(part for name, value in headers for part in (*sized(name.encode()), *sized(value))))
    )
