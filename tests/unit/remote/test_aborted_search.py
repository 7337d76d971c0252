"""A reader of committed records is told of every aborted transaction, whichever copies of whichever leaders hold its
records and its marker."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kraft.remote.log_facts import LogFacts
from kraft.remote.metadata_cache import RemoteLogMetadataCache
from kraft.remote.remote_lookup import AbortedSearch, find_part, parts_with_aborted
from kraft.remote.segment_metadata import RemoteLogSegmentMetadata
from kraft.storage.indexes.transaction_index import AbortedTransaction
from tests.unit.remote.logs import log
from tests.unit.remote.support import put_into, segment

END = 40
FOREIGN_EPOCH = 50
NOBODYS = 99


@st.composite
def lives(draw: st.DrawFn) -> tuple[dict[int, int], list[tuple[int, int, int, bool]]]:
    """Leader epochs with their first offsets, and transactions: producer, first offset, marker, whether aborted."""
    starts = sorted({0, *draw(st.lists(st.integers(1, END - 1), max_size=4))})
    markers = draw(st.lists(st.integers(1, END - 1), max_size=12, unique=True))
    transactions, busy = [], {}
    for last in sorted(markers):
        producer = draw(st.integers(1, 3))
        first = draw(st.integers(busy.get(producer, -1) + 1, last))
        if first < last:
            transactions.append((producer, first, last, draw(st.booleans())))
            busy[producer] = last
    return {2 * number: start for number, start in enumerate(starts)}, transactions


def index_of(transactions: list[tuple[int, int, int, bool]], first: int, last: int) -> list[AbortedTransaction]:
    """What a segment of those offsets has, as its leader wrote it."""
    found = []
    for producer, begin, marker, is_aborted in transactions:
        if is_aborted and first <= marker <= last:
            open_then = [other for _, other, end, _ in transactions if other < marker < end]
            found.append(AbortedTransaction(producer, begin, marker, min(open_then, default=marker + 1)))
    return found


@given(lives(), st.data())
def test_exactly_the_overlapping_aborted_transactions_are_returned(
    life: tuple[dict[int, int], list[tuple[int, int, int, bool]]], data: st.DataObject
) -> None:
    epochs, transactions = life
    cache, indexes = RemoteLogMetadataCache(), dict[bytes, list[AbortedTransaction]]()
    wanted = []
    for _ in range(data.draw(st.integers(1, 3))):  # Leaders, each of which copied all in pieces of its own.
        cuts = sorted({0, END, *data.draw(st.lists(st.integers(1, END - 1), max_size=4))})
        wanted += [(first, end - 1, END) for first, end in pairwise(cuts)]
    for first, last in data.draw(st.lists(st.tuples(st.integers(0, 20), st.integers(21, END - 1)), max_size=2)):
        wanted.append((first, last, data.draw(st.integers(first + 1, last))))  # Of one that was elected away.
    for number, (first, last, common) in enumerate(data.draw(st.permutations(wanted)), 1):
        put_into(cache, copy_of(number, first, last, common, epochs, transactions, indexes))
    facts = log(END, END + 1, epochs=epochs)
    for offset in range(END):
        part = find_part(facts, cache, offset)
        assert part is not None
        expected = {
            (producer, first): None
            for producer, first, last, is_aborted in transactions
            if is_aborted and last >= offset and first < part.end_offset
        }
        assert searched(facts, cache, indexes, offset, part.end_offset) == expected


def copy_of(
    number: int,
    first: int,
    last: int,
    common: int,
    epochs: dict[int, int],
    transactions: list[tuple[int, int, int, bool]],
    indexes: dict[bytes, list[AbortedTransaction]],
) -> RemoteLogSegmentMetadata:
    """Of the log's records before `common`, of others from there on."""
    led = {epoch: start for epoch, start in epochs.items() if first < start <= min(last, common - 1)}
    led[max(epoch for epoch, start in epochs.items() if start <= first)] = first
    index = index_of(transactions, first, min(last, common - 1))
    if common <= last:
        led[FOREIGN_EPOCH + number] = common
        index.append(AbortedTransaction(NOBODYS, common - 1, last, last + 1))
    made = segment(number, first, last, led)
    indexes[bytes(made.segment_id)] = index
    return replace(made, txn_index_is_empty=not index)


def searched(
    facts: LogFacts,
    cache: RemoteLogMetadataCache,
    indexes: dict[bytes, list[AbortedTransaction]],
    offset: int,
    bound: int,
) -> dict[tuple[int, int], None]:
    search = AbortedSearch(offset, bound)
    for start_offset, part in parts_with_aborted(facts, cache, offset):
        if not search.needs(part.segment):
            break
        search.add(start_offset, part.end_offset, indexes[bytes(part.segment.segment_id)])
    return search.found
