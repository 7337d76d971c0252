"""Which batches of a leader's answer a follower appends."""

from __future__ import annotations

import pytest

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.storage.log_append import replicated_batches
from tests.unit.storage.support import T0, batch_of

RELATIVE_OFFSET_MAX = (1 << 31) - 1


def at(offset: int, *values: bytes, epoch: int = 0) -> bytes:
    """A batch as the leader has it. Offset and epoch are not covered by the checksum."""
    data = bytearray(batch_of(*(values or (b"v",))))
    data[:8] = offset.to_bytes(8, "big")
    data[12:16] = epoch.to_bytes(4, "big")
    return bytes(data)


def offsets(records: bytes, end: int = 0, epoch: int | None = None) -> list[tuple[int, int, int]]:
    return [
        (batch.first_offset, batch.last_offset, batch.leader_epoch)
        for batch in replicated_batches(records, T0, end, epoch)
    ]


def test_replicated_batches_keep_the_leaders_offsets_and_epochs() -> None:
    assert offsets(at(4, b"a", b"b", epoch=2) + at(9, epoch=3), 4, 3) == [(4, 5, 2), (9, 9, 3)]


def test_an_incomplete_last_batch_is_dropped_until_the_next_fetch() -> None:
    whole = at(0) + at(1)
    for size in range(len(at(0)), len(whole)):
        assert offsets(whole[:size]) == [(0, 0, 0)]
    assert offsets(b"") == []


def test_replicated_batches_of_later_epochs_are_left_out() -> None:
    assert offsets(at(0, epoch=1) + at(1, epoch=2) + at(2, epoch=1), epoch=1) == [(0, 0, 1)]


def test_batches_too_far_apart_for_one_segment_are_split_between_fetches() -> None:
    assert offsets(at(0) + at(RELATIVE_OFFSET_MAX)) == [(0, 0, 0), (RELATIVE_OFFSET_MAX, RELATIVE_OFFSET_MAX, 0)]
    assert offsets(at(0) + at(RELATIVE_OFFSET_MAX + 1)) == [(0, 0, 0)]


def test_an_offset_gap_is_accepted_and_an_offset_already_in_the_log_is_refused() -> None:
    assert offsets(at(7), 5) == [(7, 7, 0)]
    for records, end in ((at(4), 5), (at(5, b"a", b"b") + at(6), 5)):
        with pytest.raises(ApiError, match="expects") as caught:
            replicated_batches(records, T0, end, None)
        assert caught.value.code == ErrorCode.INVALID_RECORD


def test_a_changed_byte_is_detected() -> None:
    data = bytearray(at(0))
    data[-1] ^= 1
    with pytest.raises(ApiError) as caught:
        replicated_batches(bytes(data), T0, 0, None)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
