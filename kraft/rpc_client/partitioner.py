"""The partition of a record that does not name one, chosen as in Java clients, so that all clients agree on keys."""

from __future__ import annotations

import random
from typing import Protocol

SEED = 0x9747B28C
MULTIPLIER = 0x5BD1E995
STICKY_BYTES = 16 * 1024
"""Bytes to one partition before records without a key move on to another (KIP-794 uses the size of a batch)."""


def murmur2(data: bytes) -> int:
    """Austin Appleby's MurmurHash2 with Kafka's seed; 32 bits, unsigned."""
    mask = 0xFFFFFFFF
    value = (SEED ^ len(data)) & mask
    whole = len(data) & ~3
    for position in range(0, whole, 4):
        word = (int.from_bytes(data[position : position + 4], "little") * MULTIPLIER) & mask
        word = ((word ^ (word >> 24)) * MULTIPLIER) & mask
        value = ((value * MULTIPLIER) & mask) ^ word
    if whole < len(data):
        value = ((value ^ int.from_bytes(data[whole:], "little")) * MULTIPLIER) & mask
    value = ((value ^ (value >> 13)) * MULTIPLIER) & mask
    return value ^ (value >> 15)


def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the partition of a key: the hash without its sign bit, modulo the number of partitions."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class Partitioner(Protocol):
    """Chooses the partitions of records."""

    def choose(self, topic: str, key: bytes | None, size: int, partitions: int) -> int:
        """Return a partition, from 0 to `partitions` - 1. `size` is the record's size in bytes."""


class DefaultPartitioner:
    """Partitions by key. Records without a key go to one partition for some KiB, then to another random one, so that
    batches fill."""

    __slots__ = ("_chance", "_current")

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._current: dict[str, tuple[int, int]] = {}  # Topic to partition and bytes sent there.

    def choose(self, topic: str, key: bytes | None, size: int, partitions: int) -> int:
        """Return the partition. `size` is the record's size in bytes; `partitions` is the number of partitions."""
        if key is not None:
            return partition_for_key(key, partitions)
        partition, sent = self._current.get(topic, (-1, STICKY_BYTES))
        if sent >= STICKY_BYTES or partition >= partitions:
            partition, sent = self._chance.randrange(partitions), 0
        self._current[topic] = partition, sent + size
        return partition
