"""The batches that a share group's fetch reads, and those of them that belong to aborted transactions."""

from __future__ import annotations

from kraft.share.fetched_batches import aborted_ranges
from tests.unit.transactional_batches import data, emptied, marker


def test_batches_of_aborted_transactions_are_found() -> None:
    log = [data(0, 1), data(2, 2), marker(4, 1), data(5, 1)]
    assert aborted_ranges(log, [(1, 0)]) == [(0, 1)]


def test_a_marker_of_which_the_cleaner_left_only_a_header_is_passed_over() -> None:
    log = [emptied(marker(0, 3)), data(1, 1), emptied(marker(3, 2)), data(4, 1), marker(6, 1), data(7, 1)]
    assert aborted_ranges(log, [(1, 1)]) == [(1, 2), (4, 5)]
