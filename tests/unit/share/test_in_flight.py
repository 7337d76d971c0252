"""People are shown the records in flight with state, delivery count, member and lock."""

from __future__ import annotations

from kraft.coordinator.share.share_state import ARCHIVING, StateBatch
from kraft.share.acknowledgement import ACCEPT, REJECT, RELEASE, Acknowledgement
from kraft.share.in_flight import RangeInFlight, ranges_in_flight
from kraft.share.share_partition import Limits, SharePartition

LIMITS = Limits(lock_ms=1000)


def test_each_range_has_its_state_and_delivery_count_and_held_ones_have_member_and_lock() -> None:
    partition = SharePartition(0)
    partition.acquire("a", 0, [(0, 9)], 10, LIMITS, now_ms=100)
    for first, kind in ((2, ACCEPT), (4, RELEASE), (6, REJECT)):
        change = partition.acknowledge("a", [Acknowledgement(first, first + 1, [kind])], LIMITS, 100)
        partition.commit(change)
    partition.acknowledge("a", [Acknowledgement(8, 8, [ACCEPT])], LIMITS, 100)
    assert list(ranges_in_flight(partition, now_ms=400)) == [
        RangeInFlight(0, 1, "acquired", 1, "a", 700),
        RangeInFlight(2, 3, "acknowledged", 1, None, None),
        RangeInFlight(4, 5, "available", 1, None, None),
        RangeInFlight(6, 7, "archived", 1, None, None),
        RangeInFlight(8, 8, "acknowledging", 1, "a", None),
        RangeInFlight(9, 9, "acquired", 1, "a", 700),
    ]


def test_a_lock_that_is_over_and_not_released_yet_has_no_time_left() -> None:
    partition = SharePartition(0)
    partition.acquire("a", 0, [(0, 0)], 1, LIMITS, now_ms=0)
    assert list(ranges_in_flight(partition, now_ms=5000)) == [RangeInFlight(0, 0, "acquired", 1, "a", 0)]


def test_a_record_whose_dead_letter_is_not_written_is_archiving() -> None:
    partition = SharePartition(3, [StateBatch(3, 4, ARCHIVING, 5)])
    assert list(ranges_in_flight(partition, now_ms=0)) == [RangeInFlight(3, 4, "archiving", 5, None, None)]
