"""Records decoded by column are the records decoded one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.record import InvalidRecord, Record
from kraft.protocol.records.record_batch import LOG_APPEND_TIME, batches

decoder = pytest.importorskip("kraft.spark.decode.arrow_decoder")

some_bytes = st.one_of(st.none(), st.binary(max_size=300))
headers = st.lists(st.tuples(st.text(max_size=5), some_bytes), max_size=2).map(tuple)
contents = st.lists(st.tuples(st.integers(0, 2**48), some_bytes, some_bytes, headers), min_size=1, max_size=20)


def decoded(log: bytes, start: int = 0, end: int = 2**62) -> list[tuple[object, ...]]:
    return [
        row
        for found in decoder.decode(list(batches(memoryview(log))), start, end)
        for row in zip(
            found.offsets.tolist(),
            found.timestamps_ms.tolist(),
            found.keys.to_pylist(),
            found.values.to_pylist(),
            strict=True,
        )
    ]


def expected(log: bytes, start: int = 0, end: int = 2**62) -> list[tuple[object, ...]]:
    return [
        (r.offset, r.timestamp, r.key, r.value)
        for batch in batches(log)
        for r in batch.records()
        if start <= r.offset < end
    ]


@settings(max_examples=60)
@given(
    st.lists(st.tuples(contents, st.integers(0, 4), st.booleans()), min_size=1, max_size=4),
    st.integers(0, 30),
    st.integers(0, 60),
)
def test_arrow_columns_equal_the_records(
    given_batches: list[tuple[list[tuple[object, ...]], int, bool]], start: int, size: int
) -> None:
    log, offset = b"", 0
    for rows, codec, appended in given_batches:
        records = [Record(offset + 2 * index, *row) for index, row in enumerate(rows)]  # type: ignore[arg-type]
        extra = {"timestamp_type": LOG_APPEND_TIME, "log_append_time_ms": 123} if appended else {}
        log += build_batch(records, codec=codec, **extra)  # type: ignore[arg-type]
        offset = records[-1].offset + 3
    assert decoded(log) == expected(log)
    assert decoded(log, start, start + size) == expected(log, start, start + size)


@pytest.mark.parametrize("size", [0, 50, 57, 63, 64, 100, 8190, 20_000])
def test_equal_records_are_decoded_as_runs(size: int) -> None:
    records = [Record(index, 1000 + index // 3, b"k" * (index % 200 == 9), b"x" * size) for index in range(300)]
    log = build_batch(records)
    assert decoded(log) == expected(log)


def test_bytes_that_are_not_records_are_refused() -> None:
    log = bytearray(build_batch([Record(index, 0, b"key", b"value") for index in range(40)]))
    chance = np.random.default_rng(1)
    refused = 0
    for _ in range(400):
        broken = bytearray(log)
        broken[int(chance.integers(61, len(log)))] = int(chance.integers(0, 256))
        try:
            decoded(bytes(broken))
        except InvalidRecord:
            refused += 1
    assert refused > 50


def test_a_batch_without_records_decodes_to_nothing() -> None:
    from kraft.protocol.records.builder import build_empty_batch

    log = build_empty_batch(next(iter(batches(build_batch([Record(0, 0, None, b"v")])))))
    assert decoded(log) == []
