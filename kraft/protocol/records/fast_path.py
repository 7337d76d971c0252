"""Loops over the usual records of a batch. A loop stops before the first unusual record.

A record is usual if its fields end at its declared length, each of its numbers takes at most LONG_BYTES bytes, and it
has fewer than USUAL_HEADERS headers. The caller decodes an unusual record, which may be valid or not.

If a C compiler was available when the package was installed, this file is compiled to machine code
(`kraft.common.compiled`); otherwise it is interpreted. So it imports nothing, and uses only types that behave the same
in both cases: `bytes`, and numbers below 2**63. docs/adr/0017 has the figures. Numbers are compared in their zig-zag
encoding. Those of one or two bytes are read inline: in the interpreter, a call costs as much as a record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_extensions import i64

USUAL_HEADERS: Final = 64
LONG_BYTES: Final = 8
NO_DELTA: Final = 1 << 62
"""More than any timestamp delta of a usual record."""


def judge(data: bytes, position: i64, first: i64, stop: i64) -> tuple[i64, i64, bool, bool, i64, i64]:
    """Check records `first` to `stop` of a decompressed payload. Record `first` starts at `position`.

    Returns the index and position of the first record that was not checked, and four properties of the records before
    it: whether all have keys, whether their offset deltas equal their indexes, and the smallest and largest timestamp
    delta. Without such records the deltas are NO_DELTA and -NO_DELTA.
    """
    size: i64 = len(data)
    at: i64 = 0
    byte: i64 = 0
    end: i64 = 0
    offset: i64 = 0
    timestamp: i64 = -1
    delta: i64 = 0
    delta_min: i64 = NO_DELTA
    delta_max: i64 = -NO_DELTA
    index: i64 = first
    have_keys = are_consecutive = True
    try:
        while index < stop:
            byte, at = data[position], position + 1
            if byte >= 0x80 and (byte := byte + (data[at] << 7) - 0x80) < 0x4000:
                at += 1
            elif byte >= 0x80:
                byte, at = _read_long(data, at - 1)
            end = at + (byte >> 1)
            if byte & 1 or end > size:
                break
            delta, at = data[at + 1], at + 2  # Behind a byte of attributes, unused.
            if delta >= 0x80 and (delta := delta + (data[at] << 7) - 0x80) < 0x4000:
                at += 1
            elif delta >= 0x80:
                delta, at = _read_long(data, at - 1)
            offset, at = data[at], at + 1
            if offset >= 0x80 and (offset := offset + (data[at] << 7) - 0x80) < 0x4000:
                at += 1
            elif offset >= 0x80:
                offset, at = _read_long(data, at - 1)
            byte, at = data[at], at + 1
            if byte >= 0x80 and (byte := byte + (data[at] << 7) - 0x80) < 0x4000:
                at += 1
            elif byte >= 0x80:
                byte, at = _read_long(data, at - 1)
            has_key = not byte & 1
            at += byte >> 1 if has_key else 0
            byte, at = data[at], at + 1
            if byte >= 0x80 and (byte := byte + (data[at] << 7) - 0x80) < 0x4000:
                at += 1
            elif byte >= 0x80:
                byte, at = _read_long(data, at - 1)
            at += 0 if byte & 1 else byte >> 1
            byte, at = data[at], at + 1
            if byte:
                at = _skip_headers(data, at, byte)
            if at != end:  # A field that is too long shows here too: positions only grow.
                break
            if delta != timestamp:
                timestamp, delta = delta, (delta >> 1) ^ -(delta & 1)
                delta_min = delta if delta < delta_min else delta_min  # A call takes twice the time.
                delta_max = delta if delta > delta_max else delta_max
            have_keys = have_keys and has_key
            are_consecutive = are_consecutive and offset == index << 1
            index, position = index + 1, end
    except (IndexError, ValueError):
        pass  # The record at `position` is not usual.
    return index, position, have_keys, are_consecutive, delta_min, delta_max


def _read_long(data: bytes, at: i64) -> tuple[i64, i64]:
    """The number at `at`, still zig-zag encoded, and the position after it. Raises IndexError; ValueError if it takes
    more than LONG_BYTES."""
    value: i64 = 0
    shift: i64 = 0
    byte: i64 = 0
    while shift < 7 * LONG_BYTES:
        byte, at = data[at], at + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError


def _skip_headers(data: bytes, at: i64, encoded_count: i64) -> i64:
    """The position after the headers that begin at `at`. Raises IndexError, ValueError."""
    byte: i64 = 0
    left: i64 = encoded_count  # Twice their count: of numbers, the lengths of a key and of a value for each.
    if encoded_count & 1 or encoded_count >= 2 * USUAL_HEADERS:
        raise ValueError
    while left > 0:
        byte, at = _read_long(data, at)
        if not byte & 1:
            at += byte >> 1
        elif not left & 1:
            raise ValueError  # A header without a key.
        left -= 1
    return at


def walk(data: bytes, position: i64, first: i64, stop: i64) -> list[tuple[int, int, int, int, bytes | None, bool]]:
    """Records `first` to `stop` of a decompressed payload, up to the first unusual record. Each is (start, end,
    timestamp delta, offset delta, key, whether it has a value). Record `first` starts at `position`."""
    size: i64 = len(data)
    at: i64 = 0
    byte: i64 = 0
    end: i64 = 0
    timestamp: i64 = 0
    offset: i64 = 0
    index: i64 = first
    records: list[tuple[int, int, int, int, bytes | None, bool]] = []
    try:
        while index < stop:
            byte, at = data[position], position + 1
            if byte >= 0x80 and (byte := byte + (data[at] << 7) - 0x80) < 0x4000:
                at += 1
            elif byte >= 0x80:
                byte, at = _read_long(data, at - 1)
            end = at + (byte >> 1)
            if byte & 1 or end > size:
                break
            timestamp, at = data[at + 1], at + 2  # Behind a byte of attributes, unused.
            if timestamp >= 0x80 and (timestamp := timestamp + (data[at] << 7) - 0x80) < 0x4000:
                at += 1
            elif timestamp >= 0x80:
                timestamp, at = _read_long(data, at - 1)
            offset, at = data[at], at + 1
            if offset >= 0x80 and (offset := offset + (data[at] << 7) - 0x80) < 0x4000:
                at += 1
            elif offset >= 0x80:
                offset, at = _read_long(data, at - 1)
            byte, at = data[at], at + 1
            if byte >= 0x80:
                byte, at = _read_long(data, at - 1)
            key = None
            if not byte & 1:
                key, at = data[at : at + (byte >> 1)], at + (byte >> 1)
            byte, at = data[at], at + 1
            if byte >= 0x80 and (byte := byte + (data[at] << 7) - 0x80) < 0x4000:
                at += 1
            elif byte >= 0x80:
                byte, at = _read_long(data, at - 1)
            has_value = not byte & 1
            at += byte >> 1 if has_value else 0
            byte, at = data[at], at + 1
            if byte:
                at = _skip_headers(data, at, byte)
            if at != end:  # A field that is too long shows here too: positions only grow.
                break
            timestamp, offset = (timestamp >> 1) ^ -(timestamp & 1), (offset >> 1) ^ -(offset & 1)
            records.append((position, end, timestamp, offset, key, has_value))
            index, position = index + 1, end
    except (IndexError, ValueError):
        pass  # The record at `position` is not usual.
    return records
