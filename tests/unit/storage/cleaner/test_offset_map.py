"""The map of keys agrees with a dictionary, however full it is, and takes the memory that it is given."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from hashlib import blake2b
from itertools import islice
from struct import unpack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.storage.cleaner import offset_slots
from kraft.storage.cleaner.offset_map import QUICK_ENTRY_BYTES, OffsetMap
from kraft.storage.cleaner.offset_slots import MOST_FULL, SHARDS, SLOT_BYTES, OffsetSlots, mixed

MANY = 200_000

keys = st.binary(max_size=40) | st.binary(min_size=13, max_size=17) | st.sampled_from([b"", b"\0", b"\0\0", bytes(16)])
offsets = st.integers(0, (1 << 63) - 2)


@given(st.integers(1, 2_000), st.lists(st.tuples(keys, offsets), max_size=120))
def test_the_offset_map_agrees_with_a_dictionary(room: int, puts: list[tuple[bytes, int]]) -> None:
    found, model = OffsetMap(room * SLOT_BYTES), dict[bytes, int]()
    for key, offset in puts:
        has_room = key in model or len(model) < room
        assert found.put(key, offset) is has_room
        if has_room:
            model[key] = offset
        assert (found.get(key), len(found)) == (model.get(key, -1), len(model))
    assert [found.get(key) for key, _ in puts] == [model.get(key, -1) for key, _ in puts]


@pytest.mark.parametrize("room", [MANY, MANY * 5])
def test_an_offset_map_entry_takes_at_most_forty_bytes_in_a_large_map(room: int) -> None:
    found = OffsetMap(room * SLOT_BYTES)
    for number in range(MANY):
        assert found.put(b"key-%d" % number, number)
        if number % 997 == 0:
            assert found.allocated_bytes <= max(room * SLOT_BYTES / 2 + QUICK_ENTRY_BYTES, 41 * number)
    assert found.put(b"one more", 0) is (room > MANY)
    assert all(found.get(b"key-%d" % number) == number for number in range(0, MANY, 7))
    assert found.get(b"none") == -1
    assert found.allocated_bytes <= room * SLOT_BYTES / MOST_FULL * 1.1


@pytest.mark.parametrize(
    "key_of",
    [
        lambda number: number.to_bytes(8, "big"),
        lambda number: number.to_bytes(4, "big"),
        lambda number: number.to_bytes(8, "little"),
        lambda number: b"%09d" % number,
        lambda number: b"user-%d" % number,
        lambda number: b"%d-customer" % number,
    ],
)
def test_short_keys_are_spread_over_the_shards(key_of: Callable[[int], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them in one shard would be moved again and again, and be there twice meanwhile."""
    moved: list[int] = []
    grown = offset_slots._grown

    def counting(table: array[int], slots: int) -> array[int]:
        moved.append(len(table) // 3)
        return grown(table, slots)

    monkeypatch.setattr(offset_slots, "_grown", counting)
    found = OffsetMap(MANY * SLOT_BYTES)
    count = MANY // 4
    for number in range(count):
        assert found.put(key_of(number), number)
    assert max(moved) < 3 * count // SHARDS
    assert sum(moved) < 5 * count


def test_a_short_key_is_never_confused_with_the_hash_of_a_long_key() -> None:
    """Who can write both could have the one deleted by the other."""
    found = OffsetMap(10_000 * SLOT_BYTES)
    for number in range(1_500):
        long = b"a key that is hashed %d" % number
        short = [blake2b(long, digest_size=size).digest()[:15] for size in (15, 16)]
        for offset, key in enumerate((long, *short)):
            assert found.put(key, offset)
        assert [found.get(key) for key in (long, *short)] == [0, 1, 2]


def test_keys_in_the_same_shard_take_memory_from_that_shard() -> None:
    """Hashes do not do that; somebody may choose short keys so."""
    slots = OffsetSlots(5_000, 0)
    chosen = (number.to_bytes(8, "little") + bytes(8) for number in range(1, 1 << 40))
    alike = list(islice((key for key in chosen if mixed(*unpack("<qq", key)) % SHARDS == 7), 5_000))
    assert [slots.put(key, number) for number, key in enumerate(alike)] == [True] * 5_000
    assert [slots.get(key) for key in alike] == list(range(5_000))
    assert not slots.put(bytes(16), 0)
