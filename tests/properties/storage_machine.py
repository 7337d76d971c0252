"""A log manager on a crashing disk, driven at random beside a model that is a list of appended batches.

The model knows what must survive: after the death of the process every finished append, after a power loss every
append below the recovery point that was checkpointed, and of the rest a prefix. An append that was under way may be
there, whole, or not.
"""

from __future__ import annotations

import contextlib
import random
from dataclasses import dataclass

from kraft.common.errors import ApiError
from kraft.protocol.records.record_batch import batches
from kraft.storage.log_config import LogConfig
from kraft.storage.unified_log import UnifiedLog
from kraft.world.simulated.node import NodeDied
from tests.unit.storage.support import NOW_MS, T0, TOPIC_ID, Machine, batch_of

Batch = tuple[int, int, tuple[bytes | None, ...]]
"""First offset, leader epoch, values."""


@dataclass
class Model:
    """What the log holds, oldest first; `start` is the least the log start may be, `durable` an offset that power
    loss cannot undo."""

    batches: list[Batch]
    start: int = 0
    durable: int = 0

    @property
    def end(self) -> int:
        return max(self.batches[-1][0] + len(self.batches[-1][2]), self.start) if self.batches else self.start


class StorageMachine:
    """One partition through many lives."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.machine = Machine(seed)
        self.config = LogConfig(
            segment_bytes=self.random.choice([400, 1500, 10_000]),
            index_interval_bytes=self.random.choice([1, 100, 4096]),
            retention_bytes=self.random.choice([-1, -1, 1200]),
            segment_index_bytes=self.random.choice([48, 10_000]),
        )
        self.model = Model([])
        self.pending: Batch | None = None
        self.ends_allowed: set[int] = set()
        self.now_ms = NOW_MS
        self.epoch = 0
        self.serial = 0
        self.producer_epoch = self.sequence = 0
        self.lives = 0
        self.lost_power = False
        self.open()

    def open(self) -> None:
        self.manager = self.machine.manager(lambda: self.config, self.random)
        self.manager.open(None)
        self.manager.load(self.now_ms)
        self.lives += 1

    @property
    def log(self) -> UnifiedLog:
        return self.manager.get_or_create(T0, TOPIC_ID, now_ms=self.now_ms)

    # Operations

    def step(self) -> None:
        operation = self.random.choices(
            [
                self.append,
                self.flush,
                self.checkpoint,
                self.retain,
                self.delete_records,
                self.truncate,
                self.roll,
                self.read_back,
                self.restart,
                self.crash,
            ],
            weights=[40, 5, 5, 5, 2, 3, 3, 5, 3, 6],
        )[0]
        self.now_ms += self.random.randrange(2000)
        operation()

    def append(self) -> None:
        values = tuple(
            self.random.choice([None, b"%d" % self.serial * self.random.randrange(1, 20)])
            for _ in range(self.random.randrange(1, 6))
        )
        self.serial += 1
        self.epoch += self.random.random() < 0.1
        options = {"codec": self.random.randrange(5)}
        idempotent = self.random.random() < 0.3
        if idempotent:
            options |= {"producer_id": 7, "producer_epoch": self.producer_epoch, "base_sequence": self.sequence}
        self.pending = (self.model.end, self.epoch, values)
        info = self.log.append_as_leader(
            batch_of(*values, timestamp=self.now_ms, **options), self.epoch, now_ms=self.now_ms
        )
        assert info.first_offset == self.model.end
        if idempotent:
            self.sequence += len(values)
        self.model.batches.append(self.pending)
        self.pending = None

    def flush(self) -> None:
        self.log.flush(self.random.choice([None, self.random.randrange(self.model.end + 1)]))

    def checkpoint(self) -> None:
        self.manager.checkpoint_all()
        self.model.durable = self.log.recovery_point

    def retain(self) -> None:
        self.log.update_high_watermark(self.random.randrange(self.model.start, self.model.end + 1))
        self.manager.delete_old_segments(self.log, now_ms=self.now_ms)
        job = self.manager.due_deletions(self.now_ms)
        if job is not None:
            job.run()
        self.model.start = self.log.log_start_offset

    def delete_records(self) -> None:
        self.log.update_high_watermark(self.model.end)
        self.model.start = self.log.delete_records_before(self.random.randrange(self.model.start, self.model.end + 1))

    def truncate(self) -> None:
        target = self.random.randrange(self.model.start, self.model.end + 1)
        kept = [batch for batch in self.model.batches if batch[0] + len(batch[2]) <= target]
        target = kept[-1][0] + len(kept[-1][2]) if kept else 0  # at a batch's border, where leaders' epochs end
        if target < self.model.start:
            return  # nobody truncates below the log start, which is below the high watermark
        self.ends_allowed = {target}
        self.model.durable = min(self.model.durable, target)
        self.manager.truncate_to(self.log, target, now_ms=self.now_ms)
        self.ends_allowed = set()
        self.model.batches = kept
        self.resume_producer()

    def roll(self) -> None:
        if self.log.local.files_exist:
            self.log.roll(self.now_ms)

    def read_back(self) -> None:
        self.check(exact=True)

    # Deaths

    def restart(self) -> None:
        for _ in self.manager.close_logs():
            pass
        self.manager.finish_shutdown()
        self.machine.power_off()  # A clean shutdown promises that power may go.
        self.open()
        self.check(exact=True)
        self.model.durable = self.model.end

    def crash(self) -> None:
        """Die at some later call of the disk."""
        self.machine.node.die_after_calls(self.random.randrange(60), power_lost=False)

    def died(self) -> None:
        """The process is gone, perhaps with the power; start again, perhaps dying in the middle of that too.

        A truncation that a kill interrupts is not durable, and nobody was told that it is: until the next flush a
        loss of power may bring back what was cut.
        """
        was_truncating = bool(self.ends_allowed)
        while True:
            with contextlib.suppress(NodeDied):
                self.manager.release()  # What the kernel does for a dead process.
            power_lost = self.random.random() < 0.5
            (self.machine.power_off if power_lost else self.machine.kill)()
            if self.random.random() < 0.3:
                self.machine.node.die_after_calls(self.random.randrange(120), power_lost=False)
            try:
                self.open()
                self.machine.node.die_after_calls(10**9, power_lost=False)
                self.check(exact=False, power_lost=power_lost)
                if was_truncating:
                    self.log.flush()
                return
            except NodeDied:
                self.settle(power_lost)

    def settle(self, power_lost: bool) -> None:
        """Died while starting: what one power loss may take, the next start must not be asked for."""
        self.lost_power = self.lost_power or power_lost

    # Checks

    def found(self) -> list[Batch]:
        log = self.log
        found: list[Batch] = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            data = log.read(offset, self.random.choice([1, 500, 1 << 20]), min_one_message=True).read()
            assert data, f"nothing at {offset} of {log.log_start_offset}..{log.log_end_offset}"
            for batch in batches(data, partial_tail=True):
                batch.verify_crc()
                found.append(
                    (batch.base_offset, batch.partition_leader_epoch, tuple(record.value for record in batch.records()))
                )
                offset = batch.next_offset
        return found

    def check(self, *, exact: bool, power_lost: bool = False) -> None:
        log, model = self.log, self.model
        assert log.log_start_offset <= log.high_watermark <= log.log_end_offset
        power_lost = power_lost or self.lost_power
        self.lost_power = False
        expected = [batch for batch in model.batches if batch[0] + len(batch[2]) > log.log_start_offset]
        found = self.found()
        if exact:
            assert found == expected
        else:
            self.check_survivors(found, expected, power_lost)
        for epoch in {batch[1] for batch in found}:
            starts = [batch[0] for batch in found if batch[1] > epoch]
            assert log.end_offset_for_epoch(epoch).offset == (min(starts) if starts else log.log_end_offset), (
                epoch,
                log.leader_epoch_cache.entries,
                found,
            )
        self.resume_producer()

    def check_survivors(self, found: list[Batch], expected: list[Batch], power_lost: bool) -> None:
        log, model = self.log, self.model
        possible = [*expected, self.pending] if self.pending is not None else expected
        if power_lost and found and found[0][0] >= model.durable:
            # The first segments may be lost, as long as nothing is missing between the others.
            possible = possible[[batch[0] for batch in possible].index(found[0][0]) :]
        assert found == possible[: len(found)], (found, possible)
        least = min(model.durable if power_lost else model.end, *self.ends_allowed, model.end)
        assert log.log_end_offset >= least, f"{log.log_end_offset} < {least}: {log.load_report}"
        model.batches = [
            batch for batch in model.batches if batch[0] + len(batch[2]) <= log.log_start_offset and batch not in found
        ] + found
        model.start = log.log_start_offset
        model.durable = min(model.durable, model.end) if model.batches else model.start
        self.pending = None
        self.ends_allowed = set()

    def resume_producer(self) -> None:
        """The producer may go on exactly where its last surviving batch ended.

        One that is not known any more begins a new epoch (KIP-360). It never numbers other records as it numbered
        earlier ones: whether the log still remembers batches from before its start depends on which snapshots there
        are, in Apache Kafka too.
        """
        entry = self.log.producers.producers.get(7) if self.log.has_producers else None
        if entry is not None:
            self.producer_epoch, self.sequence = entry.producer_epoch, entry.last_sequence + 1
        elif self.sequence:
            self.producer_epoch, self.sequence = self.producer_epoch + 1, 0


def run_life(seed: int, steps: int) -> StorageMachine:
    """`steps` random operations from `seed`, with every death that comes."""
    machine = StorageMachine(seed)
    for _ in range(steps):
        try:
            machine.step()
        except NodeDied:
            machine.died()
        except ApiError as problem:
            raise AssertionError(f"seed {seed}: {problem}") from problem
    machine.machine.node.die_after_calls(10**9, power_lost=False)
    machine.check(exact=True)
    return machine
