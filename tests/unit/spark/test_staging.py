"""What is staged is taken out of its batch as it was put in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.protocol.records.record import InvalidRecord
from kraft.protocol.records.record_batch import RecordBatch
from kraft.spark.sink.batch_encoder import Row
from kraft.spark.sink.staged_batch import packed
from kraft.spark.sink.staging import values_of


@given(st.lists(st.one_of(st.binary(max_size=200), st.integers(0, 70_000).map(bytes)), min_size=1, max_size=20))
def test_staged_values_read_back_equal(values: list[bytes]) -> None:
    batch = RecordBatch(packed([Row(number * 10_000, None, value, ()) for number, value in enumerate(values)], 0))
    assert [bytes(value) for value in values_of(batch)] == values


def test_a_staged_value_that_exceeds_its_record_is_refused() -> None:
    data = bytearray(packed([Row(0, None, b"abc", ())], 0))
    data[data.index(b"abc") - 1] += 4
    with pytest.raises(InvalidRecord, match="a value of 5 bytes"):
        list(values_of(RecordBatch(bytes(data))))
