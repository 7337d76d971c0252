"""A replica that moves between log directories, interrupted at any moment by kill -9, loss of power or a good
shutdown, arrives as it is.

Law: after any number of interruptions the replica is where it was to go, with exactly the batches and epochs that
its log has, and nothing is left of copies. Between two lives the log may lose its end and go on otherwise; what a
copy has of that must not stay in it. What a loss of power left of a log that was never synced may have lost its
topic's id, and is set aside; of a synced one, nothing is.
"""

from __future__ import annotations

import os
import random
from collections.abc import Awaitable, Callable

import trio

from kraft.common.ids import TopicPartition
from kraft.metadata.records.config_record import ConfigRecord
from kraft.metadata.records.partition_record import PartitionRecord
from kraft.metadata.records.topic_record import TopicRecord
from kraft.storage.checkpoints import read_offset_checkpoint
from kraft.storage.directories.future_logs import agreed_end
from kraft.storage.directories.log_directory import LogDirectory
from kraft.storage.log_files import RECOVERY_POINT_CHECKPOINT, STRAY_DIRECTORY_SUFFIX, is_marked_directory
from kraft.storage.unified_log import UnifiedLog
from kraft.world.simulated import SimulatedWorld, Universe
from tests.unit.replication.logs.log_dir_moves import FIRST, SECOND, Mover
from tests.unit.server.brokers import NODE, UNASSIGNED, Broker, batch

SEEDS = 400 if os.environ.get("KRAFT_SOAK") == "1" else 40
TOPIC = b"t" * 16
RATE = 1_000
"""Bytes a second: a log of 2 to 20 KB takes some seconds."""


class Lives:
    """One replica through several lives of its broker."""

    def __init__(self, seed: int) -> None:
        self.universe = Universe(seed)
        self.chance = random.Random(seed)
        self.epoch = 0
        self.serial = 0
        self.resumed: list[int] = []
        self.arrived = False

    async def live(self, life: Callable[[Mover], Awaitable[None]]) -> None:
        """Until `life` ends or the broker dies."""
        world = self.universe.world_for("broker")

        async def body(_: SimulatedWorld) -> None:
            async with trio.open_nursery() as nursery:
                made = Broker(
                    world, nursery, (FIRST, SECOND), [f"replica.alter.log.dirs.io.max.bytes.per.second={RATE}"]
                )
                self.check_what_is_set_aside(made)
                made.start()
                self.damage(made)
                for service in (
                    made.replicas.flusher.run,
                    made.replicas.writer.run,
                    made.replicas.directories.mover.run,
                ):
                    nursery.start_soon(service)
                nursery.start_soon(made.replicas.directories.assignments.run, made.controller, lambda: 7)
                it = Mover(made)
                self.epoch += 1
                made.publish(
                    made.register(),
                    made.register(2),
                    TopicRecord(name="t", topic_id=TOPIC),
                    PartitionRecord(
                        partition_id=0,
                        topic_id=TOPIC,
                        replicas=[NODE, 2],
                        isr=[NODE, 2],
                        leader=NODE,
                        leader_epoch=self.epoch,
                        directories=[UNASSIGNED] * 2,
                    ),
                    ConfigRecord(resource_type=2, resource_name="t", name="segment.bytes", value="1500"),
                )
                self.resumed += [move.future.log_end_offset for move in made.replicas.directories.mover.moves()]
                self.check_promotions(made)
                nursery.start_soon(made.server.log_tasks.checkpoint_recovery_points)
                await life(it)
                nursery.cancel_scope.cancel()

        if await self.universe.live(world, body):
            self.universe.kill("broker")  # The process is over; the next is another.

    def check_what_is_set_aside(self, made: Broker) -> None:
        """Nothing that was synced: a new log takes its place, and begins with what others have."""
        files, set_aside = made.world.files, made.logs.set_aside_stray
        synced = [
            offset
            for path in (FIRST, SECOND)
            for offset in read_offset_checkpoint(files, f"{path}/{RECOVERY_POINT_CHECKPOINT}").values()
        ]

        def setting_aside(topic_partition: TopicPartition, *, now_ms: int) -> None:
            assert not any(synced)
            set_aside(topic_partition, now_ms=now_ms)

        made.logs.set_aside_stray = setting_aside  # type: ignore[method-assign]

    def check_promotions(self, made: Broker) -> None:
        """When a copy takes its log's place, it has what that has."""
        promote = made.logs.futures.promote

        def promoting(
            log: UnifiedLog, future: UnifiedLog, source: LogDirectory, target: LogDirectory, *, now_ms: int
        ) -> None:
            start = log.log_start_offset
            assert future.log_end_offset == log.log_end_offset
            assert future.read(start, 1 << 30).read() == log.read(start, 1 << 30).read()
            assert _written(future) == _written(log)
            promote(log, future, source, target, now_ms=now_ms)

        made.logs.futures.promote = promoting  # type: ignore[method-assign]

    def damage(self, made: Broker) -> None:
        """The log lost its end, as by a truncation to a leader that had less."""
        for log in made.logs.logs():
            if log.log_end_offset and self.chance.random() < 0.4:
                made.logs.truncate_to(log, self.chance.randrange(log.log_end_offset), now_ms=0)

    def write(self, it: Mover, count: int) -> None:
        now = it.made.world.clock.wall_ms()
        for _ in range(count):
            self.serial += 1
            value = b"%d " % self.serial * self.chance.randrange(1, 300)
            it.made.partition("t").append(memoryview(batch(value, timestamp_ms=now)), 1, now, 0)

    async def interrupted(self, it: Mover) -> None:
        """It is moving, and written to now and then."""
        self.write(it, self.chance.randrange(5, 40))
        if not it.made.replicas.directories.mover.moves():
            await it.move(SECOND)
        if self.chance.random() < 0.7:
            self.universe.kill_after_calls(
                "broker", self.chance.randrange(1, 400), power_lost=self.chance.random() < 0.5
            )
        for _ in range(self.chance.randrange(1, 40)):
            await it.made.world.clock.sleep(0.1)
            if self.chance.random() < 0.1:
                self.write(it, 1)
            if self.chance.random() < 0.1:
                await it.made.server.log_tasks.checkpoint_recovery_points()
        list(it.made.logs.close_logs())
        it.made.logs.finish_shutdown(1)

    async def to_its_end(self, it: Mover) -> None:
        if not it.made.replicas.directories.mover.moves() and it.made.logs.logs():
            await it.move(SECOND)
        self.write(it, 3)
        for _ in range(600):
            await it.made.world.clock.sleep(0.1)
            if it.at == f"{SECOND}/t-0" and not it.made.replicas.directories.mover.moves():
                break
        await it.made.world.clock.sleep(120)
        while (job := it.made.logs.due_deletions(it.made.world.clock.wall_ms())) is not None:
            job.run()
        names = [
            name
            for path in (FIRST, SECOND)
            for name in it.made.world.files.list_directory(path)
            if is_of_the_replica(name)
        ]
        assert (it.at, names) == (f"{SECOND}/t-0", ["t-0"])
        self.arrived = True


def is_of_the_replica(name: str) -> bool:
    return "t-0" in name and not is_marked_directory(name, STRAY_DIRECTORY_SUFFIX)


def _written(log: UnifiedLog) -> list[int]:
    """The epochs in which something was written."""
    entries = log.leader_epoch_cache.entries
    ends = [*(start for _, start in entries[1:]), log.log_end_offset]
    return [epoch for (epoch, start), end in zip(entries, ends, strict=True) if start < end]


def run(seed: int) -> list[int]:
    """Offsets from which moves were resumed."""
    lives = Lives(seed)

    async def main(_: Universe) -> None:
        for _ in range(lives.chance.randrange(1, 4)):
            await lives.live(lives.interrupted)
        await lives.live(lives.to_its_end)

    lives.universe.run(main)
    assert lives.arrived, seed
    return lives.resumed


def test_a_move_interrupted_at_any_step_completes_with_the_content_of_the_log() -> None:
    resumed = [offset for seed in range(SEEDS) for offset in run(seed)]
    assert sum(offset > 0 for offset in resumed) > SEEDS // 4, "most go on from what was copied"


def test_log_copies_agree_where_both_were_written_in_the_same_epoch() -> None:
    log, end = [(1, 0), (3, 10), (5, 20)], 30
    assert agreed_end(log, end, [(1, 0), (3, 10), (5, 20)], 25) == 25
    assert agreed_end(log, end, [(1, 0), (3, 10), (5, 20)], 40) == 30
    assert agreed_end(log, end, [(1, 0), (3, 10), (4, 15)], 40) == 15
    assert agreed_end(log, end, [(1, 0), (3, 10), (4, 25)], 40) == 20
    assert agreed_end(log, end, [(1, 0), (2, 5)], 40) == 5
    assert agreed_end(log, end, [(2, 0)], 40) == 0
    assert agreed_end(log, end, [], 0) == 0
    assert agreed_end([], 0, [(1, 0)], 4) == 0
    assert agreed_end([(3, 18), (5, 20)], 30, [(1, 0), (3, 10)], 15) == 0, "the log starts beyond what was copied"
