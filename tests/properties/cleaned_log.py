"""A compacted partition through many lives, and what a reader must find in it.

`python -m tests.properties.cleaned_log --these SEED...` runs seeds, and says in a line of JSON what came of each.
"""

from __future__ import annotations

import contextlib
import random
import sys

from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.record import Record
from kraft.storage.cleaner.cleaner_manager import LogCleanerManager
from kraft.storage.cleaner.cleaning_order import CleanerLimits
from kraft.storage.cleaner.log_cleaner import CleaningAborted
from kraft.storage.log_config import LogConfig
from kraft.storage.unified_log import UnifiedLog
from kraft.world.simulated.node import NodeDied
from kraft.world.steps import at_once
from tests.properties.seeds import run_seeds
from tests.unit.storage.support import NOW_MS, T0, TOPIC_ID, Machine, content

STEPS = 40

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
        self.high_watermark = 0
        """What is below it is committed: no truncation takes it."""
        self.ends: set[int] = set()
        """Where a batch has ended."""
        self.open()

    def open(self) -> None:
        self.manager = self.machine.manager(lambda: self.config, self.random)
        self.manager.open(None)
        self.manager.load(self.now_ms)
        map_bytes = self.random.choice([24 * 3, 1 << 20])
        self.cleaner = LogCleanerManager(self.manager, lambda: CleanerLimits(map_bytes=map_bytes))

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
            self.ends.add(self.log.log_end_offset)
            new += [(base + record.offset, record.key, record.value) for record in records]
        self.log.flush()
        self.manager.checkpoint_all()
        self.written += new

    def commit(self) -> None:
        """Replicas have the log up to some offset."""
        ends = [end for end in sorted(self.ends) if self.high_watermark <= end <= self.log.log_end_offset]
        self.high_watermark = self.random.choice([self.high_watermark, *ends])
        self.log.update_high_watermark(self.high_watermark)

    def commit_all(self) -> None:
        self.high_watermark = self.log.update_high_watermark(self.log.log_end_offset)

    def truncate(self) -> None:
        """Another replica leads, which has what is committed and no more."""
        self.written = [entry for entry in self.written if entry[0] < self.high_watermark]
        self.ends = {end for end in self.ends if end <= self.high_watermark}
        self.manager.truncate_to(self.log, self.high_watermark, now_ms=self.now_ms)

    def clean(self) -> None:
        self.log.update_high_watermark(self.high_watermark)
        candidate = self.cleaner.next_log(self.now_ms)
        if candidate is None:
            return
        try:
            at_once(self.cleaner.clean(candidate, self.now_ms))
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
        self.ends = {end for end in self.ends if end <= self.log.log_end_offset}
        self.high_watermark = min(self.high_watermark, self.log.log_end_offset)
        self.log.update_high_watermark(self.high_watermark)
        found = content(self.log)
        self.written += [entry for entry in found if entry[0] > (self.written[-1][0] if self.written else -1)]

    def step(self) -> None:
        self.now_ms += self.random.randrange(3000)
        actions = [self.append, self.commit, self.clean, self.truncate, self.forget_files, self.die_soon]
        action = self.random.choices(actions, weights=[5, 5, 6, 1, 1, 3])[0]
        try:
            action()
        except NodeDied:
            self.restart_after_death()

    def die_soon(self) -> None:
        self.machine.node.die_after_calls(self.random.randrange(200), power_lost=False)

    def live(self, steps: int) -> None:
        """Do so many things, and look after each."""
        for _ in range(steps):
            self.step()
            try:
                self.check()
            except NodeDied:
                self.restart_after_death()
                self.check()
        self.machine.node.die_after_calls(10**9, power_lost=False)
        self.manager.release()

    def check(self) -> None:
        found = content(self.log)
        assert set(found) <= set(self.written)
        assert [offset for offset, _, _ in found] == sorted({offset for offset, _, _ in found})
        truth = {key: value for _, key, value in self.written}
        seen = {key: value for _, key, value in found}
        assert living(truth) == living(seen)


def violation_of(seed: int) -> str:
    """Empty where the law holds."""
    try:
        CleanedLog(seed).live(STEPS)
    except AssertionError as violation:
        return f"cleaned log: {violation}"
    return ""


if __name__ == "__main__":
    sys.exit(run_seeds("cleaned_log", __doc__, violation_of))
