"""Batches of transactions, as logs have them."""

from __future__ import annotations

from kraft.protocol.records.builder import build_batch, build_empty_batch
from kraft.protocol.records.control_record import ControlRecordType, TransactionMarker, build_marker_batch
from kraft.protocol.records.record import Record
from kraft.protocol.records.record_batch import HEADER_SIZE, RecordBatch, with_offset_and_epoch


def data(offset: int, producer: int, *, transactional: bool = True) -> RecordBatch:
    records = [Record(0, 0, None, b"v"), Record(1, 0, None, b"w")]
    whole = build_batch(records, producer_id=producer, producer_epoch=0, is_transactional=transactional)
    return RecordBatch(bytes(with_offset_and_epoch(whole, offset, 0)) + whole[HEADER_SIZE:])


def marker(offset: int, producer: int, kind: int = ControlRecordType.ABORT) -> RecordBatch:
    made = build_marker_batch(
        TransactionMarker(kind, 0),
        offset=offset,
        timestamp_ms=0,
        leader_epoch=0,
        producer_id=producer,
        producer_epoch=0,
    )
    return RecordBatch(made)


def emptied(batch: RecordBatch) -> RecordBatch:
    """The batch as the cleaner leaves it when it has removed all records."""
    return RecordBatch(build_empty_batch(batch))
