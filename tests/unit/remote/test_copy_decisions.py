"""Which segments are copied, and which may leave the disk."""

from __future__ import annotations

from kraft.remote.copy_decisions import deletable_local_segments, epochs_of_segment, segments_to_copy
from kraft.remote.log_facts import LogFacts, copied_end_offset
from kraft.remote.metadata_cache import RemoteLogMetadataCache
from tests.unit.remote.logs import log
from tests.unit.remote.support import STARTED, cache_of, put_into, segment


def to_copy(facts: LogFacts, cache: RemoteLogMetadataCache) -> list[int]:
    return [each.base_offset for each in segments_to_copy(facts, cache)]


def deletable(facts: LogFacts, cache: RemoteLogMetadataCache, *, ms: int = -1, size: int = -1, now_ms: int = 0) -> int:
    return deletable_local_segments(facts, cache, local_retention_ms=ms, local_retention_bytes=size, now_ms=now_ms)


def test_sealed_segments_below_the_last_stable_offset_are_copied_in_order() -> None:
    nothing = RemoteLogMetadataCache()
    assert to_copy(log(0, 10, 20, 30, 40), nothing) == [0, 10, 20]
    assert to_copy(log(0, 10, 20, 30, 40, stable=20), nothing) == [0, 10]
    assert to_copy(log(0, 10, 20, 30, 40, stable=19), nothing) == [0]
    assert to_copy(log(0, 10), nothing) == []


def test_a_copied_segment_is_not_copied_again() -> None:
    cache = cache_of(segment(1, 0, 9), segment(2, 10, 19))
    assert to_copy(log(0, 10, 20, 30, 40), cache) == [20]
    put_into(cache, segment(3, 20, 29), STARTED)
    assert to_copy(log(0, 10, 20, 30, 40), cache) == [20]


def test_a_partly_copied_segment_is_copied_completely() -> None:
    assert to_copy(log(0, 15, 30, 40), cache_of(segment(1, 0, 9), segment(2, 10, 19))) == [15]


def test_every_segment_after_a_gap_is_copied() -> None:
    assert to_copy(log(0, 10, 20, 30, 40), cache_of(segment(1, 0, 9), segment(3, 20, 29))) == [10, 20]


def test_segments_before_the_log_start_are_not_copied() -> None:
    assert to_copy(log(0, 10, 20, 30, start=10), RemoteLogMetadataCache()) == [10]
    assert to_copy(log(0, 10, 20, 30, start=13), RemoteLogMetadataCache()) == [10]


def test_records_of_an_unknown_epoch_are_not_copied() -> None:
    assert to_copy(log(0, 10, 20, 30, epochs={}), RemoteLogMetadataCache()) == []
    assert to_copy(log(0, 10, 20, 30, epochs={3: 10}), RemoteLogMetadataCache()) == [10]


def test_a_remote_segment_of_another_lineage_does_not_count_as_a_copy() -> None:
    other = segment(1, 0, 19, {0: 0, 1: 5})
    facts = log(0, 10, 20, 30, epochs={0: 0, 2: 8})
    assert copied_end_offset(facts, cache_of(other)) == 5
    assert to_copy(facts, cache_of(other)) == [0, 10]
    assert copied_end_offset(facts, cache_of(segment(1, 0, 19, {0: 0, 2: 8}))) == 20
    assert copied_end_offset(facts, cache_of(segment(1, 0, 9), segment(2, 8, 15, {2: 8}))) == 16


def test_a_copied_segment_older_than_local_retention_is_deleted_locally() -> None:
    facts = log(0, 10, 20, 30, 40, timestamps=(100, 200, 300, 400))
    cache = cache_of(segment(1, 0, 9), segment(2, 10, 19))
    assert [deletable(facts, cache, ms=50, now_ms=now) for now in (150, 151, 250, 251, 999)] == [0, 1, 1, 2, 2]
    assert deletable(facts, cache, now_ms=999) == 0


def test_a_copied_segment_above_the_local_retention_size_is_deleted_locally() -> None:
    facts = log(0, 10, 20, 30, 40)
    cache = cache_of(segment(1, 0, 9), segment(2, 10, 19), segment(3, 20, 29))
    assert [deletable(facts, cache, size=size) for size in (400, 301, 300, 200, 100, 0)] == [0, 0, 1, 2, 3, 3]


def test_a_partly_copied_segment_stays_on_disk() -> None:
    facts = log(0, 15, 30, 40)
    assert deletable(facts, cache_of(segment(1, 0, 9), segment(2, 10, 28)), size=0) == 1
    assert deletable(facts, cache_of(segment(2, 10, 29)), size=0) == 0
    assert deletable(facts, RemoteLogMetadataCache(), size=0) == 0


def test_a_copy_contains_the_epochs_of_its_own_offsets() -> None:
    facts = log(0, 10, 20, 30, epochs={0: 0, 2: 10, 3: 14, 5: 14, 7: 20})
    assert [epochs_of_segment(facts, each) for each in facts.segments] == [
        ((0, 0),),
        ((2, 10), (3, 14), (5, 14)),
        ((7, 20),),
    ]
    assert epochs_of_segment(log(0, 10, 20, epochs={4: 3}), facts.segments[0]) == ((4, 3),)
    assert epochs_of_segment(log(0, 10, 20, epochs={}), facts.segments[0]) == ()
