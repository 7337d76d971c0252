"""The moment in which a copy takes its original's place: what was durable stays so, and a disk that fails just then
loses nothing."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from kraft.common.ids import TopicPartition
from kraft.replication.logs.loading import load_logs
from kraft.world.simulated import Universe
from kraft.world.simulated.disk import Fault
from kraft.world.simulated.files import SimulatedFileSystem
from tests.unit.replication.logs.log_dir_moves import FIRST, SECOND, mover
from tests.unit.server.brokers import Broker, batch, simulate


def test_records_durable_before_a_swap_are_durable_after_it() -> None:
    async def play(universe: Universe) -> None:
        async with mover(universe) as it:
            await it.copied(universe, b"a")
            seen: list[tuple[int, int]] = []
            promote = it.made.logs.futures.promote

            def promoting(log: Any, future: Any, *arguments: Any, **named: Any) -> None:
                seen.append((log.recovery_point, future.recovery_point))
                promote(log, future, *arguments, **named)

            it.made.logs.futures.promote = promoting  # type: ignore[method-assign]
            it.silent = False
            for _ in range(200):
                it.write(b"b")
                partition = it.made.partition("t")
                await it.made.replicas.flush(partition)
                await universe.sleep(0.001)
            ((before, after),) = seen
            assert after >= before > 1

    simulate(play)


def test_a_copy_waits_for_an_append_in_progress_without_blocking_other_tasks() -> None:
    async def play(universe: Universe) -> None:
        async with mover(universe) as it:
            await it.copied(universe, b"a")
            partition, writer = it.made.partition("t"), it.made.replicas.writer
            log, is_busy, asked = partition.log, writer.is_busy, list[bool]()

            def counted(log: Any) -> bool:
                asked.append(is_busy(log))
                assert len(asked) < 1000, "tried again without a pause, in which the append could end"
                return asked[-1]

            writer.is_busy = counted  # type: ignore[method-assign]
            pending = log.decide_as_leader(
                memoryview(batch(b"b")), partition.leader_epoch, it.made.world.clock.wall_ms()
            )
            log.begin_append(pending)
            it.silent = False
            await universe.sleep(0.5)
            assert it.at == f"{FIRST}/t-0"
            assert asked
            assert all(asked)
            pending.write()
            pending.settle()
            log.finish_append(pending)
            await universe.sleep(0.5)
            assert (it.at, it.made.partition("t").log.log_end_offset) == (f"{SECOND}/t-0", 2)

    simulate(play)


@pytest.mark.parametrize(
    ("operation", "within"),
    [("sync_directory", FIRST), ("sync_directory", SECOND), ("rename", FIRST), ("rename", SECOND)],
)
def test_a_disk_that_fails_during_the_swap_leaves_the_original_log_in_place(operation: str, within: str) -> None:
    async def play(universe: Universe) -> None:
        async with mover(universe) as it:
            await it.copied(universe, b"a")
            universe.disk("broker").faults = [Fault(operation, errno.EIO, within, times=1)]
            it.silent = False
            await universe.sleep(0.5)
            failed = 0 if within == FIRST else 1
            assert [directory.is_online for directory in it.made.logs.directories] == [failed != 0, failed != 1]
            assert it.made.world.files.exists(f"{FIRST}/t-0")
            assert not [name for name in it.made.world.files.list_directory(FIRST) if name.endswith("-delete")]
            if failed == 1:
                assert it.at == f"{FIRST}/t-0"
                it.write(b"b")

    simulate(play)


def test_a_log_keeps_its_name_when_the_swap_of_its_copy_cannot_be_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It went on under the name of one to be deleted, and the next start took the copy, which lacked what had been
    written since."""

    async def play(universe: Universe) -> None:
        async with mover(universe) as it:
            await it.copied(universe, b"a")
            universe.disk("broker").faults = [Fault("sync_directory", errno.EIO, SECOND)]
            rename = SimulatedFileSystem.rename

            def renamed(files: SimulatedFileSystem, source: str, target: str) -> None:
                if source == f"{SECOND}/t-0":
                    raise OSError(errno.EROFS, "read-only", source)
                rename(files, source, target)

            monkeypatch.setattr(SimulatedFileSystem, "rename", renamed)
            it.silent = False
            await universe.sleep(0.5)
            assert it.at == f"{FIRST}/t-0"
            it.write(b"b")
            await it.made.replicas.flush(it.made.partition("t"))
        universe.power_off("broker")
        world = universe.world_for("broker")
        world.files.make_directories(f"{SECOND}/t-0")  # As the journal may have had it.
        fresh = Broker(world, it.made.server._nursery, (FIRST, SECOND))
        fresh.logs.open(None)
        await load_logs(fresh.logs, world, lambda name: bytes(15) + b"\x01")
        log = fresh.logs.get(TopicPartition("t", 0))
        assert log is not None
        assert (log.directory, log.log_end_offset) == (f"{FIRST}/t-0", 2)
        fresh.logs.release()

    simulate(play)


def test_a_transient_error_during_a_swap_takes_no_directory_offline() -> None:
    async def play(universe: Universe) -> None:
        async with mover(universe) as it:
            await it.copied(universe, b"a")
            universe.disk("broker").faults = [Fault("sync_directory", errno.EMFILE, SECOND, times=1)]
            it.silent = False
            await universe.sleep(0.5)
            assert len(it.made.logs.online()) == 2
            assert await it.described() == [(FIRST, False, 0)]

    simulate(play)


def test_a_swap_that_cannot_be_undone_is_resolved_at_the_next_start() -> None:
    async def play(universe: Universe) -> None:
        async with mover(universe) as it:
            await it.copied(universe, b"a")
            copy = it.made.replicas.directories.mover.moves()[0].future.directory
            universe.disk("broker").faults = [
                Fault("sync_directory", errno.EIO, FIRST),
                Fault("rename", errno.EROFS, "-delete"),
            ]
            it.silent = False
            await universe.sleep(0.5)
            universe.disk("broker").faults = []
            job = it.made.logs.due_deletions(it.made.world.clock.wall_ms() + 120_000)
            if job is not None:
                job.run()
            assert it.made.world.files.exists(copy)
            fresh = Broker(it.made.world, it.made.server._nursery, (FIRST, SECOND))
            fresh.logs.futures.finish_moves(0)
            assert it.made.world.files.exists(f"{SECOND}/t-0")

    simulate(play)
