"""What every world owes its nodes, as test classes that each world inherits: the real one and the simulated one pass
the same lines."""

from __future__ import annotations

import math

import pytest
import trio

from kraft.world.ports import WorkFailed, World
from tests.unit.world.files_contract import FilesContract
from tests.unit.world.harness import Harness
from tests.unit.world.network_contract import NetworkContract
from tests.unit.world.objects_contract import ObjectsContract
from tests.unit.world.works import fail, take_time, write_and_tell


class ClockContract:
    def test_a_sleep_takes_the_requested_time(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            start = world.clock.now()
            await world.clock.sleep(0.02)
            assert world.clock.now() >= start + 0.02
            await world.clock.sleep_until(start + 0.04)
            assert world.clock.now() >= start + 0.04
            await world.clock.sleep_until(start)
            await world.clock.sleep(-1)

        harness.run(body)

    def test_the_wall_clock_moves_with_time(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            before = world.clock.wall_ms()
            await world.clock.sleep(0.02)
            assert world.clock.wall_ms() >= before + 15

        harness.run(body)

    def test_a_deadline_cancels_only_its_own_body(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            with world.clock.move_on_after(0.01) as scope:
                await world.clock.sleep_until(math.inf)
            assert scope.cancelled_caught
            with world.clock.move_on_at(world.clock.now() + 10) as scope:
                await world.clock.sleep(0.001)
            assert not scope.cancelled_caught
            with world.clock.move_on_at(math.inf) as scope:
                await world.clock.sleep(0.001)
            assert not scope.cancelled_caught
            with world.clock.move_on_at(world.clock.now() - 1) as scope:
                await world.clock.sleep(1)
            assert scope.cancelled_caught
            with world.clock.move_on_after(math.inf) as scope:
                scope.cancel()
                await world.clock.sleep(1)
            assert scope.cancelled_caught

        harness.run(body)

    def test_nested_deadlines_expire_in_order(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            with world.clock.move_on_after(10) as outer:
                with world.clock.move_on_after(0.01) as inner:
                    await world.clock.sleep(5)
                assert inner.cancelled_caught
            assert not outer.cancelled_caught

        harness.run(body)


class ThreadsContract:
    def test_a_function_run_in_a_thread_returns_its_result_or_error(self, harness: Harness) -> None:
        def divide(left: int, right: int) -> int:
            return left // right

        async def body(world: World) -> None:
            assert await world.threads.run(divide, 7, 2) == 3
            with pytest.raises(ZeroDivisionError):
                await world.threads.run(divide, 1, 0)

        harness.run(body)

    def test_no_job_starts_for_a_cancelled_task(self, harness: Harness) -> None:
        done: list[int] = []

        async def body(world: World) -> None:
            with trio.CancelScope() as scope:
                scope.cancel()
                await world.threads.run(done.append, 1)
            assert scope.cancelled_caught

        harness.run(body)
        assert not done

    def test_other_tasks_run_while_a_thread_runs(self, harness: Harness) -> None:
        results: list[int] = []

        async def job(world: World, number: int) -> None:
            results.append(await world.threads.run(lambda: number))

        async def body(world: World) -> None:
            async with trio.open_nursery() as nursery:
                for number in range(40):
                    nursery.start_soon(job, world, number)

        harness.run(body)
        assert sorted(results) == list(range(40))


class RandomnessContract:
    def test_each_purpose_has_its_own_random_stream(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            assert world.random.stream("a") is world.random.stream("a")
            assert world.random.stream("a").random() != world.random.stream("b").random()

        harness.run(body)

    def test_uuids_are_version_four_and_never_start_with_a_dash(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            made = [world.random.uuid("topic") for _ in range(300)]
            assert len(set(made)) == 300
            for raw in made:
                assert (len(raw), raw[6] >> 4, raw[8] >> 6) == (16, 4, 2)
                assert not 0xF8 <= raw[0] < 0xFC

        harness.run(body)


class WatchedSteps:
    def __init__(self) -> None:
        self.told: list[tuple[str, float]] = []
        self.idle_seconds = 0.0

    def long_step(self, task: str, seconds: float) -> None:
        self.told.append((task, seconds))


class LoopContract:
    def test_short_steps_are_not_reported(self, harness: Harness) -> None:
        watched = WatchedSteps()

        async def body(world: World) -> None:
            with world.loop.watch(watched):
                await world.clock.sleep(0.05)

        harness.run(body)
        assert all(seconds < 0.04 for _, seconds in watched.told)  # What waits is no step.

    def test_a_busy_loop_is_not_idle(self, harness: Harness) -> None:
        watched = WatchedSteps()

        async def body(world: World) -> None:
            with world.loop.watch(watched):
                before = watched.idle_seconds
                for _ in range(1000):
                    await trio.lowlevel.checkpoint()
                assert watched.idle_seconds == before

        harness.run(body)

    def test_two_stall_watchers_may_run_concurrently(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            with world.loop.watch(WatchedSteps()), world.loop.watch(WatchedSteps()):
                await world.clock.sleep(0.001)

        harness.run(body)


class WorkersContract:
    def test_worker_results_arrive_one_by_one_with_the_worker_paused_between(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            path = f"{harness.root}/work"
            async with world.workers.open() as worker:
                await worker.begin(write_and_tell, path)
                for size in (1, 2, 3):
                    assert await worker.next_result() == size
                    assert world.files.status(path).size == size
                with pytest.raises(WorkFailed):
                    await worker.next_result()
                await worker.begin(write_and_tell, path + "2")
                assert await worker.next_result() == 1
                await worker.begin(fail, path)  # The work before it is given up.
                with pytest.raises(OSError, match="the disk"):
                    await worker.next_result()
                await worker.begin(write_and_tell, path + "2")
                assert await worker.next_result() == 2

        harness.run(body)

    def test_a_worker_step_takes_at_least_its_time(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            async with world.workers.open() as worker:
                start = world.clock.now()
                await worker.begin(take_time, 0.05)
                assert await worker.next_result() == "done"
                assert world.clock.now() >= start + 0.1

        harness.run(body)


class WorldContract(
    FilesContract,
    NetworkContract,
    ClockContract,
    ThreadsContract,
    RandomnessContract,
    LoopContract,
    WorkersContract,
    ObjectsContract,
):
    def test_environment_and_log_sink_are_available(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            assert world.process_id > 0
            usage = world.process_usage()
            assert usage is None or 0 < usage.open_files < usage.open_files_max
            dict(world.environment)
            world.log_sink({"event": "hello", "number": 1})

        harness.run(body)
