"""A real loss must be told as what it is: partition and offsets, no more and no less."""

from __future__ import annotations

import pytest

from jepsen.spark.checks import Seen, Verdict
from jepsen.spark.loss_checks import Lost, judge_failure, judge_rest, judge_warning, reported
from kraft.common.ids import TopicPartition
from kraft.spark.errors import DataLoss

LOST = frozenset([Lost("a-b.c", 0, 100, 250), Lost("a-b.c", 1, 7, 9)])
FIRST = "Could not read records in offset [100, 250) for topic partition a-b.c-0: the broker holds [250, 300)."
SECOND = "Partition a-b.c-1 offset was changed from 9 to 7. The partition was deleted and created again, or"


def test_the_ranges_of_both_kinds_of_loss_report_are_parsed() -> None:
    assert reported(f"WARN {FIRST}\nWARN {SECOND}") == LOST
    assert reported("[KAFKA_DATA_LOSS] all is well") == frozenset()


def test_the_loss_messages_of_the_source_are_parsed() -> None:
    from kraft.spark.source.ranges import OffsetRange

    fetcher = pytest.importorskip("kraft.spark.source.direct_fetcher").DirectFetcher(
        OffsetRange("a-b.c", 0, 100, 300),
        "h:1",
        include_headers=False,
        fail_on_data_loss=True,
        poll_timeout_ms=1,
        attempts_max=1,
        retry_ms=1,
    )
    with pytest.raises(DataLoss) as told:
        fetcher.lose(250, "the broker holds [250, 300)")
    assert reported(str(told.value)) == {Lost("a-b.c", 0, 100, 250)}
    assert str(TopicPartition("a-b.c", 0)) in str(told.value)


@pytest.mark.parametrize(
    ("failed", "ok"),
    [
        (FIRST, True),
        (f"{FIRST} {SECOND}", True),
        (None, False),
        ("KAFKA_DATA_LOSS: something is gone", False),
        (FIRST.replace("250)", "251)"), False),
        (FIRST.replace("a-b.c-0", "a-b.c-1"), False),
        (f"{FIRST} {SECOND.replace('from 9', 'from 10')}", False),
    ],
)
def test_a_query_that_must_fail_names_exactly_the_lost_ranges(failed: str | None, ok: bool) -> None:
    verdict = Verdict("kraft")
    judge_failure(verdict, "query", failed, LOST)
    assert verdict.ok == ok


def test_the_official_connector_must_fail_and_may_name_another_range() -> None:
    for failed, ok in (
        (FIRST.replace("250)", "300)"), True),
        (None, False),
        ("out of memory", False),
        (FIRST.replace("a-b.c-0", "a-b.c-5"), False),
    ):
        verdict = Verdict("kafka")
        judge_failure(verdict, "query", failed, LOST)
        assert (verdict.ok, bool(verdict.notes)) == (ok, ok)


@pytest.mark.parametrize(
    ("failed", "warned", "ok"),
    [(None, FIRST + SECOND, True), (None, FIRST, False), (None, "", False), ("no", FIRST + SECOND, False)],
)
def test_a_query_that_must_continue_names_all_lost_ranges(failed: str | None, warned: str, ok: bool) -> None:
    verdict = Verdict("kraft")
    judge_warning(verdict, "query", failed, warned, LOST)
    assert verdict.ok == ok


def test_records_that_were_not_lost_must_be_read_once() -> None:
    rows = [Seen(0, 0, "a"), Seen(0, 1, "b"), Seen(1, 0, "c")]
    for found, ok in (
        (rows, True),
        (rows[1:], False),
        ([*rows, rows[0]], False),
        ([*rows, Seen(0, 1, "other")], False),
        ([*rows, Seen(1, 1, "late")], True),
    ):
        verdict = Verdict("kraft")
        judge_rest(verdict, "query", found, frozenset(rows), frozenset([*rows, Seen(1, 1, "late")]))
        assert verdict.ok == ok
