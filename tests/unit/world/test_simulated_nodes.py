"""Lives and deaths of simulated nodes: what a crash takes, what pausing stops, what clocks do."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import pytest
import trio

from kraft.world.simulated import NodeDied, SimulatedWorld, SimulationTimeout, Universe
from tests.unit.world.simulated_pair import simulate


async def idle(world: SimulatedWorld) -> None:
    await world.clock.sleep_until(math.inf)


def test_real_time_does_not_pass_in_a_simulation() -> None:
    async def fate(universe: Universe) -> None:
        world = universe.world_for(1)
        start = world.clock.now()
        await world.clock.sleep(5000)
        assert 5000 <= world.clock.now() - start < 5000.01

    simulate(fate)


def test_a_spinning_task_sees_time_pass() -> None:
    async def fate(universe: Universe) -> None:
        clock = universe.world_for(1).clock
        deadline = clock.now() + 100e-6
        turns = 0
        while clock.now() < deadline:
            await trio.lowlevel.checkpoint()
            turns += 1
        assert 50 < turns < 200

    simulate(fate)


def test_a_simulation_without_progress_ends_at_its_limit() -> None:
    async def fate(universe: Universe) -> None:
        await trio.Event().wait()

    with pytest.raises(SimulationTimeout):
        simulate(fate)


def test_an_error_of_the_simulated_body_is_raised_to_the_caller() -> None:
    async def fate(universe: Universe) -> None:
        await universe.sleep(1)
        raise ValueError("body")

    with pytest.raises(ValueError, match="body"):
        simulate(fate)


def test_clocks_of_nodes_drift_apart() -> None:
    async def fate(universe: Universe) -> None:
        slow, fast = universe.world_for("slow"), universe.world_for("fast")
        universe.set_speed("slow", 0.5)
        universe.set_speed("fast", 2.0)
        began = [world.clock.now() for world in (slow, fast)]
        wall = [world.clock.wall_ms() for world in (slow, fast)]
        await universe.sleep(10)
        assert slow.clock.now() - began[0] == pytest.approx(5, abs=1e-3)
        assert fast.clock.now() - began[1] == pytest.approx(20, abs=1e-3)
        assert fast.clock.wall_ms() - wall[1] == pytest.approx(20_000, abs=2)
        universe.jump_wall("fast", -3_600_000)
        assert fast.clock.wall_ms() - wall[1] == pytest.approx(20_000 - 3_600_000, abs=2)

    simulate(fate)


def test_wall_clocks_agree_unless_a_fault_changes_them() -> None:
    async def fate(universe: Universe) -> None:
        await universe.sleep(77)
        first = universe.world_for(1)
        await universe.sleep(10)
        assert first.clock.wall_ms() == pytest.approx(universe.world_for(2).clock.wall_ms(), abs=1)
        assert first.clock.wall_ms() == pytest.approx(1_767_225_600_000 + 87_000, abs=1)
        assert abs(first.clock.now() - universe.world_for(2).clock.now()) > 1, "monotonic clocks begin anywhere"

    simulate(fate)


def test_a_sleep_follows_its_clock_when_the_clock_rate_changes() -> None:
    async def fate(universe: Universe) -> None:
        world = universe.world_for(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.clock.sleep, 10)
            await universe.sleep(5)
            universe.set_speed(1, 0.0)
            await universe.sleep(100)
            universe.set_speed(1, 0.5)
            began = universe.time.now
        assert universe.time.now - began == pytest.approx(10, abs=1e-3)

    simulate(fate)


def test_a_paused_node_does_nothing_until_it_resumes() -> None:
    ticks: list[float] = []

    async def ticking(world: SimulatedWorld) -> None:
        while True:
            await world.clock.sleep(1)
            ticks.append(world.clock.now())

    async def fate(universe: Universe) -> None:
        world = universe.world_for(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ticking, world)
            await universe.sleep(5.5)
            universe.pause(1)
            before = world.clock.now()
            await universe.sleep(100)
            assert len(ticks) == 5
            universe.resume(1)
            await universe.sleep(0.1)
            assert len(ticks) == 6
            assert ticks[-1] - before == pytest.approx(100, abs=0.01), "its clock went on, as under SIGSTOP"
            nursery.cancel_scope.cancel()

    simulate(fate)


def test_jobs_and_connections_of_a_paused_node_wait_too() -> None:
    done: list[str] = []

    async def working(world: SimulatedWorld) -> None:
        await world.threads.run(lambda: None)
        done.append("thread")

    async def accepting(world: SimulatedWorld) -> None:
        listener = await world.network.listen("", 9)
        await listener.accept()
        done.append("accept")

    async def fate(universe: Universe) -> None:
        world = universe.world_for(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(working, world)
            nursery.start_soon(accepting, world)
            await universe.sleep(5e-6)
            universe.pause(1)
            await universe.sleep(1)
            await universe.world_for(2).network.connect("node-1", 9)
            await universe.sleep(1)
            assert done == []
            universe.resume(1)
        assert sorted(done) == ["accept", "thread"]

    simulate(fate)


@pytest.mark.parametrize("power", [False, True])
def test_every_port_of_a_dead_node_is_closed(power: bool) -> None:
    async def fate(universe: Universe) -> None:
        world = universe.world_for(1)
        file = world.files.open("/f", create=True)
        listener = await world.network.listen("", 9)
        near = await world.network.connect("localhost", 9)
        far = await listener.accept()
        (universe.power_off if power else universe.kill)(1)
        for call in (
            lambda: world.clock.now(),
            lambda: world.clock.wall_ms(),
            lambda: world.clock.move_on_after(1),
            lambda: world.random.stream("a"),
            lambda: world.random.uuid("a"),
            lambda: world.files.exists("/f"),
            lambda: world.log_sink({"event": "late"}),
            lambda: file.append([b"late"]),
            lambda: file.sync(),
            lambda: near.send_nowait([b"late"]),
            lambda: far.receive_nowait(memoryview(bytearray(1))),
        ):
            with pytest.raises(NodeDied):
                call()
        for wait in (
            lambda: world.clock.sleep(1),
            listener.accept,
            far.wait_readable,
            lambda: world.threads.run(len, ""),
        ):
            with pytest.raises(NodeDied):
                await wait()
        file.close()
        near.close()
        listener.close()

    simulate(fate)


def test_the_death_of_a_node_cancels_every_waiting_task_even_a_shielded_one() -> None:
    reached: list[str] = []

    async def shielded(world: SimulatedWorld, wait: Callable[[], Awaitable[object]], name: str) -> None:
        try:
            with trio.CancelScope(shield=True):
                await wait()
        except NodeDied:
            reached.append(name)
            raise

    async def body(world: SimulatedWorld) -> None:
        listener = await world.network.listen("", 9)
        near = await world.network.connect("localhost", 9)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(shielded, world, near.wait_readable, "reader")
            nursery.start_soon(shielded, world, lambda: world.clock.sleep(1e6), "sleeper")
            await (await listener.accept()).wait_readable()

    async def fate(universe: Universe) -> None:
        async with trio.open_nursery() as nursery:
            lived: list[bool] = []

            async def run() -> None:
                lived.append(await universe.live(universe.world_for(1), body))

            nursery.start_soon(run)
            await universe.sleep(1)
            universe.kill(1)
        assert lived == [False]

    simulate(fate)
    assert sorted(reached) == ["reader", "sleeper"]


def test_the_cleanup_of_a_dying_node_cannot_write() -> None:
    async def body(world: SimulatedWorld) -> None:
        file = world.files.open("/f", create=True)
        try:
            await idle(world)
        finally:
            file.append([b"polite"])
            file.sync()

    async def fate(universe: Universe) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(universe.live, universe.world_for(1), body)
            await universe.sleep(1)
            universe.kill(1)
        assert universe.world_for(1).files.status("/f").size == 0

    simulate(fate)


def test_an_exception_of_a_living_node_is_not_swallowed() -> None:
    async def body(world: SimulatedWorld) -> None:
        raise ValueError("defect")

    async def fate(universe: Universe) -> None:
        with pytest.raises(ValueError, match="defect"):
            await universe.live(universe.world_for(1), body)
        assert await universe.live(universe.world_for(1), lambda world: world.clock.sleep(1))

    simulate(fate)


def test_a_killed_process_loses_no_bytes_handed_to_the_kernel() -> None:
    async def fate(universe: Universe) -> None:
        universe.world_for(1).files.open("/f", create=True).append([b"unsynced"])
        universe.kill(1)
        assert universe.world_for(1).files.open("/f").pread(99, 0) == b"unsynced"

    for seed in range(20):
        simulate(fate, seed)


def test_a_power_loss_may_lose_unsynced_bytes() -> None:
    left: list[bytes | None] = []

    async def fate(universe: Universe) -> None:
        files = universe.world_for(1).files
        files.open("/f", create=True).append([b"unsynced"])
        files.open("/kept", create=True).append([b"synced"])
        files.open("/kept").sync()
        files.sync_directory("/")
        universe.power_off(1)
        files = universe.world_for(1).files
        assert files.open("/kept").pread(99, 0) == b"synced"
        left.append(files.open("/f").pread(99, 0))

    for seed in range(60):
        simulate(fate, seed)
    assert b"" in left
    assert b"unsynced" in left
    assert any(each not in (b"", b"unsynced") for each in left), "torn"


def test_an_unsynced_file_name_may_be_lost_with_its_synced_content() -> None:
    found: list[bool] = []

    async def fate(universe: Universe) -> None:
        files = universe.world_for(1).files
        files.open("/f", create=True).append([b"x"])
        files.open("/f").sync()
        universe.power_off(1)
        found.append(universe.world_for(1).files.exists("/f"))

    for seed in range(30):
        simulate(fate, seed)
    assert set(found) == {True, False}


def test_a_planned_death_can_occur_between_two_file_calls_of_a_thread() -> None:
    sizes: list[int] = []

    def write_three(file: object) -> None:
        for _ in range(3):
            file.append([b"x"])  # type: ignore[attr-defined]  # A File.

    async def body(world: SimulatedWorld) -> None:
        await world.threads.run(write_three, world.files.open("/f", create=True))
        raise AssertionError("a job of a dead node must not complete")

    async def fate(universe: Universe) -> None:
        world = universe.world_for(1)
        universe.kill_after_calls(1, 4)  # open, thread, and two appends.
        assert not await universe.live(world, body)
        sizes.append(universe.world_for(1).files.status("/f").size)

    simulate(fate)
    assert sizes == [2]


def test_a_job_running_at_a_nodes_death_never_completes() -> None:
    async def body(world: SimulatedWorld) -> None:
        await world.threads.run(lambda: world.files.open("/f", create=True).append([b"x"]))
        raise AssertionError("a job of a dead node must not complete")

    async def fate(universe: Universe) -> None:
        universe.time.call_after(1e-6, lambda: universe.kill(1))
        assert not await universe.live(universe.world_for(1), body)

    simulate(fate)


def test_a_cancelled_job_is_waited_for_like_a_real_thread() -> None:
    async def fate(universe: Universe) -> None:
        world = universe.world_for(1)
        with trio.CancelScope() as scope:
            scope.cancel()
            assert await world.threads.run(lambda: 5) == 5

    simulate(fate)


def test_a_lock_is_released_when_the_process_that_held_it_dies() -> None:
    async def fate(universe: Universe) -> None:
        held = universe.world_for(1).files.lock("/lock")
        held.__enter__()
        with pytest.raises(BlockingIOError), universe.world_for(1).files.lock("/lock"):
            pass
        universe.kill(1)
        with universe.world_for(1).files.lock("/lock"):
            pass

    simulate(fate)


def test_each_process_draws_from_its_own_random_streams() -> None:
    drawn: list[float] = []

    async def fate(universe: Universe) -> None:
        drawn.extend(universe.world_for(name).random.stream("a").random() for name in (1, 2))
        universe.kill(1)
        drawn.append(universe.world_for(1).random.stream("a").random())

    simulate(fate, 1)
    first = list(drawn)
    drawn.clear()
    simulate(fate, 1)
    assert drawn == first
    assert len(set(first)) == 3


def test_cancelled_timers_are_removed_from_the_heap() -> None:
    async def fate(universe: Universe) -> None:
        world = universe.world_for(1)
        for _ in range(20_000):
            with world.clock.move_on_after(1e6):
                pass
        assert len(universe.time._heap) < 10_000

    simulate(fate)
