"""Which record is compared with which after retention: laws over made-up logs. Without Spark; `compare` says what
comparing.by_place does."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from kraft.spark.jobs.alignment import PartitionContent, by_partition, moved, partition_contents, shifts
from kraft.spark.jobs.tally import Kind, Tally, best_shifts, differing, verdict


def known(log: Sequence[str], start: int, other: Sequence[str]) -> PartitionContent:
    return PartitionContent(len(log), start, other.index(log[0]) + 1 if log and log[0] in other else None)


def compare(left: Sequence[str], right: Sequence[str], shift: int) -> list[Tally]:
    """Each record of two logs with its counterpart under one shift."""
    lefts, rights = dict(enumerate(left, 1)), dict(enumerate(right, 1 + shift))
    found = []
    for place in sorted(lefts.keys() | rights.keys()):
        a, b = lefts.get(place), rights.get(place)
        if a is None:
            kind = Kind.GONE_LEFT if place < 1 else Kind.RIGHT_ONLY
        elif b is None:
            kind = Kind.GONE_RIGHT if place <= shift else Kind.LEFT_ONLY
        else:
            kind = Kind.SAME if a == b else Kind.UNEQUAL
        found.append(
            Tally(
                0,
                shift,
                kind,
                1,
                int(a is not None),
                int(b is not None),
                place,
                None if a is None else place,
                None if b is None else place,
            )
        )
    return found


def judged(left: Sequence[str], left_start: int, right: Sequence[str], right_start: int) -> list[Tally]:
    tried = shifts(known(left, left_start, right), known(right, right_start, left))
    return best_shifts([each for shift in tried for each in compare(left, right, shift)])


def agree(left: Sequence[str], left_start: int, right: Sequence[str], right_start: int) -> bool:
    return bool(verdict(judged(left, left_start, right, right_start), "place", aligned=True)["agree"])


RECORDS = st.lists(st.sampled_from("aab"), min_size=1, max_size=12)


@given(RECORDS, st.data())
def test_copies_agree_at_any_retention_progress_if_they_share_a_record(log: list[str], data: st.DataObject) -> None:
    left, right = (data.draw(st.integers(0, len(log) - 1)) for _ in range(2))
    assert agree(log[left:], left, log[right:], right)


@given(RECORDS, st.integers(0, 11), st.integers(1, 12))
def test_a_copy_that_lags_or_lost_its_first_records_without_retention_never_agrees(
    log: list[str], start: int, missing: int
) -> None:
    start, missing = min(start, len(log) - 1), min(missing, len(log))
    behind = log[start : len(log) - missing]
    assert not agree(log, 0, behind, start)
    assert not agree(behind, start, log, 0)
    assert not agree(log, 0, log[missing:], missing - 1)


@given(RECORDS, st.integers(0, 11), st.integers(0, 11))
def test_a_differing_record_is_always_found(log: list[str], start: int, at: int) -> None:
    start = min(start, len(log) - 1)
    copy = log[start:]
    copy[min(at, len(copy) - 1)] = "other"
    assert not agree(log, 0, copy, start)
    assert not agree(copy, start, log, 0)


def test_without_retention_records_are_compared_from_the_first_record() -> None:
    assert shifts(PartitionContent(10, 0, 3), PartitionContent(5, 0, 3)) == (0,)
    assert moved({0: 0, 1: 0}, {0: 0}) == frozenset()
    assert moved({0: 0, 1: 2}, {2: 1}) == {1, 2}
    assert by_partition({}, {}, {2, 0}) == [(0, 0), (2, 0)]


def test_a_copy_that_lags_after_retention_is_reported_with_its_end() -> None:
    log = [str(each) for each in range(20)]
    chosen = judged(log[8:], 8, log[:15], 0)
    assert (chosen[0].shift, differing(chosen)) == (-8, 5)
    assert verdict(chosen, "place", aligned=True)["differences"] == [
        {"partition": 0, "count": 5, "offset": 8, "other_offset": None}
    ]
    assert verdict(chosen, "place", aligned=True)["left_out_count"] == 8


def test_no_more_records_are_skipped_than_the_log_can_have_held() -> None:
    assert shifts(PartitionContent(10, 0), PartitionContent(5, 4)) == (0,)
    assert shifts(PartitionContent(10, 0), PartitionContent(5, 5)) == (0, 5)
    assert shifts(PartitionContent(10, 0, None), PartitionContent(5, 7, 3)) == (0, 2, 5)
    assert shifts(PartitionContent(5, 7, 3), PartitionContent(10, 0, None)) == (-5, -2, 0)
    assert by_partition({0: PartitionContent(4, 0)}, {1: PartitionContent(3, 9)}, {0, 1}) == [(0, 0), (1, 0)]
    assert by_partition({0: PartitionContent(4, 0)}, {0: PartitionContent(0, 4)}, {0}) == [(0, 0), (0, 4)]


def test_a_partition_that_retention_has_emptied_keeps_its_log_start() -> None:
    emptied = partition_contents({0: 0, 1: 9}, {0: (4, "a")}, {0: 2})
    assert emptied == {0: PartitionContent(4, 0, 2), 1: PartitionContent(0, 9)}
    assert by_partition(partition_contents({1: 0}, {1: (9, "a")}, {}), emptied, {1}) == [(1, 0), (1, 9)]
