"""Rows out of batches: headers, times, and how much is decoded at once."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.compression import LZ4
from kraft.protocol.records.record import Record
from kraft.protocol.records.record_batch import batches
from kraft.spark.errors import SourceError
from kraft.spark.source.ranges import OffsetRange

record_rows = pytest.importorskip("kraft.spark.source.record_rows")


def rows(
    *records: Record, codec: int = 0, include_headers: bool = False, refuse_names: bool = False
) -> list[dict[str, Any]]:
    found = list(batches(build_batch(list(records), codec=codec)))
    made = record_rows.RecordRows(OffsetRange("t", 0, 0, 100), include_headers, refuse_names=refuse_names)
    return [row for batch in made.rows(found, 0) for row in batch.to_pylist()]


def test_a_header_name_that_is_not_utf_8_is_shown_as_in_java() -> None:
    assert record_rows.headers_at(b"\x04\xff\xfe\x02x", 0, 1) == [{"key": "\ufffd\ufffd", "value": b"x"}]


def test_a_header_name_that_is_not_utf_8_is_refused_where_it_must_stay_unchanged() -> None:
    records = (
        Record(4, 0, None, b"v", (("fine", b"1"),)),
        Record(5, 0, None, b"v", ((b"\xff".decode("utf-8", "surrogateescape"), b"2"),)),
    )
    assert [row["headers"][0]["key"] for row in rows(*records, include_headers=True)] == ["fine", "\ufffd"]
    with pytest.raises(
        SourceError,
        match=(
            r"KAFKA_MALFORMED_HEADER_NAME.*topic t partition 0 offset 5 has a header whose name is not UTF-8: "
            r"b'\\xff'"
        ),
    ):
        rows(*records, include_headers=True, refuse_names=True)
    assert len(rows(*records, refuse_names=True)) == 2, "nobody asked for headers"


def test_headers_keep_their_order() -> None:
    made = rows(
        Record(0, 0, None, b"v", (("b", b"1"), ("a", None), ("b", b"2"))),
        Record(1, 0, None, b"v"),
        include_headers=True,
    )
    assert [row["headers"] for row in made] == [
        [{"key": "b", "value": b"1"}, {"key": "a", "value": None}, {"key": "b", "value": b"2"}],
        None,
    ]


@pytest.mark.parametrize("timestamp", [2**62, -(2**62)])
def test_a_timestamp_out_of_sparks_range_is_refused(timestamp: int) -> None:
    with pytest.raises(SourceError, match=f"timestamp value {timestamp} that overflows"):
        rows(Record(0, timestamp, None, b"v"))


def test_compressed_batches_are_decoded_in_bounded_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraft.spark.decode.arrow_decoder.GROUP_BYTES", 1000)
    from kraft.spark.decode.arrow_decoder import decode

    log = b"".join(
        build_batch([Record(base + index, 7, b"k", b"v" * 200) for index in range(2)], codec=LZ4)
        for base in range(0, 20, 2)
    )
    parts = list(decode(list(batches(log)), 3, 17))
    assert [offset for part in parts for offset in part.offsets.tolist()] == list(range(3, 17))
    assert max(len(part.data) for part in parts) <= 1000
    assert {value for part in parts for value in part.values.to_pylist()} == {b"v" * 200}
