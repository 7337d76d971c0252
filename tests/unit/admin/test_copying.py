"""How far copies are, in sums and over time."""

from __future__ import annotations

from kraft.admin.copying import STEP_SECONDS, WINDOW_SECONDS, Copy, CopyRate, bytes_left, sums
from kraft.common.ids import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_the_bytes_left_of_a_copy_are_never_negative_and_unknown_without_the_leaders_size() -> None:
    sizes = {(1, A): 100, (2, A): 30, (3, A): 120}
    assert [bytes_left(Copy(A, 1, target), sizes) for target in (2, 3, 4)] == [70, 0, 100]
    assert bytes_left(Copy(B, 1, 2), sizes) is None
    assert bytes_left(Copy(A, -1, 2), sizes) is None


def test_the_busiest_broker_determines_the_copy_duration() -> None:
    sizes = {(1, A): 100, (1, B): 50, (3, B): 20}
    told = sums([Copy(A, 1, 2), Copy(B, 1, 3)], sizes)
    assert (told.bytes_left, told.unsized, told.arrivals) == (130, 0, {2: (1, 100), 3: (1, 30)})
    assert told.seconds_at(10) == 13, "broker 1 sends both"
    assert sums([Copy(A, 1, 2), Copy(B, 4, 3)], sizes).seconds_at(10) is None, "a size is not known"
    assert sums([], {}).seconds_at(10) == 0


def test_a_copy_rate_needs_two_samples_apart_in_time() -> None:
    rate = CopyRate()
    assert rate.look(0, {(2, A): 10}) is None
    assert rate.look(STEP_SECONDS / 2, {(2, A): 20}) is None
    assert rate.look(2, {(2, A): 50}) == 20
    assert rate.look(2.5, {(2, A): 90}) == 20, "too near to count"
    assert rate.look(4, {(2, A): 90}) == 20
    assert rate.look(5, {}) is None
    assert rate.look(6, {(2, A): 90}) is None


def test_complete_and_new_replicas_do_not_distort_the_rate() -> None:
    rate = CopyRate()
    rate.look(0, {(2, A): 10})
    rate.look(5, {(2, A): 60, (2, B): 1_000})
    assert rate.look(10, {(2, B): 1_050}) == 10


def test_a_rate_forgets_old_samples_and_does_not_count_shrinking() -> None:
    rate = CopyRate()
    rate.look(0, {(2, A): 0})
    rate.look(1, {(2, A): 1_000_000})
    rate.look(2, {(2, A): 0})
    assert rate.look(WINDOW_SECONDS + 2, {(2, A): 300}) == 10
    assert rate.look(3 * WINDOW_SECONDS, {(2, A): 400}) is None
