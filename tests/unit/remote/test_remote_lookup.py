"""Where a reader finds an offset in the remote tier, and how far it may read there."""

from __future__ import annotations

from dataclasses import replace

from kraft.remote.log_facts import LogFacts
from kraft.remote.metadata_cache import RemoteLogMetadataCache
from kraft.remote.remote_lookup import find_part, parts_from, parts_with_aborted, remote_start_offset
from tests.unit.remote.logs import log
from tests.unit.remote.support import DELETED, cache_of, put_into, segment


def found(facts: LogFacts, cache: RemoteLogMetadataCache, offset: int) -> tuple[int, int] | None:
    """(copy's number, end offset)."""
    part = find_part(facts, cache, offset)
    return None if part is None else (part.segment.segment_id[-1], part.end_offset)


def test_an_offset_is_found_in_the_segment_that_contains_it() -> None:
    facts, cache = log(20, 30), cache_of(segment(1, 0, 9), segment(2, 10, 19))
    assert [found(facts, cache, offset) for offset in (0, 9, 10, 19, 20)] == [(1, 10), (1, 10), (2, 20), (2, 20), None]


def test_a_segment_of_several_epochs_is_read_completely() -> None:
    facts = log(10, 20, epochs={0: 0, 2: 4, 3: 9})
    cache = cache_of(segment(1, 0, 9, {0: 0, 2: 4, 3: 9}))
    assert [found(facts, cache, offset) for offset in (0, 4, 9)] == [(1, 10)] * 3


def test_records_that_the_log_lost_are_not_read() -> None:
    """An unclean election: the segment goes on in epoch 1, the log in epoch 2 from offset 6 on."""
    facts = log(10, 20, epochs={0: 0, 2: 6})
    cache = cache_of(segment(1, 0, 9, {0: 0, 1: 8}))
    assert [found(facts, cache, offset) for offset in (0, 5, 6, 8)] == [(1, 6), (1, 6), None, None]


def test_a_segment_that_ends_within_an_epoch_ends_there() -> None:
    facts = log(20, 30, epochs={0: 0, 1: 15})
    cache = cache_of(segment(1, 0, 9), segment(2, 10, 19, {0: 10, 1: 15}))
    assert found(facts, cache, 3) == (1, 10)
    assert [part.end_offset for part in parts_from(facts, cache, 3)] == [10, 20]


def test_a_segment_is_read_only_up_to_the_start_of_a_diverging_epoch() -> None:
    facts, cache = log(20, 30, epochs={0: 0, 1: 15}), cache_of(segment(1, 0, 19, {0: 0, 1: 10}))
    assert found(facts, cache, 3) == (1, 10)


def test_aborted_transactions_are_looked_up_in_the_tier_of_their_offsets() -> None:
    facts = log(30, 40, epochs={0: 0, 2: 16})
    plain = replace(segment(1, 0, 9), txn_index_is_empty=True)
    lost = segment(3, 20, 29, {1: 20})
    cache = cache_of(lost, segment(2, 10, 19, {0: 10, 1: 16}), plain, segment(4, 20, 29, {2: 20}))
    parts = parts_with_aborted(facts, cache, 5)
    assert [(part.segment.segment_id[-1], start, part.end_offset) for start, part in parts] == [
        (2, 10, 16),
        (4, 20, 30),
    ]
    assert [(start, part.end_offset) for start, part in parts_with_aborted(facts, cache, 15)] == [(15, 16), (20, 30)]
    assert [(start, part.end_offset) for start, part in parts_with_aborted(facts, cache, 25)] == [(25, 30)]


def test_a_copy_read_only_for_the_end_of_an_epoch_returns_its_aborted_transactions() -> None:
    """Of epoch 0 all that the second leader copied is in the first one's segment; of epoch 2 it has one record more."""
    facts = log(24, 30, epochs={0: 0, 2: 20})
    cache = cache_of(segment(1, 10, 22, {0: 10, 2: 20}), segment(2, 12, 23, {0: 12, 2: 20}))
    assert [found(facts, cache, offset) for offset in (12, 19, 20, 23)] == [(1, 23), (1, 23), (2, 24), (2, 24)]
    for offset in (11, 15):
        parts = [
            (part.segment.segment_id[-1], start, part.end_offset)
            for start, part in parts_with_aborted(facts, cache, offset)
        ]
        assert parts == [(1, offset, 23), (2, 20, 24)]


def test_a_segment_with_aborted_transactions_is_returned_for_any_earlier_offset() -> None:
    cache = cache_of(segment(1, 0, 9), segment(2, 10, 19))
    told = {
        offset: [part.end_offset for _, part in parts_with_aborted(log(20, 30), cache, offset)] for offset in range(20)
    }
    assert told == {offset: [10, 20] if offset < 10 else [20] for offset in range(20)}


def test_the_log_starts_at_the_first_segment_that_contains_its_records() -> None:
    cache = cache_of(segment(2, 10, 19))
    assert remote_start_offset(log(20, 30), cache) == 10
    assert remote_start_offset(log(5, 30), cache) == 5
    put_into(cache, segment(3, 0, 9), DELETED)
    assert remote_start_offset(log(20, 30), cache) == 10
    assert remote_start_offset(log(20, 30), cache_of()) == 20
