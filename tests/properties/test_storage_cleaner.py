"""Laws of compaction, under deaths at any file call and power losses.

Whatever happens, a reader sees for every key the value it would have seen without cleaning; records that remain are
records that were written, at their offsets; a key that was deleted stays deleted; and a cleaning that comes to its
end leaves one record a key below the offset it reached.
"""

from __future__ import annotations

import contextlib
import os

import pytest

from kraft.storage.cleaner.cleaner_manager import LogCleanerManager
from kraft.storage.log_config import LogConfig
from kraft.world.simulated.node import NodeDied
from kraft.world.steps import at_once
from tests.properties.cleaned_log import STEPS, CleanedLog, living
from tests.unit.storage.support import content

SEEDS = 1000 if os.environ.get("KRAFT_SOAK") else 60


@pytest.mark.parametrize("block", range(10))
def test_cleaning_never_loses_moves_or_restores_records_through_any_crash(block: int) -> None:
    for seed in range(block * SEEDS // 10, (block + 1) * SEEDS // 10):
        CleanedLog(seed).live(STEPS)


def test_a_finished_cleaning_leaves_one_record_per_key() -> None:
    for seed in range(20):
        cleaned = CleanedLog(seed)
        cleaned.cleaner = LogCleanerManager(cleaned.manager)
        for _ in range(12):
            cleaned.append()
        cleaned.commit_all()
        candidate = cleaned.cleaner.next_log(cleaned.now_ms)
        assert candidate is not None
        at_once(cleaned.cleaner.clean(candidate, cleaned.now_ms))
        keys = [key for offset, key, _ in content(cleaned.log) if offset < candidate.first_uncleanable_offset]
        assert len(keys) == len(set(keys))


def durable_log(seed: int) -> tuple[CleanedLog, dict[bytes | None, bytes | None]]:
    """A log of several small segments, all durable, and the value that each key has in it."""
    cleaned = CleanedLog(seed)
    cleaned.config = LogConfig(
        cleanup_policy=("compact",), segment_bytes=2000, delete_retention_ms=0, min_cleanable_dirty_ratio=0.0
    )
    cleaned.manager.reconfigure("t")
    cleaned.cleaner = LogCleanerManager(cleaned.manager)
    for _ in range(6):
        cleaned.append()
        cleaned.log.roll(cleaned.now_ms)
        cleaned.log.flush()
    cleaned.commit_all()
    return cleaned, {key: value for _, key, value in content(cleaned.log)}


@pytest.mark.parametrize("seed", range(8 if SEEDS > 100 else 3))
def test_a_power_loss_at_any_file_call_of_a_cleaning_is_survived(seed: int) -> None:
    point = 0
    while True:
        cleaned, truth = durable_log(seed)
        cleaned.machine.node.die_after_calls(point, power_lost=True)
        point += 1 if point > 40 else 5
        try:
            cleaned.clean()
        except NodeDied:
            with contextlib.suppress(NodeDied):
                cleaned.manager.release()
            cleaned.machine.power_off()
            cleaned.open()
            found = content(cleaned.log)
            assert living({key: value for _, key, value in found}) == living(truth), point
            assert [offset for offset, _, _ in found] == sorted({offset for offset, _, _ in found}), point
            cleaned.manager.release()
            continue
        cleaned.machine.node.die_after_calls(10**9, power_lost=False)
        cleaned.manager.release()
        return
