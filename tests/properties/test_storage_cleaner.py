"""Laws of compaction, under deaths at any file call and power losses.

Whatever happens, a reader sees for every key the value it would have seen without cleaning; records that remain are
records that were written, at their offsets; a key that was deleted stays deleted; and a cleaning that comes to its
end leaves one record a key below the offset it reached.
"""

from __future__ import annotations

import contextlib
import os
import random

import pytest

from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.record import Record
from kraft.storage.cleaner_manager import LogCleanerManager
from kraft.storage.log_cleaner import CleaningAborted
from kraft.storage.log_config import LogConfig
from kraft.storage.steps import run_here
from kraft.storage.unified_log import UnifiedLog
from kraft.world.simulated.node import NodeDied
from tests.unit.storage.support import NOW_MS, T0, TOPIC_ID, Machine, content

SEEDS = 1000 if os.environ.get("KRAFT_SOAK") else 60

Entry = tuple[int, bytes | None, bytes | None]


def living(values: dict[bytes | None, bytes | None]) -> dict[bytes | None, bytes]:
    """The keys that a reader ends up with: a deleted one counts as never written."""
    return {key: value for key, value in values.items() if value is not None}


class CleanedLog:
    """A compacted partition through many lives, and every record that was ever durable in it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.machine = Machine(seed)
        self.now_ms = NOW_MS
        self.config = LogConfig(
            cleanup_policy=("compact",),
            segment_bytes=self.random.choice([300, 900]),
            delete_retention_ms=self.random.choice([0, 2000, 50_000]),
            index_interval_bytes=self.random.choice([1, 200]),
            min_cleanable_dirty_ratio=0.0,
        )
        self.written: list[Entry] = []
        self.open()

    def open(self) -> None:
        self.manager = self.machine.manager(lambda: self.config, self.random)
        self.manager.open(None)
        self.manager.load(self.now_ms)
        self.cleaner = LogCleanerManager(self.manager, map_bytes_max=self.random.choice([160 * 3, 1 << 20]))

    @property
    def log(self) -> UnifiedLog:
        return self.manager.get_or_create(T0, TOPIC_ID, now_ms=self.now_ms)

    def append(self) -> None:
        """Some batches, made durable: what the cleaner may touch is durable, and only that is promised here."""
        new: list[Entry] = []
        for _ in range(self.random.randrange(1, 8)):
            base = self.log.log_end_offset
            records = [
                Record(
                    index,
                    self.now_ms,
                    b"k%d" % self.random.randrange(6),
                    self.random.choice([None, b"%d" % (base + index), b"%d" % (base + index)]),
                )
                for index in range(self.random.randrange(1, 5))
            ]
            options = (
                {"producer_id": self.random.randrange(3), "producer_epoch": base} if self.random.random() < 0.3 else {}
            )
            batch = build_batch(records, codec=self.random.randrange(5), base_sequence=0 if options else -1, **options)
            self.log.append_as_leader(batch, 0, now_ms=self.now_ms)
            new += [(base + record.offset, record.key, record.value) for record in records]
        self.log.flush()
        self.manager.checkpoint_all()
        self.log.update_high_watermark(self.log.log_end_offset)
        self.written += new

    def clean(self) -> None:
        self.log.update_high_watermark(self.log.log_end_offset)
        candidate = self.cleaner.next_log(self.now_ms)
        if candidate is None:
            return
        try:
            run_here(self.cleaner.clean(candidate, self.now_ms))
        except CleaningAborted:
            return

    def forget_files(self) -> None:
        self.now_ms += 60_000
        job = self.manager.due_deletions(self.now_ms)
        if job is not None:
            job.run()

    def restart_after_death(self) -> None:
        while True:
            with contextlib.suppress(NodeDied):
                self.manager.release()  # What the kernel does for a dead process.
            self.random.choice([self.machine.kill, self.machine.power_off])()
            if self.random.random() < 0.3:
                self.machine.node.die_after_calls(self.random.randrange(150), power_lost=False)
            try:
                self.open()
                self.machine.node.die_after_calls(10**9, power_lost=False)
            except NodeDied:
                continue
            break
        self.log.flush()
        self.manager.checkpoint_all()
        found = content(self.log)
        self.written += [entry for entry in found if entry[0] > (self.written[-1][0] if self.written else -1)]

    def step(self) -> None:
        self.now_ms += self.random.randrange(3000)
        action = self.random.choices([self.append, self.clean, self.forget_files, self.die_soon], weights=[5, 6, 1, 3])[
            0
        ]
        try:
            action()
        except NodeDied:
            self.restart_after_death()

    def die_soon(self) -> None:
        self.machine.node.die_after_calls(self.random.randrange(200), power_lost=False)

    def check(self) -> None:
        found = content(self.log)
        assert set(found) <= set(self.written)
        assert [offset for offset, _, _ in found] == sorted({offset for offset, _, _ in found})
        truth = {key: value for _, key, value in self.written}
        seen = {key: value for _, key, value in found}
        assert living(truth) == living(seen)


@pytest.mark.parametrize("block", range(10))
def test_cleaning_never_loses_moves_or_resurrects_through_any_crash(block: int) -> None:
    for seed in range(block * SEEDS // 10, (block + 1) * SEEDS // 10):
        cleaned = CleanedLog(seed)
        for _ in range(40):
            cleaned.step()
            try:
                cleaned.check()
            except NodeDied:
                cleaned.restart_after_death()
                cleaned.check()
        cleaned.machine.node.die_after_calls(10**9, power_lost=False)
        cleaned.manager.release()


def test_a_finished_cleaning_leaves_one_record_a_key() -> None:
    for seed in range(20):
        cleaned = CleanedLog(seed)
        cleaned.cleaner = LogCleanerManager(cleaned.manager)
        for _ in range(12):
            cleaned.append()
        candidate = cleaned.cleaner.next_log(cleaned.now_ms)
        assert candidate is not None
        run_here(cleaned.cleaner.clean(candidate, cleaned.now_ms))
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
    return cleaned, {key: value for _, key, value in content(cleaned.log)}


@pytest.mark.parametrize("seed", range(8 if SEEDS > 100 else 3))
def test_the_power_may_fail_at_any_file_call_of_a_cleaning(seed: int) -> None:
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
