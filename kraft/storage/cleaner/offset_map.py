"""Map from keys to their last offset in the dirty part of a log.

Its memory is bounded. When the map is full, the cleaning stops at the offset reached, and the next cleaning takes the
rest. Keys of 16 bytes or more are stored as BLAKE2 hashes of 120 bits (Kafka stores MD5), so that long keys cost no
more than short ones. Collisions of hashes are not expected, and no short key equals a hash.
"""

from __future__ import annotations

from hashlib import blake2b

from kraft.storage.cleaner.offset_slots import SLOT_BYTES, OffsetSlots

QUICK_ENTRY_BYTES = 160
"""Memory of a dictionary entry: bytes object, int and share of the table."""
QUICK_SHARE = 2
"""The dictionary uses at most 1/QUICK_SHARE of the memory."""
KEY_BYTES = 16
"""Bytes of a key in slots. The last one is the length of the key, or marks the others as a hash."""
HASH_MARK = bytes((KEY_BYTES,))


class OffsetMap:
    """The last offset of each key. `latest_offset` is the last offset covered by the map; -1 while it is empty.

    A small number of keys is kept in a fast dictionary. Once the dictionary fills half of the memory, the keys move to
    slots, which take a fourth of the memory and are slower. A second pass over the log would cost more.
    """

    __slots__ = ("_entries_max", "_quick", "_quick_max", "_slots", "latest_offset")

    def __init__(self, bytes_max: int) -> None:
        """`bytes_max` counts as if every slot could be used. A table is never filled completely, so it takes a ninth
        more in the end."""
        self._entries_max = max(bytes_max // SLOT_BYTES, 1)
        self._quick_max = bytes_max // (QUICK_ENTRY_BYTES * QUICK_SHARE)
        self._quick: dict[bytes, int] = {}
        self._slots: OffsetSlots | None = None
        self.latest_offset = -1

    def put(self, key: bytes, offset: int) -> bool:
        """Store the offset of a key. Return False, without a change, if the map has no room for another key."""
        if len(key) >= KEY_BYTES:
            key = blake2b(key, digest_size=KEY_BYTES - 1).digest() + HASH_MARK
        if self._slots is not None:
            return self._slots.put(_padded(key), offset)
        quick = self._quick
        if len(quick) >= self._quick_max and key not in quick:
            self._slots = self._moved()
            return self._slots.put(_padded(key), offset)
        quick[key] = offset
        return True

    def get(self, key: bytes) -> int:
        """The last offset of `key`; -1 when the map has not seen it."""
        if len(key) >= KEY_BYTES:
            key = blake2b(key, digest_size=KEY_BYTES - 1).digest() + HASH_MARK
        return self._quick.get(key, -1) if self._slots is None else self._slots.get(_padded(key))

    def __len__(self) -> int:
        return len(self._quick) if self._slots is None else self._slots.count

    @property
    def allocated_bytes(self) -> int:
        """Approximate memory use, in bytes."""
        return QUICK_ENTRY_BYTES * len(self._quick) if self._slots is None else self._slots.allocated_bytes

    def _moved(self) -> OffsetSlots:
        """Move the entries of the dictionary, which is empty afterwards, to slots."""
        slots, quick = OffsetSlots(self._entries_max, len(self._quick)), self._quick
        while quick:
            key, offset = quick.popitem()
            slots.put(_padded(key), offset)
        self._quick = {}
        return slots


def _padded(key: bytes) -> bytes:
    """The key padded to 16 bytes. Keys of different lengths stay different."""
    size = len(key)
    return key if size == KEY_BYTES else key.ljust(KEY_BYTES - 1, b"\0") + bytes((size,))
