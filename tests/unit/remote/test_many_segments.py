"""No step of a decision looks at all of many thousand segments."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import islice
from types import FrameType
from typing import Any

import pytest
import trio

from kraft.common.errors import KraftError
from kraft.remote import local_files, remote_retention
from kraft.remote.copy_decisions import deletable_local_segments, segments_to_copy
from kraft.remote.local_files import facts_of, facts_to_copy, first_to_copy
from kraft.remote.log_facts import LogFacts, copied_end_offset
from kraft.remote.metadata_cache import RemoteLogMetadataCache
from kraft.remote.remote_lookup import find_part, parts_with_aborted, remote_start_offset
from kraft.remote.remote_retention import SEGMENTS_A_TURN, RemoteRetention, expired_segments, expiry_of
from kraft.storage.leader_epoch_cache import LeaderEpochCache
from kraft.storage.log_segment import LogSegment
from kraft.storage.tiered_log import lacking_snapshots
from kraft.world.steps import at_once
from kraft.world.turns import in_turns
from tests.unit.remote.logs import log
from tests.unit.remote.support import FINISHED, cache_of, put_into, segment
from tests.unit.storage.support import NOW_MS, Machine, batch_of

COUNT = 14_000
ALL = RemoteRetention(retention_ms=-1, retention_bytes=0)
NOTHING = RemoteRetention(retention_ms=-1, retention_bytes=-1)
FEW = 200
"""Calls."""


def calls(work: Callable[[], object]) -> int:
    """Functions that are called, generators that are resumed."""
    count = 0

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def made(epochs: int) -> tuple[LogFacts, RemoteLogMetadataCache]:
    """A log whose first COUNT segments are in the store, and the last ones of them on the disk, too."""
    starts = {epoch: epoch * (COUNT // epochs) * 10 for epoch in range(epochs)}
    copies = [
        segment(index + 1, index * 10, index * 10 + 9, {index // (COUNT // epochs): index * 10})
        for index in range(COUNT)
    ]
    end = COUNT * 10
    return log(end - 20, end - 10, end, end + 10, end + 15, epochs=starts), cache_of(*copies)


@pytest.mark.parametrize("epochs", [1, 20])
def test_a_lookup_costs_the_same_for_any_number_of_segments(epochs: int) -> None:
    facts, cache = made(epochs)
    end = COUNT * 10
    for work in (
        lambda: copied_end_offset(facts, cache),
        lambda: segments_to_copy(facts, cache),
        lambda: remote_start_offset(facts, cache),
        lambda: find_part(facts, cache, end // 2),
        lambda: next(parts_with_aborted(facts, cache, end // 2)),
        lambda: deletable_local_segments(facts, cache, local_retention_ms=-1, local_retention_bytes=0, now_ms=0),
    ):
        assert calls(work) < FEW
    whole = log(0, end, end + 10, epochs=dict(facts.leader_epochs))
    assert calls(lambda: copied_end_offset(whole, cache)) < FEW
    assert copied_end_offset(whole, cache) == end
    assert remote_start_offset(facts, cache) == 0
    assert [part.end_offset for _, part in islice(parts_with_aborted(facts, cache, 15), 3)] == [20, 30, 40]


@pytest.mark.parametrize("retention", [ALL, NOTHING])
def test_expired_segments_are_determined_incrementally(retention: RemoteRetention) -> None:
    facts, cache = made(1)
    work = expired_segments(facts, cache, retention, leader_epoch=9, being_copied=(), now_ms=0)
    turns: list[int] = []
    while work.gi_frame is not None:  # type: ignore[attr-defined]
        turns.append(calls(lambda: next(work, None)))
    assert max(turns) <= 15 * SEGMENTS_A_TURN
    assert len(turns) >= 2 * COUNT // SEGMENTS_A_TURN - 2


def test_a_decision_restarts_when_the_metadata_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_retention, "SEGMENTS_A_TURN", 2)
    facts = log(60, 70, epochs={0: 0})
    changes = 0

    async def play(changes_max: int) -> int:
        cache = cache_of(*(segment(number, number * 10, number * 10 + 9) for number in range(6)))

        async def change() -> None:
            nonlocal changes
            while changes < changes_max:
                changes += 1
                put_into(cache, segment(100 + changes, 500, 509, {9: 500}), FINISHED)
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(change)
            found = await in_turns(expiry_of(facts, cache, ALL, leader_epoch=0, being_copied=(), now_ms=0))
            nursery.cancel_scope.cancel()
        expected = at_once(expired_segments(facts, cache, ALL, leader_epoch=0, being_copied=(), now_ms=0))
        assert found == expected
        return len(found.segments)

    assert trio.run(play, 3) == 6
    changes = 0
    with pytest.raises(ExceptionGroup) as raised:
        trio.run(play, 1000)
    assert raised.group_contains(KraftError)


def test_only_one_of_many_segments_of_a_log_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Machine().log()
    for _ in range(40):
        log.append_as_leader(batch_of(b"a", b"b"), 0, now_ms=NOW_MS)
        log.update_high_watermark(log.log_end_offset)
        log.roll(NOW_MS)
    opened: list[int] = []
    timestamp_of = local_files._timestamp_of

    def counted(segment: LogSegment) -> int:
        opened.append(segment.base_offset)
        return timestamp_of(segment)

    monkeypatch.setattr(local_files, "_timestamp_of", counted)
    for copied in (0, 1, 20, 39, 40):
        cache = cache_of(*(segment(index + 1, 2 * index, 2 * index + 1) for index in range(copied)))
        opened.clear()
        facts = facts_to_copy(log, cache)
        assert (len(opened), len(facts.segments) <= 3) == (1, True)
        assert sum(each.size for each in facts.segments) == log.size
        assert list(segments_to_copy(facts, cache)) == list(segments_to_copy(facts_of(log), cache))[:1]
        assert first_to_copy(log, copied_end_offset(facts, cache)) == copied


def test_segments_of_unknown_epochs_are_skipped() -> None:
    log = Machine().log()
    for epoch in (0, 0, 1, 1, 2):
        log.append_as_leader(batch_of(b"a", b"b"), epoch, now_ms=NOW_MS)
        log.update_high_watermark(log.log_end_offset)
        log.roll(NOW_MS)
    for known_from, due in ((0, [0]), (3, [4]), (4, [4]), (9, []), (10, [])):
        log.leader_epoch_cache = LeaderEpochCache([(2, known_from)])
        facts = facts_to_copy(log, RemoteLogMetadataCache())
        assert [each.base_offset for each in segments_to_copy(facts, RemoteLogMetadataCache())] == due


def test_snapshots_are_listed_in_one_pass() -> None:
    log = Machine().log()
    for sequence in range(300):
        log.append_as_leader(batch_of(b"a", producer_id=7, producer_epoch=0, base_sequence=sequence), 0, now_ms=NOW_MS)
        log.roll(NOW_MS)

    class Offset(int):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Offset.compared += 1
            return int(self) == other

        __hash__ = int.__hash__

    log.producers.snapshots = [Offset(each) for each in log.producers.snapshots]
    assert lacking_snapshots(log) == []
    assert Offset.compared < 1000
