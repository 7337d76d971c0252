"""A compact hash table from 16-byte keys to offsets: 24 bytes an entry.

It uses double hashing in 256 shards. Shards grow one at a time, so that growing takes little memory and time.
"""

from __future__ import annotations

from array import array
from struct import Struct

SLOT_BYTES = 24
MOST_FULL = 0.9
"""The default of log.cleaner.io.buffer.load.factor."""
SHARDS = 256
SLOTS_LEAST = 7
GROWTH = 1.5
GROWTH_BEYOND = 1.05
"""The factor by which a shard may exceed its even share of the slots, and by which a shard grows at least."""

_halves = Struct("<qq").unpack
_POSITIVE = 0x7FFFFFFFFFFFFFFF
_SPREADING = 0x9E3779B97F4A7C15
"""2 to the 64th divided by the golden ratio: the high bits of a product depend on all lower bits of the other
factor."""


class OffsetSlots:
    """A slot has three numbers: the two halves of the key, and the offset plus one. The third number is 0 in a free
    slot."""

    __slots__ = ("_counts", "_largest", "_tables", "count", "count_max")

    def __init__(self, count_max: int, expected: int) -> None:
        """Create a table for at most `count_max` entries, sized for `expected` entries at first."""
        self.count = 0
        self.count_max = count_max
        self._largest = max(SLOTS_LEAST, int(count_max / SHARDS / MOST_FULL * GROWTH_BEYOND))
        slots = self._largest
        while slots / GROWTH * SHARDS * MOST_FULL > expected * GROWTH_BEYOND:
            slots = int(slots / GROWTH)
        slots = _prime_from(max(slots, SLOTS_LEAST))
        self._tables = [array("q", bytes(SLOT_BYTES * slots)) for _ in range(SHARDS)]
        self._counts = [0] * SHARDS

    def get(self, key: bytes) -> int:
        """The offset of `key`, -1 where there is none."""
        first, second = _halves(key)
        spread = mixed(first, second)
        table = self._tables[spread % SHARDS]
        return table[_place(table, first, second, spread // SHARDS) + 2] - 1

    def put(self, key: bytes, offset: int) -> bool:
        """Store the offset of a key. Return False, without a change, if the table has no room for another key."""
        first, second = _halves(key)
        spread = mixed(first, second)
        shard, spread = spread % SHARDS, spread // SHARDS
        table = self._tables[shard]
        place = _place(table, first, second, spread)
        if not table[place + 2]:
            if self.count >= self.count_max:
                return False
            if (self._counts[shard] + 1) * 3 > len(table) * MOST_FULL:
                table = self._tables[shard] = _grown(table, self._next_size(len(table) // 3))
                place = _place(table, first, second, spread)
            table[place], table[place + 1] = first, second
            self._counts[shard] += 1
            self.count += 1
        table[place + 2] = offset + 1
        return True

    @property
    def allocated_bytes(self) -> int:
        return sum(len(table) for table in self._tables) * SLOT_BYTES // 3

    def _next_size(self, slots: int) -> int:
        larger = min(int(slots * GROWTH) + 1, self._largest)
        return _prime_from(max(larger, int(slots * GROWTH_BEYOND) + 2))


def mixed(first: int, second: int) -> int:
    """A positive hash of the key. Short keys are chosen by users, and most share bytes at the same places. Their shards
    and slots must still collide no more often than those of random keys."""
    product = (first ^ (second * 31)) * _SPREADING
    return (product ^ product >> 60) & _POSITIVE


def _place(table: array[int], first: int, second: int, spread: int) -> int:
    """The place of the key in the table, or of the free slot for it. `spread` is a hash of the key."""
    slots = len(table) // 3
    place = spread % slots * 3
    if not table[place + 2] or (table[place] == first and table[place + 1] == second):
        return place
    step, end = (1 + (spread >> 20) % (slots - 1)) * 3, slots * 3
    while True:
        place += step
        if place >= end:
            place -= end
        if not table[place + 2] or (table[place] == first and table[place + 1] == second):
            return place


def _grown(table: array[int], slots: int) -> array[int]:
    larger = array("q", bytes(SLOT_BYTES * slots))
    for first, second, end in zip(table[0::3], table[1::3], table[2::3], strict=True):
        if end:
            place = _place(larger, first, second, mixed(first, second) // SHARDS)
            larger[place], larger[place + 1], larger[place + 2] = first, second, end
    return larger


def _prime_from(number: int) -> int:
    """The smallest odd prime not below `number` (at least 3). With a prime size every probe step visits all slots."""
    number |= 1
    while any(number % divisor == 0 for divisor in range(3, int(number**0.5) + 1, 2)):
        number += 2
    return number
