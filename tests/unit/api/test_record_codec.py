"""Records between JSON and bytes."""

from __future__ import annotations

import base64
import functools
import json
import warnings
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kraft_http.models.records import DataType, ProduceRecord, RecordData, RecordHeader
from kraft_http.records.record_codec import NESTED_MAX, encode_data, format_timestamp, show_data, show_record, to_record
from kraft_http.requests.errors import ApiProblem

from kraft.protocol.records.record import Record
from kraft.rpc_client.partitioner import murmur2, partition_for_key

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas by a deprecated function.
    from kafka.partitioner.default import murmur2 as kafka_python_murmur2


@given(key=st.binary(max_size=40), partitions=st.integers(1, 50))
def test_keys_are_partitioned_as_by_other_clients(key: bytes, partitions: int) -> None:
    assert murmur2(key) == kafka_python_murmur2(key)
    assert partition_for_key(key, partitions) == (kafka_python_murmur2(key) & 0x7FFFFFFF) % partitions


@given(data=st.none() | st.binary(max_size=60) | st.text(max_size=20).map(str.encode))
def test_a_displayed_record_can_be_produced_again(data: bytes | None) -> None:
    for data_format in (None, DataType.BINARY, DataType.STRING, DataType.JSON):
        shown = show_data(data, data_format)
        if shown is None:
            assert data is None
        elif shown.type is DataType.JSON:
            again = encode_data(RecordData(type=shown.type, data=shown.data))
            assert data is not None
            assert json.loads(again or b"null") == json.loads(data)
        else:
            assert encode_data(RecordData(type=shown.type, data=shown.data)) == data


def test_a_record_is_built_from_its_fields() -> None:
    body = ProduceRecord(
        key=RecordData(type=DataType.STRING, data="k"),
        value=RecordData(type=DataType.JSON, data={"a": [1, "é"]}),
        headers=[RecordHeader(name="h", value=base64.b64encode(b"\0").decode()), RecordHeader(name="none")],
        timestamp=datetime(2024, 2, 3, tzinfo=UTC),
    )
    assert to_record(body, now_ms=1) == Record(
        0, 1_706_918_400_000, b"k", '{"a":[1,"é"]}'.encode(), (("h", b"\0"), ("none", None))
    )
    assert to_record(ProduceRecord(), now_ms=7) == Record(0, 7, None, None)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (RecordData(type=DataType.BINARY, data="%"), "data=% is not a base64 string"),
        (RecordData(type=DataType.BINARY, data=5), "must be a JSON string"),
        (RecordData(type=DataType.STRING, data={}), "must be a JSON string"),
        (RecordData(type=DataType.STRING, data="\ud800"), "half a surrogate pair"),
        (RecordData(data=[float("nan")]), "not JSON"),
        (RecordData(data=float("inf")), "not JSON"),
        (RecordData(data=functools.reduce(lambda inner, _: [inner], range(5000), [0])), "nested too deeply"),
    ],
)
def test_data_that_cannot_be_encoded_is_refused(data: RecordData, complaint: str) -> None:
    with pytest.raises(ApiProblem, match=complaint):
        encode_data(data)


def nested(levels: int) -> Any:
    return functools.reduce(lambda inner, level: {"a": inner} if level % 2 else [inner], range(levels), 0)


def test_request_documents_may_nest_as_deeply_as_responses() -> None:
    for levels, is_json in ((NESTED_MAX, True), (NESTED_MAX + 1, False), (900, False)):
        stored = json.dumps(nested(levels), separators=(",", ":")).encode()
        shown = show_record(Record(0, 0, None, stored, ()), 0, None, None)
        assert json.loads(shown.model_dump_json())["value"]["type"] == ("JSON" if is_json else "STRING")
        if is_json:
            assert encode_data(RecordData(data=nested(levels))) == stored
        else:
            with pytest.raises(ApiProblem, match="nested too deeply"):
                encode_data(RecordData(data=nested(levels)))


@pytest.mark.parametrize("name", ["\udcff", "caf\udce9"])
def test_the_name_of_a_header_that_is_not_utf_8_is_shown_as_base64(name: str) -> None:
    shown = json.loads(
        show_record(Record(0, 0, None, None, (("h", b"1"), (name, b"2"))), 0, None, None).model_dump_json()
    )
    plain, other = shown["headers"]
    assert (plain["name"], plain["name_type"]) == ("h", "STRING")
    assert (base64.b64decode(other["name"]), other["name_type"]) == (name.encode("utf-8", "surrogateescape"), "BINARY")


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1,"a":2}',
        b"0.12345678901234567890",
        b"123456789012345678.5",
        b"1e400",
        b"1e9999999999999999999",
        b"1e-9999999999999999999",
    ],
)
def test_values_that_json_would_change_are_shown_as_text(data: bytes) -> None:
    shown = show_data(data, None)
    assert shown is not None
    assert (shown.type, shown.data) == (DataType.STRING, data.decode())


@pytest.mark.parametrize("data", [b'{"a":1.50,"b":9007199254740993}', b"0.1", b"1e3", b"-0.0"])
def test_all_other_numbers_are_shown_as_json_numbers(data: bytes) -> None:
    shown = show_data(data, None)
    assert shown is not None
    assert shown.type is DataType.JSON


def test_timestamps_are_shown_in_rfc_3339_even_when_invalid() -> None:
    assert format_timestamp(1_706_918_400_123) == "2024-02-03T00:00:00.123Z"
    assert (format_timestamp(-1), format_timestamp(2**62)) == ("1970-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z")


def test_a_time_before_1970_is_refused() -> None:
    with pytest.raises(ApiProblem, match="before 1970"):
        to_record(ProduceRecord(timestamp=datetime(1960, 1, 1, tzinfo=UTC)), now_ms=0)
