"""Concatenated JSON, cut anywhere."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kraft_http.records.json_stream import BrokenStream, JsonDocuments

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
SEPARATORS = st.sampled_from([" ", "\n", "\r\n", "\t \n"])


@given(documents=st.lists(st.tuples(JSON, SEPARATORS), max_size=6), cuts=st.lists(st.integers(0, 400), max_size=8))
def test_json_documents_are_parsed_completely_and_in_order_however_the_bytes_are_split(
    documents: list[tuple[Any, str]], cuts: list[int]
) -> None:
    data = "".join(json.dumps(document, ensure_ascii=False) + separator for document, separator in documents).encode()
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    stream = JsonDocuments()
    found = [document for start, end in pairwise(places) for document in stream.feed(data[start:end])]
    assert found + stream.feed(b"", last=True) == [document for document, _ in documents]


def test_json_objects_need_no_separators_and_are_complete_at_their_end() -> None:
    stream = JsonDocuments()
    assert stream.feed(b'{"a":1}{"b":"}"}[1]"x"') == [{"a": 1}, {"b": "}"}, [1], "x"]
    assert stream.feed(b"12") == []
    assert stream.feed(b"3 ") == [123]


@pytest.mark.parametrize(
    ("data", "message"),
    [(b'{"a":', "not JSON"), (b"nonsense", "not JSON"), (b"\xff", "not UTF-8"), (b"\xc3", "not UTF-8")],
)
def test_invalid_json_ends_the_stream(data: bytes, message: str) -> None:
    with pytest.raises(BrokenStream, match=message):
        JsonDocuments().feed(data, last=True)


def test_unlimited_nesting_is_refused_without_an_overflow() -> None:
    with pytest.raises(BrokenStream, match="nested too deeply"):
        JsonDocuments().feed(b"[" * 200_000, last=True)


def test_an_endless_record_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraft_http.records.json_stream.DOCUMENT_CHARACTERS_MAX", 100)
    stream = JsonDocuments()
    stream.feed(b'"' + b"x" * 90)
    with pytest.raises(BrokenStream, match="larger than 100"):
        stream.feed(b"x" * 90)


def test_a_record_in_many_chunks_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []
    parse = json.JSONDecoder.raw_decode

    def counting(self: json.JSONDecoder, text: str, idx: int = 0) -> tuple[Any, int]:
        parsed.append(len(text) - idx)
        return parse(self, text, idx)

    monkeypatch.setattr(json.JSONDecoder, "raw_decode", counting)
    data = json.dumps([{"value": {"data": 'a"\\}' * 500}, "key": [1.5, None]}] * 20).encode()
    stream = JsonDocuments()
    found = [document for start in range(0, len(data), 100) for document in stream.feed(data[start : start + 100])]
    assert found == [json.loads(data)]
    assert sum(parsed) <= 2 * len(data), "json.loads above parses it once more"


def test_documents_before_an_error_are_delivered_first() -> None:
    stream = JsonDocuments()
    assert stream.feed(b'{"a":1} 2 [}{"b":1}') == [{"a": 1}, 2]
    with pytest.raises(BrokenStream, match="not JSON"):
        stream.feed(b" ")


def test_a_number_with_too_many_digits_ends_the_stream() -> None:
    with pytest.raises(BrokenStream, match="not JSON"):
        JsonDocuments().feed(b"1" * 5000 + b" ")
