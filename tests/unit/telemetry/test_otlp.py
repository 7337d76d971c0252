"""What is read of a client's push, and what is not."""

from __future__ import annotations

import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.telemetry import otlp
from kraft.telemetry.otlp import InvalidTelemetry, Point, Push, read_push
from kraft.world.steps import at_once
from tests.unit.telemetry.pushes import attributes, gauge, number, part, point, push, total


def read(data: bytes) -> Push:
    return at_once(read_push(memoryview(data)))


def test_gauges_and_sums_are_read_with_their_attributes() -> None:
    found = read(
        push(
            gauge("latency", point(2.5, {"node": "1", "a": "b"}), point(3)),
            total("errors", point(7)),
            total("sent", point(-1), is_delta=True, is_monotonic=False),
            labels={"group_id": "g"},
        )
    )
    assert found.points == [
        Point("latency", (("a", "b"), ("node", "1")), 2.5, False, False),
        Point("latency", (), 3.0, False, False),
        Point("errors", (), 7.0, True, False),
        Point("sent", (), -1.0, False, True),
    ]
    assert (found.labels, found.left_out) == ({"group_id": "g"}, 0)


def test_a_metric_may_name_itself_after_its_points() -> None:
    assert [each.name for each in read(push(part(5, part(1, point(1))) + part(1, "late"))).points] == ["late"]


@pytest.mark.parametrize(
    "metric",
    [
        gauge("n", point(math.nan)),
        gauge("n", point(math.inf)),
        gauge("", point(1)),
        gauge("n" * (otlp.NAME_CHARS_MAX + 1), point(1)),
        gauge("n", point(1, {"k": "v" * (otlp.ATTRIBUTE_CHARS_MAX + 1)})),
        gauge("n", point(1, {"k" * (otlp.ATTRIBUTE_CHARS_MAX + 1): "v"})),
        gauge("n", point(1, {str(each): "v" for each in range(otlp.ATTRIBUTES_MAX + 1)})),
        gauge("n", b""),
        part(1, "n") + part(9, b""),
    ],
)
def test_a_point_without_a_number_or_beyond_a_bound_is_left_out(metric: bytes) -> None:
    found = read(push(metric, gauge("other", point(1))))
    assert ([each.name for each in found.points], found.left_out) == (["other"], 1)


def test_points_beyond_the_limit_of_a_push_are_counted_and_not_kept() -> None:
    found = read(push(gauge("n", *(point(each) for each in range(otlp.POINTS_MAX + 3)))))
    assert (len(found.points), found.left_out) == (otlp.POINTS_MAX, 3)


def test_whole_numbers_and_truth_values_are_attributes_too() -> None:
    values = (part(2, number(3, 5)), part(2, number(2, 1)), part(2, number(3, (1 << 64) - 2)), part(2, b""))
    named = b"".join(part(7, part(1, f"k{index}") + each) for index, each in enumerate(values))
    [found] = read(push(gauge("n", named + point(1)))).points
    assert found.attributes == (("k0", "5"), ("k1", "true"), ("k2", "-2"))


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a\x05abc",
        b"\x0b",
        b"\x80" * 11,
        b"\x0d\x00\x00",
        b"\x80",
        bytes(2 * otlp.STEPS_MAX + 2),
        push(gauge("n", number(2, 1) * (otlp.POINT_FIELDS_MAX + 1))),
        push(gauge("n", part(7, number(3, 1) * (otlp.PART_FIELDS_MAX + 1)))),
    ],
)
def test_bytes_that_are_not_metrics_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidTelemetry):
        read(data)


_texts = st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3)
_metrics = st.builds(gauge, st.text(max_size=9), st.builds(point, st.floats() | st.integers(-9, 9), _texts))
_pushes = st.lists(_metrics, max_size=3).map(lambda each: push(*each))


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(_pushes))
    for at in draw(st.lists(st.integers(0, max(len(data) - 1, 0)), max_size=4)):
        data[at : at + 1] = draw(st.binary(max_size=3))
    return bytes(data)


@given(st.binary(max_size=300) | damaged())
def test_any_bytes_are_read_or_refused_in_steps_that_do_not_exceed_their_length(data: bytes) -> None:
    work = read_push(memoryview(data))
    steps = 0
    with suppress(InvalidTelemetry):
        for job in work:
            assert job is None
            steps += 1
    assert steps <= 2 * len(data)


def test_a_resource_attribute_beyond_the_limit_is_not_kept() -> None:
    many = {str(each): "v" for each in range(otlp.ATTRIBUTES_MAX)}
    data = push(labels=many) + part(1, part(1, attributes(1, {"more": "v"})))
    assert read(data).labels == many
