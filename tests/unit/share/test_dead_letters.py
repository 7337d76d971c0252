"""Which topics take dead letters of a share group, and what the letters contain."""

from __future__ import annotations

import pytest

from kraft.protocol.records.record import Record
from kraft.protocol.records.record_batch import RecordBatch
from kraft.share.dead_letters import (
    DELIVERED_TOO_OFTEN,
    REJECTED,
    GivenUp,
    Source,
    build_letters,
    letters_of,
    refusal_of,
)

SOURCE = Source("g", "jobs", 3)
GIVEN_UP = [GivenUp(5, 6, 1, REJECTED), GivenUp(9, 9, 5, DELIVERED_TOO_OFTEN)]


def test_a_letter_has_the_headers_of_kafka_and_neither_key_nor_value() -> None:
    batch, count = build_letters(SOURCE, letters_of(GIVEN_UP), {}, 1_000, 1 << 20)
    assert count == 3
    records = RecordBatch(batch).records()
    assert {(record.key, record.value, record.timestamp) for record in records} == {(None, None, 1_000)}
    assert [dict(record.headers) for record in records] == [
        {
            "__dlq.errors.topic": b"jobs",
            "__dlq.errors.partition": b"3",
            "__dlq.errors.offset": offset,
            "__dlq.errors.group": b"g",
            "__dlq.errors.delivery.count": deliveries,
            "__dlq.errors.message": message,
        }
        for offset, deliveries, message in (
            (b"5", b"1", b"Offset rejected by client."),
            (b"6", b"1", b"Offset rejected by client."),
            (b"9", b"5", b"Offset delivery count exceeded the threshold."),
        )
    ]


def test_a_copied_record_gives_its_key_and_value_and_not_its_headers() -> None:
    copies = {6: Record(6, 1, b"key", b"value", (("own", b"x"),))}
    records = RecordBatch(build_letters(SOURCE, letters_of(GIVEN_UP), copies, 1_000, 1 << 20)[0]).records()
    assert [(record.key, record.value) for record in records] == [(None, None), (b"key", b"value"), (None, None)]
    assert "own" not in dict(records[1].headers)


def test_a_batch_has_as_many_letters_as_the_topic_allows_and_at_least_one() -> None:
    letters = letters_of([GivenUp(0, 9, 1, REJECTED)])
    whole, _ = build_letters(SOURCE, letters, {}, 0, 1 << 20)
    for bytes_max in range(1, len(whole) + 1):
        batch, count = build_letters(SOURCE, letters, {}, 0, bytes_max)
        assert count == len(RecordBatch(batch).records()) >= 1
        assert len(batch) <= bytes_max or count == 1
    assert build_letters(SOURCE, letters, {}, 0, len(whole)) == (whole, 10)
    assert build_letters(SOURCE, letters, {}, 0, len(whole) - 1)[1] == 9


def test_a_record_that_does_not_fit_into_a_batch_is_not_copied() -> None:
    copies = {5: Record(5, 0, b"k", bytes(1000)), 6: Record(6, 0, b"k", b"v")}
    batch, count = build_letters(SOURCE, letters_of([GivenUp(5, 6, 1, REJECTED)]), copies, 0, 900)
    assert count == 2
    assert [record.value for record in RecordBatch(batch).records()] == [None, b"v"]


@pytest.mark.parametrize(
    ("topic", "is_enabled", "may_create", "prefix", "refusal"),
    [
        ("dlq.g", True, False, "dlq.", None),
        ("dlq.g", None, True, "dlq.", None),
        ("letters", True, False, "", None),
        ("dlq.g", None, False, "dlq.", "does not exist"),
        ("dlq.g", False, True, "dlq.", "errors.deadletterqueue.group.enable"),
        ("letters", True, True, "dlq.", "does not begin with dlq."),
        ("", None, True, "", "no dead letter topic any more"),
        ("__dlq", True, True, "", "begins with __"),
    ],
)
def test_a_topic_takes_dead_letters_only_if_its_configuration_and_its_name_allow_it(
    topic: str, is_enabled: bool | None, may_create: bool, prefix: str, refusal: str | None
) -> None:
    found = refusal_of("g", topic, is_enabled=is_enabled, may_create=may_create, prefix=prefix)
    if refusal is None:
        assert found is None
    else:
        assert refusal in (found or "")
