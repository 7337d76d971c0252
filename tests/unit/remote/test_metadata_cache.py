"""What the records say of a partition's segments: states, epochs and offsets."""

from __future__ import annotations

from itertools import product

import pytest

from kraft.protocol.messages.remote_partition_delete_metadata_record import RemotePartitionDeleteMetadataRecord
from kraft.remote import metadata_cache
from kraft.remote.metadata_cache import RemoteLogMetadataCache
from kraft.remote.segment_metadata import ABANDONED, RemoteLogSegmentState, RemotePartitionDeleteState
from tests.unit.remote.remote_metadata import SNAPSHOT
from tests.unit.remote.support import DELETED, DELETING, FINISHED, STARTED, cache_of, put_into, segment, uuid

VALID = {
    (STARTED, FINISHED),
    (STARTED, DELETING),
    (FINISHED, FINISHED),
    (FINISHED, DELETING),
    (DELETING, DELETING),
    (DELETING, DELETED),
}
"""Kafka's, less what an update cannot do: begin a copy, or change a segment that is gone."""


@pytest.mark.parametrize(("before", "after"), list(product((STARTED, FINISHED, DELETING, DELETED), repeat=2)))
def test_state_transitions_are_those_that_kafka_allows(
    before: RemoteLogSegmentState, after: RemoteLogSegmentState
) -> None:
    cache, one = RemoteLogMetadataCache(), segment(1, 0, 9)
    put_into(cache, one, before)
    assert cache.replay(one.state_update(after, broker_id=2, now_ms=5)) == ((before, after) in VALID)
    found = cache.get(one.segment_id)
    state = after if (before, after) in VALID else before
    assert (found.state if found else DELETED) == state
    assert cache.version == {STARTED: 1, FINISHED: 2, DELETING: 3, DELETED: 3}[before] + ((before, after) in VALID)
    if found and (before, after) in VALID:
        assert (found.broker_id, found.event_timestamp_ms) == (2, 5)


def test_a_copy_starts_once_and_with_its_own_record() -> None:
    cache, one = RemoteLogMetadataCache(), segment(1, 0, 9)
    for state in (FINISHED, DELETING, DELETED):
        assert not cache.replay(one.state_update(state, broker_id=1, now_ms=0))
    assert not cache.replay(cache_of(one).segments()[0].to_record())  # A finished one that nobody heard of.
    assert cache.replay(one.to_record())
    again = segment(1, 0, 12, {0: 0, 3: 10})
    assert cache.replay(again.to_record())
    assert [each.last_offset for each in cache.segments_of_epoch(3)] == [12]
    put_into(cache, segment(2, 0, 9))
    assert not cache.replay(cache.segments()[1].to_record())
    assert not cache.replay(segment(2, 0, 9).to_record())
    assert cache.segments()[1].is_finished
    assert not cache.replay(SNAPSHOT)


def test_only_finished_segments_are_found_by_offset() -> None:
    one = segment(1, 10, 29, {4: 10, 6: 20})
    for state in (STARTED, FINISHED, DELETING, DELETED):
        cache = RemoteLogMetadataCache()
        put_into(cache, one, state)
        found = {
            (epoch, offset)
            for epoch, offset in product(range(3, 8), range(8, 32))
            if cache.remote_log_segment_metadata(epoch, offset)
        }
        expected = {*product((4,), range(10, 20)), *product((6,), range(20, 30))}
        assert found == (expected if state == FINISHED else set())
        assert len(cache.segments_of_epoch(4)) == len(cache.segments_of_epoch(6)) == (state != DELETED)
        assert len(list(cache.ranges_of_epoch(6))) == (state == FINISHED)
        assert cache.was_deleted(one.segment_id) == (state == DELETED)


def test_an_epoch_without_records_has_no_offsets() -> None:
    cache = cache_of(segment(1, 10, 29, {4: 10, 5: 20, 6: 20}))
    assert cache.remote_log_segment_metadata(5, 20) is None
    assert cache.remote_log_segment_metadata(6, 20) is not None
    assert len(cache.segments_of_epoch(5)) == 1
    assert cache.highest_offset_for_epoch(5) is None


def test_of_several_segments_with_an_offset_the_one_with_the_highest_start_is_found() -> None:
    cache = cache_of(segment(1, 0, 9), segment(2, 0, 19), segment(3, 5, 12), segment(4, 15, 29), segment(5, 15, 29))
    found = [cache.remote_log_segment_metadata(0, offset) for offset in range(31)]
    assert [each and each.segment_id[-1] for each in found] == [2] * 15 + [5] * 15 + [None]


def test_segments_inside_a_longer_segment_are_found_again_after_its_deletion() -> None:
    cache = cache_of(segment(1, 0, 9), segment(2, 10, 19), longer := segment(3, 0, 19))
    assert cache.replay(longer.state_update(DELETING, broker_id=1, now_ms=0))
    found = [cache.remote_log_segment_metadata(0, offset) for offset in (0, 9, 10, 19)]
    assert [each and each.segment_id[-1] for each in found] == [1, 1, 2, 2]


def test_the_highest_offset_of_an_epoch_stays_when_its_segment_is_deleted() -> None:
    cache = cache_of(one := segment(1, 0, 29, {0: 0, 2: 20}), segment(2, 5, 12))
    put_into(cache, segment(3, 30, 99, {2: 30}), STARTED)
    assert [cache.highest_offset_for_epoch(epoch) for epoch in (0, 1, 2)] == [19, None, 29]
    for state in (DELETING, DELETED):
        assert cache.replay(one.state_update(state, broker_id=1, now_ms=0))
    assert cache.highest_offset_for_epoch(2) == 29


def test_abandoning_a_finished_copy_has_no_effect() -> None:
    one = segment(1, 0, 9)
    give_up = one.state_update(DELETING, broker_id=2, now_ms=0, custom_metadata=ABANDONED)
    cache = cache_of(one)
    assert not cache.replay(give_up)
    assert cache.segments()[0].is_finished
    cache = RemoteLogMetadataCache()
    put_into(cache, one, STARTED)
    assert cache.replay(give_up)
    assert not cache.replay(one.state_update(FINISHED, broker_id=1, now_ms=0))
    assert cache.replay(give_up)
    assert cache.replay(one.state_update(DELETED, broker_id=2, now_ms=0))


def test_segments_are_listed_by_start_offset() -> None:
    cache = cache_of(segment(1, 20, 29), segment(2, 0, 9), segment(3, 10, 19, {1: 10}))
    assert [each.start_offset for each in cache.segments_of_epoch(0)] == [0, 20]
    assert [each.start_offset for each in cache.segments()] == [20, 0, 10]


def test_a_partition_is_deleted_in_three_states() -> None:
    marked, started, finished = RemotePartitionDeleteState
    cache = RemoteLogMetadataCache()

    def told(state: RemotePartitionDeleteState) -> bool:
        return cache.replay(RemotePartitionDeleteMetadataRecord(remote_partition_delete_state=state))

    assert [told(state) for state in (started, finished, marked, finished, marked, started)] == [
        False,
        False,
        True,
        False,
        True,
        True,
    ]
    assert [told(state) for state in (marked, started, finished, finished, started)] == [False, True, True, True, False]
    assert cache.delete_state == finished


def test_the_most_recently_deleted_segments_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_cache, "DELETED_IDS_MAX", 2)
    cache = RemoteLogMetadataCache()
    for number in (1, 2, 3):
        put_into(cache, segment(number, 0, 9), DELETED)
    assert [cache.was_deleted(uuid(number)) for number in (1, 2, 3)] == [False, True, True]
