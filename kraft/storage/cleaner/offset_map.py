"""From keys to the last offset that holds them: what a cleaning knows of the dirty part of a log.

Bounded by memory: when it is full, the cleaning stops at the offset it has reached and the rest waits for the next.
Keys of 16 bytes and more are kept as 128-bit BLAKE2 hashes (Kafka keeps MD5), so that long keys cost no more than
short ones; two keys of one hash are beyond expectation.
"""

from __future__ import annotations

from hashlib import blake2b

ENTRY_BYTES = 160
"""What an entry takes in memory: bytes object, int and its share of the table."""
HASH_BYTES = 16


class OffsetMap:
    """`latest_offset` is the last offset the map speaks for; -1 while it is empty."""

    __slots__ = ("_entries_max", "_offsets", "latest_offset")

    def __init__(self, bytes_max: int) -> None:
        self._entries_max = max(bytes_max // ENTRY_BYTES, 1)
        self._offsets: dict[bytes, int] = {}
        self.latest_offset = -1

    def put(self, key: bytes, offset: int) -> bool:
        """False when there is no room for another key; nothing changes then."""
        if len(key) >= HASH_BYTES:
            key = blake2b(key, digest_size=HASH_BYTES).digest()
        offsets = self._offsets
        if key not in offsets and len(offsets) >= self._entries_max:
            return False
        offsets[key] = offset
        return True

    def get(self, key: bytes) -> int:
        """The last offset of `key`; -1 when the map has not seen it."""
        if len(key) >= HASH_BYTES:
            key = blake2b(key, digest_size=HASH_BYTES).digest()
        return self._offsets.get(key, -1)

    def __len__(self) -> int:
        return len(self._offsets)
