"""The judge of the Spark harness finds what it is there to find."""

from __future__ import annotations

from jepsen.spark.checks import (
    Plan,
    Seen,
    Verdict,
    judge_batch_read,
    judge_checkpoint,
    judge_order,
    judge_plans,
    judge_sink,
    judge_values_by_place,
)

SENT = frozenset("abcd")
WHOLE = [Seen(0, 0, "a"), Seen(0, 1, "b"), Seen(1, 0, "c")]


def judged(found: list[Seen], *, exactly_once: bool = True) -> Verdict:
    verdict = Verdict("kraft")
    judge_sink(verdict, "sink", found, "abc", SENT, exactly_once=exactly_once)
    return verdict


def test_an_acknowledged_record_found_once_is_correct() -> None:
    assert judged(WHOLE).ok
    assert judged([*WHOLE, Seen(1, 1, "d")]).ok, "sent and not acknowledged may be there"
    assert judged(WHOLE).checked == 3


def test_a_missing_acknowledged_record_is_lost() -> None:
    assert judged(WHOLE[1:]).lost == 1


def test_a_duplicate_record_is_a_violation_under_exactly_once() -> None:
    again = [*WHOLE, Seen(0, 1, "b")]
    assert (judged(again).duplicated, judged(again).ok) == (1, False)
    assert judged(again, exactly_once=False).ok
    assert judged(again, exactly_once=False).notes


def test_a_record_that_was_never_sent_is_a_violation() -> None:
    assert not judged([*WHOLE, Seen(1, 1, "x")]).ok


def test_offsets_must_increase_within_a_partition() -> None:
    for found, ok in ((WHOLE, True), ([WHOLE[1], WHOLE[0]], False), ([WHOLE[2], *WHOLE[:2]], True)):
        verdict = Verdict("kraft")
        judge_order(verdict, "log", found, exactly_once=True)
        assert verdict.ok == ok


def test_a_value_read_must_equal_the_value_in_the_log() -> None:
    for log, ok in (({(0, 0): "a", (0, 1): "b", (1, 0): "c"}, True), ({(0, 0): "a"}, False)):
        verdict = Verdict("kraft")
        judge_values_by_place(verdict, "sink", WHOLE, log)
        assert verdict.ok == ok


def test_a_checkpoint_must_not_move_backwards() -> None:
    for offsets, ok in (
        ([{"0": 1}, {"0": 1, "1": 4}], True),
        ([{"0": 2}, {"0": 1}], False),
        ([{"0": 1, "1": 1}, {"0": 1}], False),
    ):
        verdict = Verdict("kraft")
        judge_checkpoint(verdict, "query", offsets)
        assert verdict.ok == ok


def test_a_batch_read_must_contain_every_offset_once() -> None:
    for counted, ok in (({0: (3, 3, 2)}, True), ({0: (3, 2, 2)}, False), ({0: (3, 3, 3)}, False)):
        verdict = Verdict("kraft")
        judge_batch_read(verdict, counted, "read")
        assert verdict.ok == ok


def plan(ranges: dict[int, tuple[int, int]], failed: str = "") -> Plan:
    """Of a topic of which 5 records of partition 0 and 7 of partition 1 were acknowledged before."""
    return Plan(needed={0: 5, 1: 7}, ranges=ranges, failed=failed, seconds=0.1)


GOOD = plan({0: (0, 5), 1: (0, 9)})


def test_a_plan_must_cover_every_partition_and_all_previously_acknowledged_records() -> None:
    for ranges, told in (
        ({1: (0, 7)}, "partition 0 is missing, its end was 5"),
        ({0: (0, 5), 1: (0, 6)}, "partition 1 is read in (0, 6), its end was 7"),
        ({0: (1, 5), 1: (0, 7)}, "partition 0 is read in (1, 5), its end was 5"),
    ):
        verdict = Verdict("kraft")
        judge_plans(verdict, [plan(ranges), GOOD])
        assert told in verdict.violations[0]


def test_a_plan_may_fail_but_not_the_last_one_and_at_least_one_must_succeed() -> None:
    for plans, ok in (([GOOD], True), ([plan({}, "no"), GOOD], True), ([GOOD, plan({}, "no")], False), ([], False)):
        verdict = Verdict("kraft")
        judge_plans(verdict, plans)
        assert verdict.ok == ok
