"""Rows on their way from a task to the driver, as a record batch that only lacks its writer.

A task encodes the rows, and the driver writes them: it sets the transaction's producer, and leaves the payload alone.
"""

from __future__ import annotations

from typing import NamedTuple

from crc32c import crc32c

from kraft.protocol.records.record_batch import CRC_START, HEADER, MAGIC, TRANSACTIONAL_FLAG, RecordBatch
from kraft.spark.batch_encoder import Row, encode_batch

UNSTAMPED = -1
"""Producer id, epoch and sequence of a batch that nobody writes yet."""


class Place(NamedTuple):
    """A record of the staging topic."""

    partition: int
    offset: int


class Parcel(NamedTuple):
    """A record batch of `rows` rows for one partition. Its bytes are `data`, or the value of the record at `place`,
    known by its `crc`."""

    topic: str
    partition: int
    rows: int
    crc: int
    data: bytes | None
    place: Place | None = None


def packed(rows: list[Row], codec: int) -> bytes:
    """A batch of all `rows` (at least one)."""
    return encode_batch(rows, codec, UNSTAMPED, UNSTAMPED, UNSTAMPED)


def stamped(data: bytes, producer_id: int, epoch: int, sequence: int) -> bytes:
    """The same batch, of a transaction of this producer."""
    batch = bytearray(data)
    _, length, _, _, _, attributes, last_delta, first, latest, _, _, _, count = HEADER.unpack_from(batch)
    fields = (attributes | TRANSACTIONAL_FLAG, last_delta, first, latest, producer_id, epoch, sequence, count)
    HEADER.pack_into(batch, 0, 0, length, -1, MAGIC, 0, *fields)
    HEADER.pack_into(batch, 0, 0, length, -1, MAGIC, crc32c(memoryview(batch)[CRC_START:]), *fields)
    return bytes(batch)


def count_of(data: bytes) -> int:
    """The records of a batch."""
    return int(HEADER.unpack_from(data)[-1])


def crc_of(data: bytes) -> int:
    """The CRC that a batch has written in it."""
    return int(HEADER.unpack_from(data)[4])


def halves(data: bytes) -> list[bytes]:
    """The same rows in two batches. There is more than one row."""
    batch = RecordBatch(data)
    rows = [Row(each.timestamp, each.key, each.value, tuple(each.headers)) for each in batch.records()]
    middle = len(rows) // 2
    return [packed(rows[:middle], batch.codec), packed(rows[middle:], batch.codec)]
