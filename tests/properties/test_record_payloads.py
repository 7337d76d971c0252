"""The law of all readers of records: they agree with the plain decoder on every payload, valid or garbage."""

from __future__ import annotations

import contextlib
import random
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.protocol.records.record import InvalidRecord, append_record
from kraft.protocol.records.record_keys import walk_records
from kraft.protocol.records.skipping import first_from
from kraft.protocol.records.validation import JUDGED_A_SLICE, OTHER_RECORD_COST, judge_records
from tests.properties.record_payloads import (
    FORMS,
    PAYLOADS_A_SEED,
    disagreement,
    passing_disagreement,
    plainly,
    read,
    running,
)


@given(st.randoms(use_true_random=False))
def test_optimized_readers_agree_with_the_plain_decoder(draw: random.Random) -> None:
    assert disagreement(draw) == ""


@given(st.binary(max_size=40), st.integers(1, 4))
def test_optimized_readers_agree_on_arbitrary_bytes(payload: bytes, count: int) -> None:
    expected = plainly(payload, count)
    assert [read(payload, count, form) for form in FORMS] == [expected] * len(FORMS)


@given(st.randoms(use_true_random=False))
def test_skipping_records_loses_and_repeats_none(draw: random.Random) -> None:
    assert passing_disagreement(draw) == ""


@given(st.binary(max_size=40), st.integers(1, 4), st.integers(0, 5))
def test_skipping_over_arbitrary_bytes_ends_or_raises(payload: bytes, count: int, offset_delta: int) -> None:
    with contextlib.suppress(InvalidRecord):
        first, position = first_from(payload, count, offset_delta)
        assert 0 <= first <= count
        assert 0 <= position <= len(payload)


def test_optimized_readers_agree_with_the_plain_decoder_on_payloads_of_a_fixed_seed() -> None:
    draw = random.Random(1)
    assert [found for found in (disagreement(draw) for _ in range(PAYLOADS_A_SEED)) if found] == []


@pytest.mark.parametrize("form", FORMS)
def test_record_validation_yields_between_records_and_headers(form: ModuleType) -> None:
    usual, headers, other = bytearray(), bytearray(), bytearray()
    for index in range(2 * JUDGED_A_SLICE + 1):
        append_record(usual, index, 0, b"", None, ())
    append_record(headers, 0, 0, b"", None, (("", None),) * (3 * JUDGED_A_SLICE))
    for index in range(JUDGED_A_SLICE):
        append_record(other, index, 1 << 62, b"", None, ())
    with running(form):
        assert len(list(judge_records(bytes(usual), 2 * JUDGED_A_SLICE + 1))) == 2
        assert len(list(judge_records(bytes(headers), 1))) == 3
        assert len(list(judge_records(bytes(other), JUDGED_A_SLICE))) == OTHER_RECORD_COST - 1


@pytest.mark.parametrize("form", FORMS)
@given(st.randoms(use_true_random=False))
def test_ordinary_producer_records_take_the_fast_path(form: ModuleType, draw: random.Random) -> None:
    payload, count = bytearray(), draw.randrange(1, 300)
    for index in range(count):
        key, value = (draw.choice((None, b"", b"k" * 7, bytes(draw.choice((63, 64, 8191, 8192))))) for _ in range(2))
        headers = (("trace", b"1"), ("", None)) * draw.choice((0, 0, 1, 31))
        append_record(payload, index, draw.choice((0, -1, 5, 90_000, 1 << 40)), key, value, headers)
    data = bytes(payload)
    assert form.judge(data, 0, 0, count)[:2] == (count, len(data))
    assert form.walk(data, 0, 0, count) == list(walk_records(data, count))
    assert len(form.walk(data, 0, 0, count)) == count
