"""Which segments are deleted from the remote tier."""

from __future__ import annotations

from collections.abc import Container

from kraft.common.ids import Uuid
from kraft.remote.log_facts import LogFacts
from kraft.remote.metadata_cache import RemoteLogMetadataCache
from kraft.remote.remote_retention import RemoteRetention, expired_segments
from kraft.world.steps import at_once
from tests.unit.remote.logs import log
from tests.unit.remote.support import DELETING, STARTED, cache_of, put_into, segment, uuid


def expired(
    facts: LogFacts,
    cache: RemoteLogMetadataCache,
    *,
    ms: int = -1,
    size: int = -1,
    now_ms: int = 0,
    leader_epoch: int = 9,
    being_copied: Container[Uuid] = (),
) -> tuple[int, dict[int, str]]:
    """Where the log begins, and why which segments go."""
    found = at_once(
        expired_segments(
            facts,
            cache,
            RemoteRetention(retention_ms=ms, retention_bytes=size),
            leader_epoch=leader_epoch,
            being_copied=being_copied,
            now_ms=now_ms,
        )
    )
    return found.log_start_offset, {each.segment_id[-1]: reason for each, reason in found.segments}


def tiered() -> RemoteLogMetadataCache:
    """Three segments with the timestamps 100, 200, 300."""
    return cache_of(
        *(segment(number, number * 10 - 10, number * 10 - 1, max_timestamp_ms=number * 100) for number in (1, 2, 3))
    )


BREACH = "retention breach"


def test_without_a_retention_limit_every_segment_stays() -> None:
    assert expired(log(20, 30, 40, epochs={0: 0}), tiered(), now_ms=1 << 50) == (0, {})


def test_segments_whose_newest_record_is_too_old_expire() -> None:
    facts = log(20, 30, 40, epochs={0: 0})
    assert expired(facts, tiered(), ms=50, now_ms=150) == (0, {})
    assert expired(facts, tiered(), ms=50, now_ms=151) == (10, {1: BREACH})
    assert expired(facts, tiered(), ms=50, now_ms=999) == (30, {1: BREACH, 2: BREACH, 3: BREACH})


def test_one_young_segment_protects_all_later_ones() -> None:
    cache = cache_of(
        segment(1, 0, 9, max_timestamp_ms=100), segment(2, 10, 19, max_timestamp_ms=900), segment(3, 20, 29)
    )
    assert expired(log(30, 40, epochs={0: 0}), cache, ms=50, now_ms=500) == (10, {1: BREACH})


def test_a_segment_without_timestamps_ages_from_its_copy() -> None:
    cache = cache_of(segment(1, 0, 9, max_timestamp_ms=-1))
    assert cache.replay(cache.segments()[0].state_update(cache.segments()[0].state, broker_id=1, now_ms=700))
    assert expired(log(10, 20, epochs={0: 0}), cache, ms=50, now_ms=750) == (0, {})
    assert expired(log(10, 20, epochs={0: 0}), cache, ms=50, now_ms=751) == (10, {1: BREACH})


def test_retention_size_counts_both_tiers_and_each_segment_once() -> None:
    facts = log(20, 30, 40, epochs={0: 0})  # The segment 20..29 is in both.
    assert expired(facts, tiered(), size=400) == (0, {})
    assert expired(facts, tiered(), size=301) == (0, {})
    assert expired(facts, tiered(), size=300) == (10, {1: BREACH})
    assert expired(facts, tiered(), size=0) == (30, {1: BREACH, 2: BREACH, 3: BREACH})


def test_segments_before_the_log_start_expire() -> None:
    why = "log start offset breach"
    assert expired(log(20, 30, 40, start=19), tiered()) == (19, {1: why})
    assert expired(log(20, 30, 40, start=20), tiered()) == (20, {1: why, 2: why})


def test_abandoned_copies_and_deletions_are_removed() -> None:
    cache = tiered()
    put_into(cache, segment(4, 30, 39), STARTED)
    put_into(cache, segment(5, 30, 39), STARTED)
    put_into(cache, segment(6, 40, 49), DELETING)
    assert expired(log(20, 50, 60, epochs={0: 0}), cache, being_copied=(uuid(5),)) == (
        0,
        {4: "abandoned copy", 6: "unfinished deletion"},
    )


def test_segments_copied_by_a_later_leader_are_not_touched() -> None:
    cache = tiered()
    put_into(cache, segment(4, 30, 39, {7: 30}))
    put_into(cache, segment(5, 30, 39, {7: 30}), STARTED)
    put_into(cache, segment(6, 30, 39, {7: 30}), DELETING)
    facts = log(20, 30, 40, epochs={0: 0})
    assert expired(facts, cache, leader_epoch=6) == (0, {})
    assert expired(facts, cache, leader_epoch=7)[1].keys() == {4, 5, 6}
    assert expired(facts, cache, leader_epoch=6, size=0) == (30, {1: BREACH, 2: BREACH, 3: BREACH})
    early = cache_of(segment(1, 0, 9, {0: 0, 7: 5}))
    assert expired(facts, early, leader_epoch=6, size=0) == (0, {})


def test_segments_that_diverge_from_the_log_after_an_unclean_election_expire() -> None:
    cache = cache_of(segment(1, 0, 9), segment(2, 10, 19, {0: 10, 1: 15}), segment(3, 20, 29, {1: 20}))
    facts = log(0, 40, 50, epochs={0: 0, 2: 12})
    assert expired(facts, cache) == (0, {3: "not of this log"})
    assert expired(facts, cache, size=0) == (12, {1: BREACH, 2: BREACH, 3: "not of this log"})


def test_a_segment_inside_another_expires() -> None:
    cache = cache_of(segment(1, 0, 9), segment(2, 0, 19), segment(3, 15, 29))
    assert expired(log(0, 30, 40), cache) == (0, {1: "within another segment"})


def test_a_log_without_epochs_expires_no_copy() -> None:
    assert expired(log(20, 30, 40, epochs={}), tiered(), size=0) == (0, {})


def test_retention_stops_at_the_first_segment_that_is_only_local() -> None:
    cache = cache_of(segment(1, 0, 9), segment(3, 20, 29))
    assert expired(log(0, 10, 20, 30, 40), cache, size=0) == (10, {1: BREACH})
    assert expired(log(20, 30, 40, epochs={0: 0}), cache, size=0) == (30, {1: BREACH, 3: BREACH})


def test_segments_with_the_same_records_of_this_log_count_once() -> None:
    """Cut at the end by an election, or at the start of the log, one lies within the other."""
    cut_at_end = cache_of(segment(1, 3, 9), segment(2, 4, 12))
    facts = log(10, 20, 30, epochs={0: 3, 1: 10}, start=3)
    assert expired(facts, cut_at_end, size=300) == (3, {2: "within another segment"})
    assert expired(facts, cut_at_end, size=200) == (10, {1: BREACH, 2: "within another segment"})
    cut_at_start = cache_of(segment(1, 0, 5), segment(2, 2, 9))
    assert expired(log(10, 20, 30, start=3), cut_at_start, size=300) == (3, {1: "within another segment"})
