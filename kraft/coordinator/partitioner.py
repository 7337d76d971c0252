"""Maps a key to its coordinating partition of an internal topic. Uses Java's String.hashCode over UTF-16, as all Kafka
tools do."""

from __future__ import annotations

import struct
from functools import lru_cache
from operator import mul
from typing import Final

KEYS_KEPT: Final = 1000
"""Limit of cached hashes. Each request needs the hash of its key several times."""
USUAL_UNITS_MAX: Final = 64
POWERS: Final[tuple[int, ...]] = tuple(pow(31, unit, 1 << 32) for unit in reversed(range(USUAL_UNITS_MAX)))
"""The powers of 31 by which the code units of a text are multiplied, by the length of the text."""


@lru_cache(KEYS_KEPT)
def java_string_hash(text: str) -> int:
    """Java's `String.hashCode`: s[0]*31^(n-1) + ... + s[n-1] over UTF-16 code units, as a signed 32-bit integer."""
    if text.isascii() and len(text) <= USUAL_UNITS_MAX:
        total: int = sum(map(mul, text.encode(), POWERS[USUAL_UNITS_MAX - len(text) :]))
        value = total & 0xFFFFFFFF
    else:
        value = _hash_of_units(text.encode("utf-16-be", "surrogatepass"))
    return value - (1 << 32) if value & 0x80000000 else value


def _hash_of_units(encoded: bytes) -> int:
    value = 0
    for (unit,) in struct.iter_unpack(">H", encoded):
        value = (value * 31 + unit) & 0xFFFFFFFF
    return value


def partition_for(key: str, partition_count: int) -> int:
    """The coordinating partition of a group or transactional id. The minimum integer, whose absolute value overflows,
    counts as 0 (Kafka's Utils.abs)."""
    value = java_string_hash(key)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count
