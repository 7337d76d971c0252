"""Rows on their way from a task to the driver, as a record batch that only lacks its writer.

A task encodes the rows, and the driver writes them: it sets the transaction's producer, and leaves the payload alone.
"""

from __future__ import annotations

from typing import NamedTuple

from kraft.protocol.records.record_batch import HEADER, HEADER_SIZE, TRANSACTIONAL_FLAG, Buffer, RecordBatch
from kraft.spark.sink.batch_encoder import Row, encode_batch, framed

UNSTAMPED = -1
"""Producer id, epoch and sequence of a batch that nobody writes yet."""


class Place(NamedTuple):
    """A record of the staging topic."""

    partition: int
    offset: int


class Span(NamedTuple):
    """Bytes of a file, where driver and task share a machine."""

    path: str
    offset: int
    size: int


class StagedBatch(NamedTuple):
    """A record batch of `rows` rows for one partition. Its bytes are `data`, or the value of the record, or the part
    of the file, at `place`, known by its `crc`."""

    topic: str
    partition: int
    rows: int
    crc: int
    data: bytes | None
    place: Place | Span | None = None


def packed(rows: list[Row], codec: int) -> bytes:
    """A batch of all `rows` (at least one)."""
    return encode_batch(rows, codec, UNSTAMPED, UNSTAMPED, UNSTAMPED)


def stamped(data: Buffer, producer_id: int, epoch: int, sequence: int, is_transactional: bool = True) -> bytes:
    """The same batch, of this producer, and of its transaction."""
    _, _, _, _, _, attributes, last_delta, first, latest, _, _, _, count = HEADER.unpack_from(data)
    attributes |= TRANSACTIONAL_FLAG if is_transactional else 0
    fields = (attributes, last_delta, first, latest, producer_id, epoch, sequence, count)
    return framed([memoryview(data)[HEADER_SIZE:]], fields)


def count_of(data: Buffer) -> int:
    """The records of a batch."""
    return int(HEADER.unpack_from(data)[-1])


def crc_of(data: Buffer) -> int:
    """The CRC that a batch has written in it."""
    return int(HEADER.unpack_from(data)[4])


def halves(data: Buffer) -> list[bytes]:
    """The same rows in two batches. There is more than one row."""
    batch = RecordBatch(data)
    rows = [Row(each.timestamp, each.key, each.value, tuple(each.headers)) for each in batch.records()]
    middle = len(rows) // 2
    return [packed(rows[:middle], batch.codec), packed(rows[middle:], batch.codec)]
