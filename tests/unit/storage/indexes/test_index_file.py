"""Searching an index: what a walk over its entries finds, with few reads of the file."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.storage.file_cache import FileCache
from kraft.storage.indexes.offset_index import OffsetIndex
from kraft.storage.indexes.time_index import TimeIndex
from tests.unit.storage.support import Machine

BASE = 1_000


def grown(steps: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Entries (offset, position), each beyond the last by one step."""
    entries, offset, position = [], BASE, 0
    for offsets, positions in steps:
        offset, position = offset + offsets, position + positions
        entries.append((offset, position))
    return entries


@given(
    st.lists(st.tuples(st.integers(1, 50) | st.integers(1, 5_000), st.integers(1, 90_000)), max_size=30),
    st.integers(0, 60),
    st.data(),
)
def test_an_index_lookup_finds_the_same_entry_as_a_linear_scan(
    steps: list[tuple[int, int]], times: int, data: st.DataObject
) -> None:
    """Several blocks, of which some are in the file and some wait in memory; cut and grown again."""
    machine = Machine()
    offsets = OffsetIndex(FileCache(machine.files), "/data/i", BASE, stored_bytes=0)
    moments = TimeIndex(FileCache(machine.files), "/data/t", BASE, stored_bytes=0)
    entries = grown(steps * times)
    for number, (offset, position) in enumerate(entries):
        offsets.append(offset, position)
        moments.append_raw(position, offset - BASE)
        if number == len(entries) // 2:
            offsets.spill()
    probes = [0, BASE, 1 << 30]
    for offset, position in data.draw(st.lists(st.sampled_from(entries), max_size=8)) if entries else ():
        probes += [offset - 1, offset, offset + 1, position - 1, position, position + 1]
    _compare(offsets, moments, entries, probes)
    if entries:
        cut = data.draw(st.sampled_from(entries))[0]
        offsets.truncate_to(cut)
        entries = [entry for entry in entries if entry[0] < cut]
        for offset, position in ((cut + 3, (1 << 31) - 2), (cut + 4, (1 << 31) - 1)):
            offsets.append(offset, position)
            entries.append((offset, position))
        offsets.spill()
        _compare(offsets, None, entries, [*probes, cut, cut + 3, cut + 4])


def _compare(
    offsets: OffsetIndex, moments: TimeIndex | None, entries: list[tuple[int, int]], probes: list[int]
) -> None:
    for probe in probes:
        below = [entry for entry in entries if entry[0] <= probe]
        above = [entry for entry in entries if entry[0] > probe]
        found = below[-1] if below else (BASE, 0)
        assert offsets.lookup(probe) == found
        assert offsets.around(probe) == (found, above[0] if above else None)
        assert offsets.offset_behind(probe) == next((offset for offset, at in entries if at >= probe), None)
        if moments is not None:
            earlier = [(position, offset) for offset, position in entries if position <= probe]
            assert moments.lookup(probe) == (earlier[-1] if earlier else (-1, BASE))


@pytest.mark.parametrize("spread", [0, 10])
def test_an_index_lookup_needs_few_reads_and_the_next_entry_none(spread: int) -> None:
    """Entries of a segment of 1 GB, evenly and less evenly: where halving takes eleven."""
    machine, chance = Machine(), random.Random(1)
    index = OffsetIndex(FileCache(machine.files), "/data/i", BASE, stored_bytes=0)
    entries = grown([(20 + chance.randint(0, spread), 4_096 + chance.randint(0, 100 * spread)) for _ in range(200_000)])
    for entry in entries:
        index.append(*entry)
    index.spill()
    reads = []
    for _ in range(100):
        at = chance.randrange(len(entries) - 100)
        before = machine.node.trace.calls
        assert index.lookup(entries[at][0]) == entries[at]
        reads.append(machine.node.trace.calls - before)
        before = machine.node.trace.calls
        for number in range(at, at + 100):
            assert index.lookup(entries[number][0]) == entries[number]
        assert machine.node.trace.calls - before <= 8, "those where one block ends and the next begins"
    assert (sorted(reads)[50], max(reads) <= 5) == (2, True), reads
