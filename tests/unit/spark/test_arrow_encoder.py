"""Arrow columns become the bytes that the plain encoder gives, whatever the rows are."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.protocol.records.compression import CODEC_NAMES
from kraft.protocol.records.record_batch import HEADER_SIZE
from kraft.rpc_client.partitioner import partition_for_key
from kraft.spark.sink.arrow_encoder import BINARY, Rows, encode, joined, partitions_of
from kraft.spark.sink.batch_encoder import Row, encode_batch
from kraft.spark.sink.incoming_columns import incoming
from tests.unit.spark.sink_rows import NOW_MS, arrow_batch, incoming_rows, sink

BYTES = st.one_of(st.none(), st.binary(max_size=9), st.integers(60, 20_000).map(lambda size: b"x" * size))
HEADERS = st.one_of(st.none(), st.lists(st.tuples(st.text(max_size=70), BYTES), max_size=3))
TIMES = st.one_of(st.none(), st.integers(-(10**15), 10**15), st.integers(NOW_MS * 1000, NOW_MS * 1000 + 10**6))
ROW = st.tuples(st.just("t"), BYTES, BYTES, st.none(), HEADERS, TIMES)
KEYS = st.lists(st.one_of(st.none(), st.binary(max_size=13), st.binary(max_size=300)), max_size=30)


def plain(rows: list[tuple[Any, ...]]) -> list[Row]:
    return [
        Row(NOW_MS if time is None else time // 1000, key, value, tuple(headers or ()))
        for _, key, value, _, headers, time in rows
    ]


def columns(rows: list[tuple[Any, ...]]) -> Rows:
    return incoming_rows(rows).rows


@given(st.lists(ROW, min_size=1, max_size=20), st.sampled_from(range(len(CODEC_NAMES))), st.integers(1, 100))
def test_the_arrow_encoder_produces_the_bytes_of_the_plain_encoder(
    rows: list[tuple[Any, ...]], codec: int, times: int
) -> None:
    rows = rows * times
    assert encode(columns(rows), codec, 7, 1, 2) == encode_batch(plain(rows), codec, 7, 1, 2)


@given(st.lists(st.lists(ROW, min_size=1, max_size=5), min_size=1, max_size=4), st.data())
def test_rows_of_several_arrow_batches_are_joined_selected_and_sliced(
    chunks: list[list[tuple[Any, ...]]], data: st.DataObject
) -> None:
    rows = [row for chunk in chunks for row in chunk]
    order = data.draw(st.permutations(range(len(rows))))
    begin = data.draw(st.integers(0, len(rows) - 1))
    end = data.draw(st.integers(begin + 1, len(rows)))
    found = joined([columns(chunk) for chunk in chunks]).take(np.array(order)).part(begin, end)
    wanted = plain([rows[place] for place in order[begin:end]])
    assert encode(found, 0, 7, 1, 2) == encode_batch(wanted, 0, 7, 1, 2)
    content = len(encode_batch(wanted, 0, 7, 1, 2)) - HEADER_SIZE
    assert 0 <= int(found.sizes().sum()) - content + 10 * len(wanted) <= 30 * len(wanted)


@given(st.lists(ROW, min_size=1, max_size=20), st.integers(0, 19))
def test_a_sliced_arrow_batch_is_read_from_its_offset(rows: list[tuple[Any, ...]], begin: int) -> None:
    begin = min(begin, len(rows) - 1)
    part = incoming(sink(), arrow_batch(rows).slice(begin), NOW_MS).rows
    assert encode(part, 0, 7, 1, 2) == encode_batch(plain(rows[begin:]), 0, 7, 1, 2)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_columns_of_every_text_and_binary_type_are_accepted(kind: pa.DataType) -> None:
    batch = pa.record_batch([pa.array(["v", None, "wä"], kind)], names=["value"])
    of_values = dataclasses.replace(sink("t"), columns=("value",), keep_timestamp=False)
    found = incoming(of_values, batch, 5).rows
    wanted = [Row(5, None, value, ()) for value in (b"v", None, "wä".encode())]
    assert encode(found, 0, 7, 1, 2) == encode_batch(wanted, 0, 7, 1, 2)


@given(KEYS, st.integers(1, 50))
def test_keys_are_partitioned_as_by_java_clients(keys: list[bytes | None], partitions: int) -> None:
    found = partitions_of(pa.array(keys, BINARY), partitions).tolist()
    assert [place for place, key in zip(found, keys, strict=True) if key is not None] == [
        partition_for_key(key, partitions) for key in keys if key is not None
    ]


def test_a_header_without_a_key_is_refused() -> None:
    with pytest.raises(ValueError, match="a header without a key"):
        incoming_rows([("t", None, b"v", None, [(None, b"v")], None)])
