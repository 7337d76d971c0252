"""Build record batches: from records, or empty batches that the cleaner keeps."""

from __future__ import annotations

from collections.abc import Sequence

from crc32c import crc32c

from kraft.protocol.records.compression import NONE, compress
from kraft.protocol.records.record import Record as Record
from kraft.protocol.records.record import append_record
from kraft.protocol.records.record_batch import (
    CONTROL_FLAG,
    CRC_START,
    CREATE_TIME,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    Buffer,
    RecordBatch,
)
from kraft.protocol.records.varint import SMALL, SMALL_COUNT, varint
from kraft.world.steps import Steps

TURN_ENTRIES = 1000
"""Records that are encoded between two pauses, at a few tenths of a microsecond each."""


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    leader_epoch: int = -1,
    codec: int = NONE,
    level: int | None = None,
    timestamp_type: int = CREATE_TIME,
    log_append_time_ms: int = NO_TIMESTAMP,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """Build a batch of `records` (at least one), whose offsets must ascend.

    `base_offset` and `last_offset` default to those of the records. The cleaner passes those of the original batch, so
    that the batch keeps its range of offsets when records are removed. With LOG_APPEND_TIME, `log_append_time_ms` is
    the batch's max timestamp. `delete_horizon_ms` replaces the base timestamp (KIP-534).
    """
    base_offset = records[0].offset if base_offset is None else base_offset
    last_offset = records[-1].offset if last_offset is None else last_offset
    base_timestamp = records[0].timestamp if delete_horizon_ms is None else delete_horizon_ms
    payload = bytearray()
    max_timestamp = NO_TIMESTAMP
    for record in records:
        append_record(
            payload,
            record.offset - base_offset,
            record.timestamp - base_timestamp,
            record.key,
            record.value,
            record.headers,
        )
        if record.timestamp > max_timestamp:
            max_timestamp = record.timestamp
    attributes = codec | (TRANSACTIONAL_FLAG if is_transactional else 0) | (CONTROL_FLAG if is_control else 0)
    attributes |= 0 if delete_horizon_ms is None else DELETE_HORIZON_FLAG
    if timestamp_type == LOG_APPEND_TIME:
        attributes |= TIMESTAMP_TYPE_FLAG
        max_timestamp = log_append_time_ms
    return _seal(
        payload if codec == NONE else compress(codec, payload, level),
        base_offset,
        leader_epoch,
        attributes,
        last_offset - base_offset,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )


def build_values_batch(
    values: Sequence[bytes],
    timestamp_ms: int,
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    codec: int = NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
) -> bytes:
    """Build a batch of values (at least one), from `base_offset` on, without keys and headers, with one timestamp."""
    parts: list[bytes] = []
    for delta, value in enumerate(values):
        size = len(value)
        head = b"".join((b"\0\0", varint(delta), b"\1", varint(size)))
        parts += (varint(len(head) + size + 1), head, value, b"\0")
    payload = b"".join(parts)
    return _seal(
        payload if codec == NONE else compress(codec, payload),
        base_offset,
        leader_epoch,
        codec | (TRANSACTIONAL_FLAG if is_transactional else 0),
        len(values) - 1,
        timestamp_ms,
        timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        len(values),
    )


def build_keyed_batch(
    entries: Sequence[tuple[bytes, bytes | None]],
    timestamp_ms: int,
    *,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    is_transactional: bool = False,
) -> Steps[bytes]:
    """Build a batch of keys and values (at least one), from offset 0 on, all with one timestamp. Yields after each
    TURN_ENTRIES, so that other tasks can run."""
    payload = bytearray()
    for start in range(0, len(entries), TURN_ENTRIES):
        payload += _keyed_records(entries[start : start + TURN_ENTRIES], start)
        yield None
    return _seal(
        payload,
        0,
        -1,
        TRANSACTIONAL_FLAG if is_transactional else 0,
        len(entries) - 1,
        timestamp_ms,
        timestamp_ms,
        producer_id,
        producer_epoch,
        NO_SEQUENCE,
        len(entries),
    )


def build_control_record_batch(
    key: bytes,
    value: bytes,
    timestamp_ms: int,
    *,
    offset: int,
    leader_epoch: int,
    producer_id: int,
    producer_epoch: int,
) -> bytes:
    """Build a transactional batch of a single control record: a transaction marker."""
    return _seal(
        _keyed_records(((key, value),), 0),
        offset,
        leader_epoch,
        TRANSACTIONAL_FLAG | CONTROL_FLAG,
        0,
        timestamp_ms,
        timestamp_ms,
        producer_id,
        producer_epoch,
        NO_SEQUENCE,
        1,
    )


def _keyed_records(entries: Sequence[tuple[bytes, bytes | None]], first: int) -> bytes:
    """Encode records as `append_record` does, from the offset delta `first` on. Consecutive records with equal lengths
    share one encoding of the lengths."""
    parts: list[bytes] = []
    last_delta_size = last_key_size = last_value_size = -2
    head = key_head = value_head = b""
    for index, (key, value) in enumerate(entries, first):
        delta = SMALL[index] if index < SMALL_COUNT else varint(index)
        delta_size, key_size, value_size = len(delta), len(key), -1 if value is None else len(value)
        if value_size != last_value_size or key_size != last_key_size or delta_size != last_delta_size:
            last_delta_size, last_key_size, last_value_size = delta_size, key_size, value_size
            key_head = SMALL[key_size] if key_size < SMALL_COUNT else varint(key_size)
            value_head = SMALL[value_size] if 0 <= value_size < SMALL_COUNT else varint(value_size)
            size = 3 + delta_size + len(key_head) + key_size + len(value_head) + max(value_size, 0)
            # Behind the size attributes and timestamp delta; before it that the last record has no headers.
            head = b"\0" + (SMALL[size] if size < SMALL_COUNT else varint(size)) + b"\0\0"
        parts += (head, delta, key_head, key, value_head, value or b"")
    return b"".join(parts)[1:] + b"\0"


def resealed_batch(
    batch: RecordBatch, payload: bytes, codec: int, level: int | None, timestamp_type: int, max_timestamp: int
) -> bytes:
    """Return `batch` with another codec. `payload` has its records, uncompressed. Offsets, sequence, producer and base
    timestamp are kept."""
    return _seal(
        payload if codec == NONE else compress(codec, payload, level),
        batch.base_offset,
        batch.partition_leader_epoch,
        codec
        | (TIMESTAMP_TYPE_FLAG if timestamp_type == LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL_FLAG if batch.is_transactional else 0),
        batch.last_offset_delta,
        batch.base_timestamp,
        max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.count,
    )


def rebuild_batch(
    batch: RecordBatch,
    payload: bytes | bytearray,
    count: int,
    max_timestamp: int,
    delete_horizon_ms: int | None,
) -> bytes:
    """Return `batch` with other records: the `count` records of `payload`. `payload` is uncompressed, and is compressed
    here with the codec of the batch. Offsets, sequences, producer and base timestamp are kept, but a delete horizon
    replaces the base timestamp."""
    return _seal(
        payload if batch.codec == NONE else compress(batch.codec, payload),
        batch.base_offset,
        batch.partition_leader_epoch,
        batch.attributes | (0 if delete_horizon_ms is None else DELETE_HORIZON_FLAG),
        batch.last_offset_delta,
        batch.base_timestamp if delete_horizon_ms is None else delete_horizon_ms,
        max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        count,
    )


def build_empty_batch(batch: RecordBatch) -> bytes:
    """Return `batch` without its records. Offsets, producer, epoch and sequence are kept, as Kafka's cleaner does for
    the last batch of a producer."""
    attributes = batch.attributes & (TIMESTAMP_TYPE_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG)
    return _seal(
        b"",
        batch.base_offset,
        batch.partition_leader_epoch,
        attributes,
        batch.last_offset_delta,
        NO_TIMESTAMP,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        0,
    )


def with_max_timestamp(batch: RecordBatch, timestamp_type: int, max_timestamp: int) -> bytes:
    """Return a copy of the whole batch with another timestamp type and max timestamp, and a new CRC. Records are copied
    unchanged, compressed or not."""
    attributes = (
        batch.attributes | TIMESTAMP_TYPE_FLAG
        if timestamp_type == LOG_APPEND_TIME
        else batch.attributes & ~TIMESTAMP_TYPE_FLAG
    )
    return _seal(
        batch.view[HEADER_SIZE:],
        batch.base_offset,
        batch.partition_leader_epoch,
        attributes,
        batch.last_offset_delta,
        batch.base_timestamp,
        max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.count,
    )


def _seal(payload: Buffer, base_offset: int, leader_epoch: int, *fields: int) -> bytes:
    """Build the whole batch. `fields` are the header fields from the attributes on. The payload is copied only once:
    for a payload of a megabyte, a copy costs more than the CRC."""
    length = HEADER_SIZE - LOG_OVERHEAD + len(payload)
    unsealed = HEADER.pack(base_offset, length, leader_epoch, MAGIC, 0, *fields)
    crc = crc32c(payload, crc32c(unsealed[CRC_START:]))
    return b"".join((HEADER.pack(base_offset, length, leader_epoch, MAGIC, crc, *fields), payload))
