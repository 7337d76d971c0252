"""Work that comes in steps, driven at once (kraft/world/steps.py) and on the loop (kraft/world/turns.py)."""

from __future__ import annotations

import pytest
import trio

from kraft.world.simulated import Universe
from kraft.world.steps import Steps, at_once
from kraft.world.turns import in_turns
from tests.unit.server.brokers import simulate


def test_jobs_run_between_steps_and_their_errors_are_raised_there() -> None:
    done: list[str] = []

    def broken() -> None:
        raise OSError("no disk")

    def work() -> Steps[str]:
        yield None
        yield lambda: done.append("job")
        try:
            yield broken
        except OSError as problem:
            done.append(str(problem))
        return "result"

    assert at_once(work()) == "result"
    assert done == ["job", "no disk"]


def test_an_uncaught_job_error_ends_the_work() -> None:
    def broken() -> None:
        raise OSError("no disk")

    def work() -> Steps[None]:
        yield broken

    with pytest.raises(OSError, match="no disk"):
        at_once(work())


def test_a_job_is_done_by_a_thread_and_what_it_raises_reaches_the_work() -> None:
    heard: list[object] = []

    def broken() -> None:
        raise OSError("no disk")

    def work() -> Steps[str]:
        yield None
        try:
            yield broken
        except OSError as problem:
            heard.append(str(problem))
        return "result"

    async def play(universe: Universe) -> None:
        async def pause(was_job: bool) -> None:
            heard.append(was_job)
            await trio.lowlevel.checkpoint()

        heard.append(await in_turns(work(), 1, universe.world_for("n").threads.run, pause))

    simulate(play)
    assert heard == [False, True, "no disk", "result"]


def test_a_job_without_a_thread_to_do_it_is_refused_and_the_work_is_closed() -> None:
    ended: list[bool] = []

    def work() -> Steps[None]:
        try:
            yield lambda: None
        finally:
            ended.append(True)

    with pytest.raises(AssertionError, match="is for a thread"):
        trio.run(in_turns, work())
    assert ended == [True]
