"""Stop or kill, the restarted node answers every question about a log as it did before.

One partition lives through transactions, expiry of producers, rolls, flushes, retention by log start, compaction and
restarts, with the sizes of production or tiny ones. A restart follows an orderly stop (the power may go then, and
files that can be recreated may be lost), a kill, or a power loss behind a flush of everything.

`python -m tests.properties.restarted_log --these SEED...` runs seeds, and says in a line of JSON what came of each.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from kraft.common.errors import KraftError
from kraft.protocol.records.control_record import ControlRecordType, TransactionMarker, build_marker_batch
from kraft.protocol.records.record_batch import RecordBatch, batches
from kraft.storage.cleaner.cleaner_manager import LogCleanerManager
from kraft.storage.log_config import LogConfig
from kraft.storage.log_validator import AppendOrigin
from kraft.storage.producers.verification import NOT_REQUIRED
from kraft.storage.unified_log import UnifiedLog
from kraft.world.steps import at_once
from tests.properties.seeds import run_seeds
from tests.unit.storage.support import DIRECTORY, NOW_MS, T0, TOPIC_ID, Machine, batch_of, found_by_time

STEPS = 40
DAY_MS = 86_400_000
PRODUCERS = (1, 2, 3)
READ_BYTES = 1 << 20
LOST_SUFFIXES = (".index", ".timeindex", ".txnindex", ".snapshot")


class Written(NamedTuple):
    """A record of the model: `producer_id` is -1 outside of transactions."""

    offset: int
    key: bytes
    value: bytes
    producer_id: int


class RestartedLog:
    """The log, and a model of what readers of committed records see."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.machine = Machine(seed)
        self.compacts = self.random.random() < 0.4
        self.config = LogConfig(
            cleanup_policy=("compact",) if self.compacts else ("delete",),
            segment_bytes=self.random.choice([300, 900, 1 << 30]),
            index_interval_bytes=self.random.choice([1, 200, 4096]),
            delete_retention_ms=self.random.choice([0, DAY_MS]),
            min_cleanable_dirty_ratio=0.0,
        )
        self.now_ms = NOW_MS
        self.epoch = 0
        self.sequences = dict.fromkeys(PRODUCERS, 0)
        self.epochs = dict.fromkeys(PRODUCERS, 0)
        self.open_records: dict[int, list[Written]] = {}
        self.committed: list[Written] = []
        self.start()

    def start(self) -> None:
        self.manager = self.machine.manager(lambda: self.config, self.random)
        self.manager.open(None)
        self.manager.load(self.now_ms)
        self.cleaner = LogCleanerManager(self.manager)
        self.log.update_high_watermark(self.log.log_end_offset)

    @property
    def log(self) -> UnifiedLog:
        return self.manager.get_or_create(T0, TOPIC_ID, now_ms=self.now_ms)

    # Operations

    def write(self) -> None:
        """A batch within a transaction, of an idempotent producer, or of none."""
        producer_id = self.random.choice((*PRODUCERS, -1))
        records = [(b"k%d" % self.random.randrange(4), b"%d" % self.random.randrange(1 << 30)) for _ in range(2)]
        options: dict[str, int | bool] = {}
        if producer_id >= 0:
            self.begin_epoch_if_forgotten(producer_id)
            options = {
                "producer_id": producer_id,
                "producer_epoch": self.epochs[producer_id],
                "base_sequence": self.sequences[producer_id],
                "is_transactional": True,
            }
            self.sequences[producer_id] += len(records)
        keys, values = tuple(key for key, _ in records), tuple(value for _, value in records)
        info = self.log.append_as_leader(
            batch_of(*values, keys=keys, timestamp=self.now_ms, **options),
            self.epoch,
            now_ms=self.now_ms,
            verification=NOT_REQUIRED,
        )
        written = [Written(info.first_offset + at, key, value, producer_id) for at, (key, value) in enumerate(records)]
        (self.open_records.setdefault(producer_id, []) if producer_id >= 0 else self.committed).extend(written)
        self.log.update_high_watermark(self.log.log_end_offset)

    def begin_epoch_if_forgotten(self, producer_id: int) -> None:
        """Compaction may have left a marker alone of a forgotten producer, which goes on in a new epoch (KIP-360)."""
        entry = self.log.producers.producers.get(producer_id)
        if entry is not None and not entry.batches and producer_id not in self.open_records:
            self.epochs[producer_id] += 1
            self.sequences[producer_id] = 0

    def end(self) -> None:
        if not self.open_records:
            return
        producer_id = self.random.choice(list(self.open_records))
        outcome = self.random.choice((ControlRecordType.COMMIT, ControlRecordType.ABORT))
        self.append_marker(producer_id, outcome)
        if self.random.random() < 0.2:
            end = self.log.log_end_offset
            self.append_marker(producer_id, outcome)
            assert self.log.log_end_offset == end, "a marker that is sent again is in the log twice"
        ended = self.open_records.pop(producer_id)
        if outcome == ControlRecordType.COMMIT:
            self.committed += ended
        self.log.update_high_watermark(self.log.log_end_offset)

    def append_marker(self, producer_id: int, outcome: int) -> None:
        data = build_marker_batch(
            TransactionMarker(outcome, 0),
            offset=0,
            timestamp_ms=self.now_ms,
            leader_epoch=0,
            producer_id=producer_id,
            producer_epoch=self.epochs[producer_id],
        )
        self.log.append_as_leader(data, self.epoch, now_ms=self.now_ms, origin=AppendOrigin.COORDINATOR)

    def elect(self) -> None:
        self.epoch += 1
        self.log.assign_epoch(self.epoch)

    def wait(self) -> None:
        """Sometimes for so long that producers are forgotten."""
        self.now_ms += self.random.choice([100, DAY_MS // 3, DAY_MS, 2 * DAY_MS])
        self.log.maybe_expire_producers(self.now_ms)

    def roll(self) -> None:
        if self.log.local.files_exist and self.log.active_segment.size:
            self.log.roll(self.now_ms)

    def flush(self) -> None:
        self.log.flush()

    def checkpoint(self) -> None:
        self.manager.checkpoint_all()

    def delete_records(self) -> None:
        if not self.compacts:
            start, end = self.log.log_start_offset, self.log.last_stable_offset
            self.log.delete_records_before(self.random.randrange(start, end + 1))
            self.manager.delete_old_segments(self.log, now_ms=self.now_ms)
            job = self.manager.due_deletions(self.now_ms + DAY_MS)
            if job is not None:
                job.run()
            self.manager.checkpoint_all()

    def clean(self) -> None:
        self.log.flush()
        candidate = self.cleaner.next_log(self.now_ms)
        if candidate is not None:
            at_once(self.cleaner.clean(candidate, self.now_ms))

    # Restarts

    def stop(self) -> None:
        for _ in self.manager.close_logs():
            pass
        self.manager.finish_shutdown()

    def restart_in_order(self) -> None:
        self.restarting(self.stop, self.machine.power_off)

    def restart_without_files(self) -> None:
        """After an orderly stop somebody removes what can be recreated."""
        suffixes = tuple(self.random.sample(LOST_SUFFIXES, self.random.randrange(1, 5)))
        self.restarting(self.stop, lambda: self.lose(suffixes))

    def lose(self, suffixes: tuple[str, ...]) -> None:
        self.machine.power_off()
        if self.machine.files.exists(DIRECTORY):
            for name in self.machine.files.list_directory(DIRECTORY):
                if name.endswith(suffixes):
                    self.machine.files.remove(f"{DIRECTORY}/{name}")

    def restart_after_kill(self) -> None:
        self.restarting(self.manager.release, self.machine.kill)

    def restart_after_power_loss(self) -> None:
        """Everything is flushed; what was done since may be lost, but nobody can tell."""
        self.log.flush()
        for action in self.random.sample((self.roll, self.checkpoint, self.checkpoint), self.random.randrange(4)):
            action()
        self.restarting(self.manager.release, self.machine.power_off)

    def restarting(self, *deeds: Callable[[], None]) -> None:
        before = self.answers()
        for deed in deeds:
            deed()
        self.now_ms += self.random.choice([0, 0, 1000])
        self.start()
        after = self.answers()
        known, answered = before.pop("producers"), after["producers"]
        assert known.items() <= answered.items(), f"producers: {answered} after the restart, {known} before it"
        for question, answer in before.items():
            assert after[question] == answer, f"{question}: {after[question]} after the restart, {answer} before it"

    # What the log answers

    def answers(self) -> dict[str, Any]:
        """All that a log can be asked. What a restart may forget, as in Kafka, is left out: an epoch without
        records, and a producer whose last record is deleted or whose time is up. It may know forgotten producers
        again."""
        log = self.log
        log.maybe_expire_producers(self.now_ms)
        end, start = log.log_end_offset, log.log_start_offset
        return {
            "offsets": (start, end, log.high_watermark, log.last_stable_offset),
            "batches": [(each.base_offset, each.partition_leader_epoch, each.crc) for each in self.batches(end)],
            "committed": self.consumed(start),
            "aborted": self.aborted_batches(),
            "times": [found_by_time(log, time) for time in (NOW_MS - 1, NOW_MS, NOW_MS + DAY_MS, NOW_MS + 3 * DAY_MS)],
            "largest timestamp": log.local.max_timestamp(),
            "epochs": [entry for entry in log.leader_epoch_cache.entries if entry[1] < end],
            "producers": {
                producer_id: (entry.producer_epoch, entry.last_sequence, entry.current_transaction_first_offset)
                for producer_id, entry in sorted((log.producers.producers if log.has_producers else {}).items())
                if entry.last_offset >= start
            },
        }

    def aborted_batches(self) -> list[tuple[int, int, list[int]]]:
        """(producer, marker, first offsets of the batches) of every transaction told as aborted. One whose batches
        are all gone may be told or not."""
        log = self.log
        bound = log.last_stable_offset
        data = [batch for batch in self.batches(bound) if not batch.is_control and batch.is_transactional]
        found = []
        for each in log.aborted_transactions(log.log_start_offset, bound):
            own = [
                batch.base_offset
                for batch in data
                if batch.producer_id == each.producer_id and each.first_offset <= batch.base_offset < each.last_offset
            ]
            if own:
                found.append((each.producer_id, each.last_offset, own))
        return found

    def batches(self, bound: int) -> list[RecordBatch]:
        found: list[RecordBatch] = []
        offset = self.log.log_start_offset
        while offset < bound:
            data = self.log.read(offset, READ_BYTES, max_offset=bound, min_one_message=True).read()
            if not data:
                break
            for batch in batches(data, partial_tail=True):
                batch.verify_crc()
                found.append(batch)
            offset = found[-1].next_offset
        return found

    def consumed(self, offset: int) -> list[tuple[int, bytes | None, bytes | None]]:
        """As a consumer of read_committed reads from `offset`."""
        log = self.log
        bound = log.last_stable_offset
        aborted = sorted(log.aborted_transactions(offset, bound), key=lambda each: each.first_offset)
        skipped: set[int] = set()
        seen = []
        for batch in self.batches(bound):
            while aborted and aborted[0].first_offset <= batch.last_offset:
                skipped.add(aborted.pop(0).producer_id)
            if batch.is_control:
                skipped.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in skipped):
                seen += [(each.offset, each.key, each.value) for each in batch.records() if each.offset >= offset]
        return seen

    def check(self) -> None:
        """Readers see what was committed; of a compacted log at least the last value of each key."""
        start, bound = self.log.log_start_offset, self.log.last_stable_offset
        expected = sorted(
            (each.offset, each.key, each.value) for each in self.committed if start <= each.offset < bound
        )
        seen = self.consumed(start)
        if not self.compacts:
            assert seen == expected, f"read_committed shows {seen}, and {expected} was committed"
            return
        assert set(seen) <= set(expected), f"read_committed shows {set(seen) - set(expected)}, never committed"
        last, shown = {key: value for _, key, value in expected}, {key: value for _, key, value in seen}
        assert shown == last, f"read_committed ends up with {shown}, and {last} was committed"

    def live(self, steps: int) -> None:
        actions = {
            self.write: 12,
            self.end: 8,
            self.elect: 1,
            self.wait: 2,
            self.roll: 2,
            self.flush: 1,
            self.checkpoint: 1,
            self.delete_records: 1,
            self.clean: 3 if self.compacts else 0,
            self.restart_in_order: 2,
            self.restart_without_files: 1,
            self.restart_after_kill: 2,
            self.restart_after_power_loss: 2,
        }
        for _ in range(steps):
            self.now_ms += self.random.randrange(1000)
            self.random.choices(list(actions), list(actions.values()))[0]()
            self.check()
        self.manager.release()


def violation_of(seed: int) -> str:
    """Empty where the law holds."""
    try:
        RestartedLog(seed).live(STEPS)
    except (AssertionError, KraftError, OSError) as violation:
        return f"restarted log: {violation}"
    return ""


if __name__ == "__main__":
    sys.exit(run_seeds("restarted_log", __doc__, violation_of))
