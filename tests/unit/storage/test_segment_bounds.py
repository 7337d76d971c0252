"""The bounds that a segment keeps in place of the roll check close it where the check would."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.record import Record
from kraft.storage import unified_log
from kraft.storage.log_config import LogConfig
from kraft.storage.unified_log import UnifiedLog
from tests.unit.storage.support import NOW_MS, Machine

SMALL = LogConfig(
    segment_bytes=3000, segment_index_bytes=64, index_interval_bytes=150, segment_ms=4000, segment_jitter_ms=1000
)


def lives(log: UnifiedLog, seed: int) -> list[tuple[int, int, int | None]]:
    """Appends, truncations and other configurations; the segments in the end."""
    chance = random.Random(seed)
    now_ms = NOW_MS
    for _ in range(300):
        step = chance.random()
        now_ms += chance.randrange(100)
        if step < 0.03:
            begins = log.active_segment.base_offset
            log.truncate_to(chance.choice((begins, max(0, log.log_end_offset - chance.randrange(30)))), now_ms)
        elif step < 0.06:
            log.config = replace(SMALL, segment_bytes=chance.choice((1000, 3000, 9000)))
        else:
            when = -1 if step < 0.1 else now_ms + chance.randrange(-500, 3000)
            value = bytes(chance.randrange(200))
            log.append_as_leader(build_batch([Record(0, when, None, value, ())]), 0, now_ms=now_ms)
    return [(each.base_offset, each.size, each.offset_index.count) for each in log.segments]


@pytest.mark.parametrize("seed", range(20))
def test_the_fast_roll_check_rolls_segments_at_the_same_offsets_as_the_full_check(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_room = lives(Machine().log(SMALL), seed)
    with monkeypatch.context() as patched:
        patched.setattr(unified_log, "open_bounds", lambda segment, config: None)
        by_check = lives(Machine().log(SMALL), seed)
    assert by_room == by_check
    assert len(by_room) > 1
