"""What a comparison's counts mean: agreement, the first difference of each partition, and what was left out. Without
Spark."""

from __future__ import annotations

from kraft.spark.jobs.tally import LISTED_MAX, Kind, Tally, best_shifts, verdict, why


def tally(
    kind: Kind, cases: int, place: int, left: int | None, right: int | None, *, partition: int = 0, shift: int = 0
) -> Tally:
    """One record for each case on each side that has the first."""
    return Tally(
        partition, shift, kind, cases, 0 if left is None else cases, 0 if right is None else cases, place, left, right
    )


def test_two_empty_sides_agree_and_the_report_says_that_both_are_empty() -> None:
    for aligned in (False, True):
        found = verdict([], "place", aligned=aligned)
        assert (found["agree"], found["records"], found["other_records"], found["compared"], found["note"]) == (
            True,
            0,
            0,
            0,
            None,
        )


def test_records_removed_by_retention_and_compaction_are_counted_and_are_no_difference() -> None:
    tallies = [
        tally(Kind.SAME, 10, 7, 7, 7),
        tally(Kind.GONE_LEFT, 5, 0, None, 0),
        tally(Kind.COMPACTED, 2, 8, None, 8),
        tally(Kind.GONE_RIGHT, 3, 0, 0, None, partition=1),
        tally(Kind.KEYLESS_RIGHT, 1, 4, None, 4, partition=1),
    ]
    found = verdict(tallies, "partition and offset", aligned=False)
    assert (found["agree"], found["compared_by"], found["compared"], found["left_out_count"]) == (
        True,
        "partition and offset",
        10,
        11,
    )
    assert (found["records"], found["other_records"], found["partitions"], found["differences"]) == (13, 18, 2, [])
    assert [
        (each["partition"], each["count"], each["held_by"], each["offset"], why(each)) for each in found["left_out"]
    ] == [
        (0, 2, "other", 8, "compaction of the topic"),
        (0, 5, "other", 0, "retention of the topic"),
        (1, 3, "topic", 0, "retention of the other"),
        (1, 1, "other", 4, "it has no key"),
    ]


def test_the_first_difference_of_a_partition_is_reported_whatever_its_kind() -> None:
    tallies = [tally(Kind.SAME, 4, 1, 0, 0), tally(Kind.UNEQUAL, 2, 9, 8, 7), tally(Kind.LEFT_ONLY, 3, 6, 5, None)]
    tallies.append(tally(Kind.RIGHT_ONLY, 1, 2, None, 1, partition=3))
    found = verdict(tallies, "place", aligned=True)
    assert not found["agree"]
    assert (found["unequal"], found["only_in_topic"], found["only_in_other"], found["compared"]) == (2, 3, 1, 6)
    assert found["differences"] == [
        {"partition": 0, "count": 5, "offset": 5, "other_offset": None},
        {"partition": 3, "count": 1, "offset": None, "other_offset": 1},
    ]


def test_lists_of_differences_are_bounded_and_counts_are_complete() -> None:
    many = range(LISTED_MAX + 5)
    tallies = [tally(Kind.UNEQUAL, 2, 1, 0, 0, partition=each) for each in many] + [
        tally(Kind.GONE_LEFT, 3, 0, None, 0, partition=each) for each in many
    ]
    found = verdict(tallies, "place", aligned=False)
    assert (len(found["differences"]), len(found["left_out"])) == (LISTED_MAX, LISTED_MAX)
    assert (found["unequal"], found["left_out_count"], found["partitions"]) == (2 * len(many), 3 * len(many), len(many))


def test_topics_without_records_in_common_are_not_reported_as_equal() -> None:
    """Offsets of an archive prove what is which; two topics have only the records that both still hold."""
    emptied = [tally(Kind.GONE_RIGHT, 9, 1, 0, None, shift=9)]
    found = verdict(emptied, "place", aligned=True)
    assert (found["agree"], found["left_out_count"], found["differences"]) == (False, 9, [])
    assert "it is unknown whether they agreed" in found["note"]
    archived = verdict([tally(Kind.GONE_LEFT, 9, 0, None, 0)], "partition and offset", aligned=False)
    assert (archived["agree"], archived["compared"]) == (True, 0)
    assert "nothing was compared" in archived["note"]
    beside = verdict([*emptied, tally(Kind.SAME, 1, 1, 0, 0, partition=1)], "place", aligned=True)
    assert (beside["agree"], beside["note"]) == (True, None)


def test_a_partition_is_compared_at_the_shift_with_fewest_differences_then_the_nearest() -> None:
    none = [tally(Kind.UNEQUAL, 5, 1, 0, 100), tally(Kind.LEFT_ONLY, 5, 6, 5, None)]
    four = [
        tally(Kind.GONE_RIGHT, 4, 1, 0, None, shift=4),
        tally(Kind.SAME, 5, 5, 4, 100, shift=4),
        tally(Kind.LEFT_ONLY, 1, 10, 9, None, shift=4),
    ]
    five = [tally(Kind.GONE_RIGHT, 5, 1, 0, None, shift=5), tally(Kind.UNEQUAL, 5, 6, 5, 100, shift=5)]
    alike = [tally(Kind.SAME, 3, 1, 0, 0, partition=1, shift=each) for each in (-3, 0, 3)]
    chosen = best_shifts([*five, *none, *four, *alike])
    assert {(each.partition, each.shift) for each in chosen} == {(0, 4), (1, 0)}
    assert verdict(chosen, "place", aligned=True)["differences"] == [
        {"partition": 0, "count": 1, "offset": 9, "other_offset": None}
    ]
