"""kraft/coordinator/pending_batch.py: answers leave once, in the order of the log."""

from __future__ import annotations

import pytest

from kraft.coordinator.pending_batch import Batch, PendingBatches, Waiter


def ending_at(last_offset: int) -> Batch[None]:
    batch = Batch[None](None, 0)
    batch.last_offset = last_offset
    return batch


def test_a_request_is_answered_only_once() -> None:
    waiter = Waiter()
    waiter.answer(1)
    with pytest.raises(AssertionError, match="one answer"):
        waiter.answer(2)


def test_batches_stay_pending_in_log_order() -> None:
    pending = PendingBatches[None](lambda effect: None)
    for last_offset in (3, 4, 4):  # A marker that was there already ends where the log does.
        pending.append(ending_at(last_offset))
    with pytest.raises(AssertionError, match="ends at 3, behind one that does at 4"):
        pending.append(ending_at(3))
    pending.advance(4)
    assert [batch.last_offset for batch in pending.appended] == [4, 4]
