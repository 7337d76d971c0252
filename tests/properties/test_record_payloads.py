"""The law of all readers of records: they agree with the plain decoder on every payload, valid or garbage."""

from __future__ import annotations

import contextlib
import random

from hypothesis import given
from hypothesis import strategies as st

from kraft.protocol.records.judged_records import JUDGED_A_SLICE, judge_records
from kraft.protocol.records.passed_records import first_from
from kraft.protocol.records.record import InvalidRecord, append_record
from tests.properties.record_payloads import PAYLOADS_A_SEED, disagreement, passing_disagreement, plainly, read


@given(st.randoms(use_true_random=False))
def test_readers_agree_with_the_plain_decoder(draw: random.Random) -> None:
    assert disagreement(draw) == ""


@given(st.binary(max_size=40), st.integers(1, 4))
def test_readers_agree_on_any_bytes(payload: bytes, count: int) -> None:
    assert read(payload, count) == plainly(payload, count)


@given(st.randoms(use_true_random=False))
def test_passing_over_records_loses_none_and_shows_none_twice(draw: random.Random) -> None:
    assert passing_disagreement(draw) == ""


@given(st.binary(max_size=40), st.integers(1, 4), st.integers(0, 5))
def test_passing_over_any_bytes_ends_or_says_why(payload: bytes, count: int, offset_delta: int) -> None:
    with contextlib.suppress(InvalidRecord):
        first, position = first_from(payload, count, offset_delta)
        assert 0 <= first <= count
        assert 0 <= position <= len(payload)


def test_many_payloads_of_one_seed() -> None:
    draw = random.Random(1)
    assert [found for found in (disagreement(draw) for _ in range(PAYLOADS_A_SEED)) if found] == []


def test_a_judge_pauses_in_many_records_and_in_many_headers() -> None:
    payload = bytearray()
    for index in range(2 * JUDGED_A_SLICE):
        append_record(payload, index, 0, b"", None, ())
    assert len(list(judge_records(bytes(payload), 2 * JUDGED_A_SLICE))) == 2
    payload.clear()
    append_record(payload, 0, 0, b"", None, (("", None),) * (3 * JUDGED_A_SLICE))
    assert len(list(judge_records(bytes(payload), 1))) == 3
