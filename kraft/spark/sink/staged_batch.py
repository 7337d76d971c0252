"""Rows on their way from a task to the driver: a record batch without producer id, epoch and sequence.

A task encodes the rows. The driver sets the transaction's producer in the header, and does not touch the payload.
"""

from __future__ import annotations

from typing import NamedTuple

from kraft.protocol.records.record_batch import HEADER, HEADER_SIZE, TRANSACTIONAL_FLAG, Buffer, RecordBatch
from kraft.spark.sink.batch_encoder import Row, encode_batch, framed

UNSTAMPED = -1
"""The producer id, epoch and sequence of a batch without a producer."""


class Place(NamedTuple):
    """The position of a record in the staging topic."""

    partition: int
    offset: int


class Span(NamedTuple):
    """A range of bytes of a file on a machine that driver and task share."""

    path: str
    offset: int
    size: int


class StagedBatch(NamedTuple):
    """A record batch of `rows` rows for one partition. Its bytes are `data`, or are staged at `place`: in the value of
    a record, or in a file. `crc` identifies them."""

    topic: str
    partition: int
    rows: int
    crc: int
    data: bytes | None
    place: Place | Span | None = None


def packed(rows: list[Row], codec: int) -> bytes:
    """Encode all `rows` (at least one) as one batch without a producer."""
    return encode_batch(rows, codec, UNSTAMPED, UNSTAMPED, UNSTAMPED)


def stamped(data: Buffer, producer_id: int, epoch: int, sequence: int, is_transactional: bool = True) -> bytes:
    """Return the batch with this producer in its header, and marked as transactional if wanted."""
    _, _, _, _, _, attributes, last_delta, first, latest, _, _, _, count = HEADER.unpack_from(data)
    attributes |= TRANSACTIONAL_FLAG if is_transactional else 0
    fields = (attributes, last_delta, first, latest, producer_id, epoch, sequence, count)
    return framed([memoryview(data)[HEADER_SIZE:]], fields)


def count_of(data: Buffer) -> int:
    """Return the number of records in a batch."""
    return int(HEADER.unpack_from(data)[-1])


def crc_of(data: Buffer) -> int:
    """Return the CRC field of a batch."""
    return int(HEADER.unpack_from(data)[4])


def halves(data: Buffer) -> list[bytes]:
    """Split a batch of more than one row into two."""
    batch = RecordBatch(data)
    rows = [Row(each.timestamp, each.key, each.value, tuple(each.headers)) for each in batch.records()]
    middle = len(rows) // 2
    return [packed(rows[:middle], batch.codec), packed(rows[middle:], batch.codec)]
