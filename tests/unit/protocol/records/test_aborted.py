"""Readers of committed records leave out what was aborted, and nothing else."""

from __future__ import annotations

from kraft.protocol.records.aborted import marked_aborted
from kraft.protocol.records.control_record import ControlRecordType
from kraft.protocol.records.record_batch import RecordBatch
from tests.unit.transactional_batches import data, emptied, marker


def kept(found: list[RecordBatch], *aborted: tuple[int, int]) -> list[int]:
    """First offsets of the data that is left; `aborted` is (producer, first offset) each."""
    return [
        batch.base_offset
        for batch, is_aborted in marked_aborted(found, aborted)
        if not is_aborted and not batch.is_control
    ]


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


def test_a_marker_of_which_the_cleaner_left_only_a_header_ends_no_transaction() -> None:
    assert kept([data(0, 2), emptied(marker(2, 3)), data(3, 1), marker(5, 1)], (1, 3)) == [0]


def test_a_control_batch_belongs_to_no_aborted_transaction() -> None:
    found = [data(0, 1), marker(2, 1)]
    assert [is_aborted for _, is_aborted in marked_aborted(found, [(1, 0)])] == [True, False]
