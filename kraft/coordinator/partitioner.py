"""The partition of an internal topic that coordinates a key. It is Java's String.hashCode over UTF-16, so that every
Kafka tool agrees."""

from __future__ import annotations

import struct


def java_string_hash(text: str) -> int:
    """Java's `String.hashCode`: s[0]*31^(n-1) + ... + s[n-1] over UTF-16 code units, as a signed 32-bit integer."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for (unit,) in struct.iter_unpack(">H", encoded):
        value = (value * 31 + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def partition_for(key: str, partition_count: int) -> int:
    """The coordinating partition of a group or transactional id. The one hash without a positive counterpart counts
    as 0 (Kafka's Utils.abs)."""
    value = java_string_hash(key)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count
