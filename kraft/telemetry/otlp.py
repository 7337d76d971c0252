"""Decodes a client's push: the parts of OTLP `MetricsData` that Kafka clients use.

Any client may send these bytes. So every size has a limit, and the decoding is done in steps of a few fields each. Only
gauges and sums are decoded. Other kinds of metrics, and points beyond a limit, are counted as left out.
https://github.com/open-telemetry/opentelemetry-proto/blob/v1.0.0/opentelemetry/proto/metrics/v1/metrics.proto
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kraft.common.errors import KraftError
from kraft.world.steps import Steps

POINTS_MAX: Final = 1_000
"""Limit of points that are kept of one push."""
NAME_CHARS_MAX: Final = 200
ATTRIBUTES_MAX: Final = 16
ATTRIBUTE_CHARS_MAX: Final = 256
"""Limit of a key, and of a value. A point with more or longer attributes is left out."""
POINT_FIELDS_MAX: Final = 64
PART_FIELDS_MAX: Final = 8
"""Limits of fields in messages that are read in one step: a point; an attribute, and its value."""

STEPS_MAX: Final = 100_000
"""Limit of fields outside of points: a small push may decompress to millions of unknown fields."""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
VARINT_BYTES_MAX: Final = 10
DELTA: Final = 1
"""OTLP's AGGREGATION_TEMPORALITY_DELTA."""


class InvalidTelemetry(KraftError):
    """Raised for bytes that are not `MetricsData`, or that exceed a limit."""


Attributes = tuple[tuple[str, str], ...]


class Point(NamedTuple):
    """One data point. `attributes` are sorted by key. `is_monotonic`: the sum never decreases. `is_delta`: the value is
    the increase since the last push."""

    name: str
    attributes: Attributes
    value: float
    is_monotonic: bool
    is_delta: bool


@dataclass(slots=True)
class Push:
    """The content of a decoded push. `labels` are the attributes of the client itself, such as its group."""

    points: list[Point] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    left_out: int = 0


Field = tuple[int, int, int, memoryview]
"""A protobuf field: its number, its wire type, the value of a numeric field, the content of a message or text field."""
NOTHING: Final = memoryview(b"")


def read_push(data: memoryview) -> Steps[Push]:
    """Read `MetricsData`. Raises InvalidTelemetry."""
    push = Push()
    for step, _ in enumerate(_read_all(data, push)):
        if step == STEPS_MAX:
            raise InvalidTelemetry(f"the push has over {STEPS_MAX} fields outside of points")
        yield None
    return push


def _read_all(data: memoryview, push: Push) -> Steps[None]:
    for number, kind, _, resource_metrics in fields(data):
        yield None
        if (number, kind) == (1, BYTES):
            yield from _read_resource(resource_metrics, push)


def _read_resource(data: memoryview, push: Push) -> Steps[None]:
    for number, kind, _, content in fields(data):
        yield None
        if (number, kind) == (1, BYTES):
            attributes = _attributes(content, 1)
            if attributes is not None and len(push.labels) + len(attributes) <= ATTRIBUTES_MAX:
                push.labels.update(attributes)
        elif (number, kind) == (2, BYTES):
            for scope_number, scope_kind, _, metric in fields(content):
                yield None
                if (scope_number, scope_kind) == (2, BYTES):
                    yield from _read_metric(metric, push)


def _read_metric(data: memoryview, push: Push) -> Steps[None]:
    """Read a gauge or a sum. Its name may come after its points."""
    name, points, is_sum = "", NOTHING, False
    for number, kind, _, content in fields(data):
        yield None
        if kind != BYTES:
            continue
        if number == 1:
            name = _text(content, NAME_CHARS_MAX) or ""
        elif number in (5, 7):
            points, is_sum = content, number == 7
        elif number in (9, 10, 11):
            push.left_out += 1
    is_monotonic, is_delta = False, False
    for number, kind, value, _ in fields(points):
        yield None
        if is_sum and kind == VARINT and number in (2, 3):
            is_delta = value == DELTA if number == 2 else is_delta
            is_monotonic = value != 0 if number == 3 else is_monotonic
    for number, kind, _, content in fields(points):
        yield None
        if (number, kind) == (1, BYTES):
            found = _number(content)
            attributes = _attributes(content, 7)
            if found is None or attributes is None or not name or len(push.points) == POINTS_MAX:
                push.left_out += 1
            else:
                push.points.append(Point(name, attributes, found, is_monotonic, is_delta))


def _number(data: memoryview) -> float | None:
    """The value of a point; None if it has no finite value. Java clients send NaN for an average without samples."""
    found: float | None = None
    for number, kind, value, _ in _few_fields(data, POINT_FIELDS_MAX):
        if kind == FIXED64 and number in (4, 6):
            raw = value.to_bytes(8, "little")
            found = float(struct.unpack("<d" if number == 4 else "<q", raw)[0])
    return found if found is not None and math.isfinite(found) else None


def _attributes(data: memoryview, number: int) -> Attributes | None:
    """The attributes in fields with this number; None if they exceed a limit. An attribute whose value is not a string,
    boolean or integer is skipped."""
    found: dict[str, str] = {}
    for each, kind, _, content in _few_fields(data, POINT_FIELDS_MAX):
        if (each, kind) != (number, BYTES):
            continue
        key: str | None = ""
        value: str | None = None
        is_over = False
        for part, part_kind, _, text in _few_fields(content, PART_FIELDS_MAX):
            if (part, part_kind) == (1, BYTES):
                key = _text(text, ATTRIBUTE_CHARS_MAX)
            elif (part, part_kind) == (2, BYTES):
                value, is_over = _value(text)
        if key is None or is_over or len(found) == ATTRIBUTES_MAX:
            return None
        if key and value is not None:
            found[key] = value
    return tuple(sorted(found.items()))


def _value(data: memoryview) -> tuple[str | None, bool]:
    """The text of an attribute's value, and whether it is too long."""
    for number, kind, value, content in _few_fields(data, PART_FIELDS_MAX):
        if (number, kind) == (1, BYTES):
            text = _text(content, ATTRIBUTE_CHARS_MAX)
            return text, text is None
        if (number, kind) == (2, VARINT):
            return ("true" if value else "false"), False
        if (number, kind) == (3, VARINT):
            return str(value - (1 << 64) if value >> 63 else value), False
    return None, False


def _text(data: memoryview, chars_max: int) -> str | None:
    """The text; None if it is longer than `chars_max` bytes."""
    return None if len(data) > chars_max else str(data, "utf-8", "replace")


def _few_fields(data: memoryview, fields_max: int) -> Iterator[Field]:
    for count, each in enumerate(fields(data)):
        if count == fields_max:
            raise InvalidTelemetry(f"a point or attribute has over {fields_max} fields")
        yield each


def fields(data: memoryview) -> Iterator[Field]:
    """Yield the fields of a message. Raises InvalidTelemetry."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        value, content = 0, NOTHING
        if kind == VARINT:
            value, at = _varint(data, at)
        elif kind == BYTES:
            size, at = _varint(data, at)
            content, at = _cut(data, at, size), at + size
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
            value, at = int.from_bytes(_cut(data, at, size), "little"), at + size
        else:
            raise InvalidTelemetry(f"a field has wire type {kind}")
        yield number, kind, value, content


def _cut(data: memoryview, at: int, size: int) -> memoryview:
    if size > len(data) - at:
        raise InvalidTelemetry(f"a field of {size} bytes begins {len(data) - at} bytes before the end")
    return data[at : at + size]


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(data[at : at + VARINT_BYTES_MAX]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at + index + 1
    raise InvalidTelemetry("a number does not end")
