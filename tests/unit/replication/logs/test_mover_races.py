"""Moves that are given up while a step of theirs, or of another's, waits: nothing of them is touched any more, and
no disk is blamed for it."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from kraft.protocol.error_codes import ErrorCode
from kraft.replication.logs.mover import LogDirMove, LogDirMover
from kraft.storage.flush_state import FlushJob
from kraft.world.simulated import Universe
from kraft.world.simulated.disk import Fault
from kraft.world.simulated.threads import SimulatedThreads
from tests.unit.replication.logs.log_dir_moves import FIRST, SECOND, Mover, mover
from tests.unit.replication.logs.writing import produce
from tests.unit.server.brokers import batch, simulate


class PausedJob:
    """What is done in threads waits before it begins, once, when `wanted` says so of a job; `during` sees each
    before that."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        wanted: Callable[[Any], bool],
        during: Callable[[Any], None] = lambda job: None,
    ) -> None:
        self.waits, self.released = trio.Event(), trio.Event()
        run = SimulatedThreads.run

        async def held(threads: SimulatedThreads, job: Any, *arguments: Any) -> Any:
            owner = getattr(job, "__self__", None)
            during(owner)
            if not self.waits.is_set() and wanted(owner):
                self.waits.set()
                await self.released.wait()
            return await run(threads, job, *arguments)

        monkeypatch.setattr(SimulatedThreads, "run", held)


def flushes(owner: Any, path: str) -> bool:
    return isinstance(owner, FlushJob) and owner.epochs_path.startswith(path)


def grow_at_syncs(it: Mover, synced: list[bool], name: str, growing: list[str]) -> Callable[[Any], None]:
    """At each sync of the copy of `name`, which `synced` counts, the next of these logs grows: first little, then by
    so much that it is read in a thread."""

    def during(owner: Any) -> None:
        if flushes(owner, f"{SECOND}/{name}-0"):
            if len(synced) < len(growing):
                it.write(b"b" * (100_000 if synced else 10), topic=growing[len(synced)])
            synced.append(True)

    return during


def reads(owner: Any) -> bool:
    return type(owner).__name__ == "FetchData"


async def settle(universe: Universe, it: Mover) -> None:
    """What was given up is deleted, and then the mover goes on."""
    await universe.sleep(1.0)
    await it.made.server.log_tasks.delete_due()


def all_online(it: Mover) -> bool:
    return len(it.made.logs.online()) == 2


def with_mover(scene: Callable[[Universe, Mover], Awaitable[None]]) -> None:
    async def play(universe: Universe) -> None:
        async with mover(universe) as it:
            await scene(universe, it)

    simulate(play)


async def given_up_while_held(
    it: Mover, monkeypatch: pytest.MonkeyPatch, wanted: Callable[[Any, int], bool], growing: list[str]
) -> PausedJob:
    """Topics t and u move. While what `wanted` names waits, which is told how often the copy of u was synced, u is
    wanted where it was; `growing` logs grow."""
    for name in ("t", "x", "u"):
        it.made.topic(name)
    it.write(b"a" * 100)
    it.write(b"a" * 100, topic="u")
    synced: list[bool] = []
    held = PausedJob(monkeypatch, lambda job: wanted(job, len(synced)), grow_at_syncs(it, synced, "u", growing))
    await it.move(SECOND, "t")
    await it.move(SECOND, "u")
    await held.waits.wait()
    assert await it.move(FIRST, "u") == ErrorCode.NONE
    return held


def test_cancelling_one_move_while_another_waits_changes_only_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(universe: Universe, it: Mover) -> None:
        held = await given_up_while_held(
            it, monkeypatch, lambda job, synced: flushes(job, f"{SECOND}/t-0") and synced > 0, ["t"]
        )
        it.write(b"b" * 100, topic="u")
        await settle(universe, it)
        held.released.set()
        await universe.sleep(2.0)
        assert all_online(it)
        assert it.at == f"{SECOND}/t-0"
        assert it.made.partition("u").log.directory == f"{FIRST}/u-0"

    with_mover(scene)


def test_a_move_cancelled_just_before_its_swap_does_not_swap(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(universe: Universe, it: Mover) -> None:
        held = await given_up_while_held(it, monkeypatch, lambda job, synced: reads(job) and synced == 2, ["u", "t"])
        held.released.set()
        await universe.sleep(2.0)
        assert it.made.partition("u").log.directory == f"{FIRST}/u-0"
        assert it.at == f"{SECOND}/t-0", "the mover goes on"
        assert it.told[-1] in [(it.ids[SECOND], 0), (it.ids[FIRST], 0)]

    with_mover(scene)


def test_records_read_for_a_cancelled_copy_are_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(universe: Universe, it: Mover) -> None:
        it.made.topic("t")
        it.write(b"a")
        await universe.sleep(0.1)
        it.silent = True
        await it.move()
        await universe.sleep(0.5)
        held = PausedJob(monkeypatch, reads)
        it.write(b"c" * 100_000)
        await held.waits.wait()
        assert await it.move(FIRST) == ErrorCode.NONE
        await settle(universe, it)
        held.released.set()
        await universe.sleep(1.0)
        assert all_online(it)
        assert await it.described() == [(FIRST, False, 0)]

    with_mover(scene)


def test_a_failed_sync_of_a_cancelled_copy_stops_no_other_move(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(universe: Universe, it: Mover) -> None:
        it.made.topic("t")
        it.write(b"a")
        held = PausedJob(monkeypatch, lambda job: flushes(job, f"{SECOND}/t-0"))
        await it.move()
        await held.waits.wait()
        copy = it.made.replicas.directories.mover.moves()[0].future.directory
        assert await it.move(FIRST) == ErrorCode.NONE
        assert await it.move(SECOND) == ErrorCode.NONE
        universe.disk("broker").faults = [Fault("sync", errno.EIO, copy)]
        held.released.set()
        await universe.sleep(1.0)
        assert all_online(it)
        assert it.at == f"{SECOND}/t-0", "the move that came after it"

    with_mover(scene)


def test_a_replica_removed_during_the_last_copy_step_is_not_recreated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene(universe: Universe, it: Mover) -> None:
        topic_id = it.made.topic("t")
        it.write(b"a")
        synced: list[bool] = []
        held = PausedJob(
            monkeypatch, lambda job: reads(job) and len(synced) == 2, grow_at_syncs(it, synced, "t", ["t", "t"])
        )
        await it.move()
        await held.waits.wait()
        log = it.made.partition("t").log
        it.made.delete_topic(topic_id)
        held.released.set()
        await universe.sleep(1.0)
        assert it.made.logs.get(log.topic_partition) is None
        assert all_online(it)
        assert not it.made.replicas.directories.mover.moves()

    with_mover(scene)


def test_a_disk_goes_offline_when_a_copy_on_it_cannot_be_truncated() -> None:
    async def scene(universe: Universe, it: Mover) -> None:
        await it.copied(universe, b"a", b"b", b"c")
        universe.disk("broker").faults = [Fault("sync_directory", errno.EIO, SECOND)]
        it.made.logs.truncate_to(it.made.partition("t").log, 1, now_ms=it.made.world.clock.wall_ms())
        await universe.sleep(0.5)
        assert [directory.is_online for directory in it.made.logs.directories] == [True, False]
        assert it.at == f"{FIRST}/t-0"

    with_mover(scene)


def test_a_disk_goes_offline_when_a_copy_on_it_cannot_start_at_the_first_batch() -> None:
    async def scene(universe: Universe, it: Mover) -> None:
        it.made.topic("t")
        log = it.made.partition("t").log
        it.made.partition("t").append(memoryview(batch(b"a", b"b", b"c")), 1, it.made.world.clock.wall_ms(), 0)
        log.delete_records_before(2)
        await universe.sleep(0.1)
        universe.disk("broker").faults = [Fault("open", errno.EIO, "-future/00000000000000000000.log")]
        await it.move()
        await universe.sleep(0.5)
        assert [directory.is_online for directory in it.made.logs.directories] == [True, False]
        assert it.at == f"{FIRST}/t-0"

    with_mover(scene)


def test_a_copy_whose_flush_is_preempted_by_shutdown_is_durable_after_its_close() -> None:
    async def play(universe: Universe) -> None:
        async with mover(universe) as it:
            it.made.topic("t")
            it.write(b"v")
            await universe.sleep(0.1)
            it.made.replicas.directories.alter("t", 0, SECOND)
            (move,) = it.made.replicas.directories.mover.moves()
        assert move.future.log_end_offset == 1
        job = move.future.prepare_close()
        assert job is not None
        assert job.directories == [move.future.directory, SECOND]

    simulate(play)


def test_an_unexpected_exception_ends_one_move_and_other_moves_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(universe: Universe, it: Mover) -> None:
        copy = LogDirMover._copy

        async def faulty(mover: LogDirMover, move: LogDirMove) -> None:
            assert move.partition.topic != "t", "nobody foresaw it"
            await copy(mover, move)

        monkeypatch.setattr(LogDirMover, "_copy", faulty)
        for name in ("t", "x", "u"):
            it.made.topic(name)
        it.write(b"a")
        it.write(b"a", topic="u")
        await it.move(SECOND, "t")
        await it.move(SECOND, "u")
        await universe.sleep(2.0)
        assert it.made.partition("u").log.directory == f"{SECOND}/u-0"
        assert it.at == f"{FIRST}/t-0"
        assert it.made.replicas.directories.mover.moves() == []
        [failed] = it.made.replicas.set_aside.items()
        assert failed.item == "t-0"
        assert failed.error.startswith("AssertionError: nobody foresaw it")

    with_mover(scene)


def test_an_unexpected_exception_while_directories_are_assigned_does_not_end_the_loop() -> None:
    async def scene(universe: Universe, it: Mover) -> None:
        assign = it.made.controller.answers[73]
        faults = [AssertionError("an answer that nobody foresaw")]

        def answer(request: Any) -> Any:
            if faults:
                raise faults.pop()
            return assign(request)

        it.made.controller.answers[73] = answer
        it.made.topic("t")
        it.write(b"a")
        await it.move()
        await universe.sleep(2.0)
        assert it.at == f"{SECOND}/t-0"
        assert it.made.replicas.set_aside.failures == {"assignments of replicas to log directories": 1}
        assert it.made.replicas.set_aside.items() == []

    with_mover(scene)


def test_a_flush_during_a_move_is_durable_in_the_new_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Records are written at each sync of the copy, and are being synced themselves until it has taken over."""

    async def scene(universe: Universe, it: Mover) -> None:
        it.made.topic("t", flush_messages="1")
        await it.made.ask(produce(("t", b"a"), acks=1), 12)
        released, run = trio.Event(), SimulatedThreads.run
        left = [b"c", b"b"]
        missing: list[int] = []

        async def ask(value: bytes) -> None:
            answer = (await it.made.ask(produce(("t", value), acks=1), 12)).responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.NONE
            missing.append(max(answer.base_offset + 1 - it.made.partition("t").log.recovery_point, 0))

        async def held(threads: SimulatedThreads, job: Any, *arguments: Any) -> Any:
            if left and flushes(getattr(job, "__self__", None), f"{SECOND}/t-0"):
                nursery.start_soon(ask, left.pop())
                await universe.sleep(0.1)
            if job.__name__ == "_run_all":
                await released.wait()
                if arguments[0][0].epochs_path.startswith(SECOND):
                    await universe.sleep(1.0)
            return await run(threads, job, *arguments)

        monkeypatch.setattr(SimulatedThreads, "run", held)
        async with trio.open_nursery() as nursery:
            await it.move()
            await universe.sleep(2.0)
            assert it.at == f"{SECOND}/t-0"
            released.set()
        assert missing == [0, 0]

    with_mover(scene)
