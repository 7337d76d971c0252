"""The Java client's partitioner over a whole column: keys of equal length are hashed together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kraft.client.partitioner import MULTIPLIER, SEED


def partitions_of(keys: Sequence[bytes], partitions: int) -> np.ndarray:
    """The partition of each key, as `kraft.client.partitioner.partition_for_key` has it."""
    found = np.zeros(len(keys), np.int64)
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    for length in np.unique(lengths):
        at = np.flatnonzero(lengths == length)
        block = np.frombuffer(b"".join([keys[index] for index in at.tolist()]), np.uint8).reshape(len(at), int(length))
        found[at] = (hash_block(block) & np.uint32(0x7FFFFFFF)) % np.uint32(partitions)
    return found


def hash_block(block: np.ndarray) -> np.ndarray:
    """murmur2 of each row; arithmetic is modulo 2^32 as the type's own."""
    length, times = block.shape[1], np.uint32(MULTIPLIER)
    value = np.full(len(block), (SEED ^ length) & 0xFFFFFFFF, np.uint32)
    whole = length & ~3
    words = np.ascontiguousarray(block[:, :whole]).view("<u4").astype(np.uint32)
    for index in range(whole // 4):
        word = words[:, index] * times
        value = value * times ^ (word ^ word >> np.uint32(24)) * times
    if whole < length:
        rest = np.zeros(len(block), np.uint32)
        for index in range(whole, length):
            rest |= block[:, index].astype(np.uint32) << np.uint32(8 * (index - whole))
        value = (value ^ rest) * times
    value = (value ^ value >> np.uint32(13)) * times
    return value ^ value >> np.uint32(15)
