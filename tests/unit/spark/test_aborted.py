"""Readers of committed records leave out what was aborted, and nothing else."""

from __future__ import annotations

from kraft.protocol.messages.fetch_response import AbortedTransaction
from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.control_record import ControlRecordType, TransactionMarker, build_marker_batch
from kraft.protocol.records.record import Record
from kraft.protocol.records.record_batch import HEADER_SIZE, RecordBatch, with_offset_and_epoch
from kraft.spark.source.aborted import without_aborted


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


def kept(found: list[RecordBatch], *aborted: tuple[int, int]) -> list[int]:
    """First offsets of the data that is left; `aborted` is (producer, first offset) each."""
    named = [AbortedTransaction(producer_id=producer, first_offset=first) for producer, first in aborted]
    return [batch.base_offset for batch in without_aborted(found, named) if not batch.is_control]


def test_records_of_an_aborted_transaction_are_dropped_from_its_first_offset_to_its_marker() -> None:
    log = [data(0, 1), data(2, 2), data(4, 1), marker(6, 1), data(7, 1), marker(9, 2, ControlRecordType.COMMIT)]
    assert kept(log, (1, 0)) == [2, 7]
    assert kept(log) == [0, 2, 4, 7]


def test_a_producer_may_abort_again_and_write_outside_transactions() -> None:
    log = [data(0, 1), marker(2, 1), data(3, 1, transactional=False), data(5, 1), marker(7, 1), data(8, 1)]
    assert kept(log, (1, 5), (1, 0)) == [3, 8]


def test_an_aborted_transaction_begun_before_the_fetch_response_is_dropped_in_it() -> None:
    log = [data(10, 1), data(12, 2), marker(14, 1)]
    assert kept(log, (1, 3)) == [12]


def test_a_batch_in_which_an_aborted_transaction_begins_belongs_to_the_transaction() -> None:
    assert kept([data(0, 2), data(2, 1)], (1, 3)) == [0]
