"""Whether a micro-batch is still to be committed, and what says so."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kraft.protocol.records.control_record import ControlRecordType, TransactionMarker, build_marker_batch
from kraft.protocol.records.record_batch import RecordBatch
from kraft.spark.errors import SourceError, no_transactions
from kraft.spark.sink.batch_commit import CommitRules, SinkIdentity, must_write
from kraft.spark.sink.committed_batches import CommittedBatch, last_of, record_of
from kraft.spark.sink.sink_options import TRANSACTION_MS, transaction_ms_of
from kraft.spark.sink.staged_batch import stamped

RULES = CommitRules(1000, "fail", once_a_run=False)
NOW = CommittedBatch(5, 10, "run")


def note(key: str, batch: int, producer: int) -> RecordBatch:
    return RecordBatch(stamped(record_of(key, CommittedBatch(batch, 10, "run"), 0), producer, 0, 0))


def marker(producer: int, kind: int = ControlRecordType.COMMIT) -> RecordBatch:
    made = build_marker_batch(
        TransactionMarker(kind, 0), producer_id=producer, producer_epoch=0, timestamp_ms=0, offset=0, leader_epoch=0
    )
    return RecordBatch(made)


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ([], None),
        ([note("k", 1, 7), marker(7)], 1),
        ([note("k", 1, 7), marker(7), note("k", 2, 7), marker(7, ControlRecordType.ABORT)], 1),
        ([note("k", 1, 7), marker(7), note("k", 2, 8)], 1),
        ([note("k", 1, 7), note("o", 9, 8), marker(8), marker(7)], 1),
        ([marker(7), note("k", 1, 7), marker(8)], None),
        ([note("k", 1, 7), marker(7), note("k", 2, 8), marker(8)], 2),
    ],
)
def test_the_last_batch_is_the_last_one_committed_by_a_marker(log: Sequence[RecordBatch], expected: int | None) -> None:
    found = last_of(log, b"k")
    assert (None if found is None else found.batch) == expected


def test_a_batch_is_pending_until_it_or_a_later_one_is_committed() -> None:
    assert must_write("k", NOW, None, RULES)
    assert must_write("k", NOW, NOW._replace(batch=4, rows=99), RULES)
    assert not must_write("k", NOW, NOW._replace(run="before"), RULES)
    with pytest.raises(SourceError, match=r"KAFKA_SINK_BATCH_FENCED.*Micro-batch 5 of k is older.*micro-batch 6"):
        must_write("k", NOW, NOW._replace(batch=6), RULES)


def test_a_retried_batch_with_different_rows_is_refused_unless_an_option_decides() -> None:
    last = NOW._replace(rows=9)
    with pytest.raises(SourceError, match="KAFKA_SINK_BATCH_NOT_REPEATABLE"):
        must_write("k", NOW, last, RULES)
    assert not must_write("k", NOW, last, RULES._replace(on_difference="keep"))
    assert must_write("k", NOW, last, RULES._replace(on_difference="atleastonce"))


def test_writing_a_batch_twice_in_one_run_is_refused_when_once_per_run_is_set() -> None:
    with pytest.raises(SourceError, match="KAFKA_SINK_BATCH_WRITTEN_TWICE"):
        must_write("k", NOW, NOW, RULES._replace(once_a_run=True))
    assert not must_write("k", NOW, NOW, RULES)


def test_sinks_with_different_settings_have_different_names() -> None:
    sinks = [
        SinkIdentity("q", "t", ""),
        SinkIdentity("q", "t", "2"),
        SinkIdentity("q", None, ""),
        SinkIdentity("r", "t", ""),
    ]
    assert len({each.transactional_id for each in sinks} | {each.staging_topic for each in sinks}) == 8
    assert all(len(each.staging_topic) < 200 for each in sinks)


def test_the_transaction_timeout_must_be_a_number() -> None:
    assert transaction_ms_of({}) == TRANSACTION_MS
    assert transaction_ms_of({"transaction.timeout.ms": " 900000 "}) == 900_000
    for wrong in ("0", "a", "-5", str(1 << 31)):
        with pytest.raises(ValueError, match=r"transaction\.timeout\.ms"):
            transaction_ms_of({"transaction.timeout.ms": wrong})


def test_a_cluster_without_transactions_is_refused_with_the_remedy() -> None:
    assert "exactlyOnce to false" in str(no_transactions("EndTxn"))
