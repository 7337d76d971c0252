"""Zig-zag variable-length integers as records use them (Protocol Buffers' encoding): 7 bits a byte, low bits first."""

from __future__ import annotations

from typing import Final


def append_varint(out: bytearray, value: int) -> None:
    """Append `value` (32 or 64 bits, signed), zig-zag encoded."""
    encoded = value << 1 if value >= 0 else (-value << 1) - 1
    while encoded > 0x7F:
        out.append(encoded & 0x7F | 0x80)
        encoded >>= 7
    out.append(encoded)


def _encoded(value: int) -> bytes:
    out = bytearray()
    append_varint(out, value)
    return bytes(out)


SMALL: Final = tuple(map(_encoded, range(2048)))
"""The encodings of the smallest numbers, by number: nearly all lengths and deltas of records are among them."""
SMALL_COUNT: Final = len(SMALL)


def varint(value: int) -> bytes:
    """Return the bytes that `append_varint` appends."""
    return SMALL[value] if 0 <= value < SMALL_COUNT else _encoded(value)


def read_varint(buffer: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Return the value at `position` and the position after it. Raises IndexError at the end of the buffer, ValueError
    for more than ten bytes."""
    byte = buffer[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    result, shift = byte & 0x7F, 7
    for at in range(position + 1, position + 10):
        byte = buffer[at]
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (result >> 1) ^ -(result & 1), at + 1
        shift += 7
    raise ValueError(f"a varint of more than ten bytes at {position}")
