"""Writes OTLP MetricsData, as clients do."""

from __future__ import annotations

import struct
from collections.abc import Mapping


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def part(number: int, content: bytes | str) -> bytes:
    """A field with a message or a text."""
    raw = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def attributes(field: int, texts: Mapping[str, str]) -> bytes:
    return b"".join(part(field, part(1, key) + part(2, part(1, value))) for key, value in texts.items())


def point(value: float, texts: Mapping[str, str] | None = None) -> bytes:
    """A whole number is sent as such."""
    form = (b"\x31", "<q") if isinstance(value, int) else (b"\x21", "<d")
    return attributes(7, texts or {}) + b"\x19" + bytes(8) + form[0] + struct.pack(form[1], value)


def gauge(name: str, *points: bytes) -> bytes:
    return part(1, name) + part(5, b"".join(part(1, each) for each in points))


def total(name: str, *points: bytes, is_delta: bool = False, is_monotonic: bool = True) -> bytes:
    head = number(2, 1 if is_delta else 2) + number(3, int(is_monotonic))
    return part(1, name) + part(7, b"".join(part(1, each) for each in points) + head)


def push(*metrics: bytes, labels: Mapping[str, str] | None = None) -> bytes:
    scope = b"".join(part(2, each) for each in metrics)
    return part(1, part(1, attributes(1, labels or {})) + part(2, scope))
