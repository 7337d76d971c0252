"""Which records a search takes."""

from __future__ import annotations

import pytest
from kraft_http.records.search_conditions import (
    LOOKED_AT_BYTES_MAX,
    BadCondition,
    Comparison,
    Condition,
    Part,
    TooLarge,
)

from kraft.protocol.records.record import Record

ORDER = b'{"order": {"id": 5, "total": 12.50, "paid": true, "note": null, "odd name": "x"}, "items": [{"name": "tea"}]}'


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        (".order.id == 5", True),
        (".order.id==5.0", True),
        (".order.id != 5", False),
        (".order.id >= 5", True),
        (".order.id > 5", False),
        (".order.id < 5.5", True),
        ('.order.id == "5"', False),
        (".order.total == 12.5", True),
        (".order.paid == true", True),
        (".order.paid == 1", False),
        (".order.note == null", True),
        ('.order["odd name"] == "x"', True),
        ('.order.["odd name"] <= "y"', True),
        ('.items[0].name == "tea"', True),
        ('.items[1].name != "tea"', False),
        (".order.missing != 5", False),
        (".items.name == 5", False),
        ('.order == {"id": 5}', False),
        ('.items == [{"name": "tea"}]', True),
        ('.order.id < "a"', False),
    ],
)
def test_a_json_path_is_compared_with_values_of_its_type(text: str, fits: bool) -> None:
    assert Comparison.parse(text).fits(ORDER) is fits


def test_large_numbers_are_compared_exactly() -> None:
    assert not Comparison.parse(".id == 9007199254740993").fits(b'{"id": 9007199254740992}')
    assert not Comparison.parse(".x == 0.1").fits(b'{"x": 0.10000000000000000001}')


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff",
        b"[" * 100_000,
        b'{"id": ' + b"1" * 10_000 + b"}",
        b'{"id": NaN}',
        b'{"id": 1e9999999999999999999}',
        b'{"id": 1e-9999999999999999999}',
    ],
)
def test_invalid_json_matches_no_condition(data: bytes) -> None:
    assert not Comparison.parse(".id != 5").fits(data)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "order == 5",
        ".order",
        ".order = 5",
        ".order == five",
        ". == 5",
        ".a == ",
        ".a < true",
        ".a" * 33 + "==1",
        ".a == 1e9999999999999999999",
        ".a[007] == 5",
        r'.["\q"] == 5',
    ],
)
def test_an_invalid_search_comparison_is_refused(text: str) -> None:
    with pytest.raises(BadCondition):
        Comparison.parse(text)


RECORD = Record(0, 1000, b"Key-1", b"The Value", (("Trace", b"ABC"), ("empty", None)))


@pytest.mark.parametrize(
    ("condition", "fits"),
    [
        (Condition(key=b"Key-1"), True),
        (Condition(key=b"key-1"), False),
        (Condition(text="key"), True),
        (Condition(text="key", parts=(Part.VALUE,)), False),
        (Condition(text="value", parts=(Part.VALUE,)), True),
        (Condition(text="trace", parts=(Part.HEADERS,)), True),
        (Condition(text="abc", parts=(Part.HEADERS,), header="Trace"), True),
        (Condition(text="trace", parts=(Part.HEADERS,), header="Trace"), False),
        (Condition(text="abc", parts=(Part.HEADERS,), header="empty"), False),
        (Condition(key=b"Key-1", text="missing"), False),
        (Condition(text="value", from_time_ms=1000, to_time_ms=1001), True),
        (Condition(text="value", from_time_ms=1001), False),
        (Condition(text="value", to_time_ms=1000), False),
    ],
)
def test_all_search_conditions_must_match(condition: Condition, fits: bool) -> None:
    assert condition.fits(RECORD) is fits


def test_a_field_that_is_too_large_is_reported_and_not_searched() -> None:
    large = Record(0, 0, b"k", b"a" * (LOOKED_AT_BYTES_MAX + 1), ())
    assert Condition(key=b"k").fits(large)
    assert Condition(text="k").fits(large), "the key says it already"
    with pytest.raises(TooLarge):
        Condition(text="a" * 9).fits(large)
    with pytest.raises(TooLarge):
        Condition(where=Comparison.parse(".a == 1")).fits(large)
