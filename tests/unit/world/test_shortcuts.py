"""The simulation's shortcuts through trio: what trio promises holds with them, and without them it is as it was."""

from __future__ import annotations

import math
import socket
import types
from collections.abc import Generator

import pytest
import trio
import trio.testing
from trio._core import _run

from kraft.world.simulated import Universe
from kraft.world.simulated.shortcuts import RESCHEDULES, shortcuts


def run_all() -> list[object]:
    """Deadlines, wakings with and without a value, errors and cancellations, in one run."""
    seen: list[object] = []

    async def waits(event: trio.Event) -> None:
        seen.append(await event.wait())

    async def main() -> None:
        with trio.move_on_after(1) as passed:
            await trio.sleep_forever()
        seen.append(("deadline", passed.cancelled_caught, trio.current_time()))
        with trio.CancelScope() as late:
            late.deadline = trio.current_time() + 2
            await trio.sleep_forever()
        seen.append(("set inside", late.cancelled_caught, trio.current_time()))
        with trio.move_on_after(5) as lifted:
            lifted.deadline = float("inf")
            await trio.sleep(9)
        seen.append(("lifted", lifted.cancelled_caught, trio.current_time()))
        event = trio.Event()
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(waits, event)
            await trio.testing.wait_all_tasks_blocked()
            event.set()
        send, receive = trio.open_memory_channel[str](0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send.send, "value")
            seen.append(await receive.receive())
            nursery.start_soon(trio.sleep_forever)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return seen


def test_trio_behaves_the_same_with_the_shortcuts_and_is_restored_afterwards() -> None:
    def patched() -> list[object]:
        scopes = vars(trio.CancelScope)["_might_change_registered_deadline"]
        return [scopes, *(reschedule.__defaults__ for reschedule in RESCHEDULES)]

    before, plain = patched(), run_all()
    with shortcuts():
        assert run_all() == plain
        assert patched() != before
    assert patched() == before
    assert ("set inside", True, 3.0) in plain


def test_a_simulation_accepts_instruments() -> None:
    class Steps(trio.abc.Instrument):
        def __init__(self) -> None:
            self.count = 0

        def after_task_step(self, task: trio.lowlevel.Task) -> None:
            self.count += 1

    async def main(universe: Universe) -> None:
        assert type(_run.GLOBAL_RUN_CONTEXT.runner.instruments).__contains__ is dict.__contains__
        steps = Steps()
        with pytest.raises(KeyError):
            trio.lowlevel.remove_instrument(steps)
        trio.lowlevel.add_instrument(steps)
        await universe.sleep(1.0)
        await universe.sleep(1.0)
        trio.lowlevel.remove_instrument(steps)
        assert steps.count == 2
        await universe.sleep(1.0)
        assert steps.count == 2

    Universe(1).run(main)


def test_a_task_exception_leaves_the_simulation_loop_without_frames_of_the_loop() -> None:
    async def fails(_: Universe) -> None:
        raise LookupError("by a task")

    with pytest.raises(LookupError) as raised:
        Universe(1).run(fails)
    assert "_turns" not in [entry.name for entry in raised.traceback]


def test_the_simulation_loop_polls_the_kernel_only_when_a_task_waits_for_it() -> None:
    ours, theirs = socket.socketpair()

    async def main(universe: Universe) -> list[str]:
        told: list[str] = []
        trio.lowlevel.current_trio_token().run_sync_soon(told.append, "from elsewhere")
        await universe.sleep(1.0)
        theirs.send(b"x")
        await trio.lowlevel.wait_readable(ours)
        return told

    with ours, theirs:
        assert Universe(1).run(main) == ["from elsewhere"]


def test_the_simulation_loop_refuses_foreign_awaitables() -> None:
    @types.coroutine
    def foreign() -> Generator[str, None, None]:
        yield "of another library"

    async def main(_: Universe) -> None:
        await foreign()

    with pytest.raises(TypeError, match="of another library"):
        Universe(1).run(main)


def test_cancel_scopes_of_a_simulation_cancel_shield_and_fail_as_in_trio() -> None:
    async def main(universe: Universe) -> None:
        with trio.CancelScope() as outer:
            outer.cancel()
            with trio.CancelScope(shield=True):
                await universe.sleep(1.0)
            with trio.CancelScope() as inner:
                await universe.sleep(1.0)
            pytest.fail("the outer scope was cancelled")
        assert (outer.cancelled_caught, inner.cancelled_caught) == (True, False)
        with trio.CancelScope() as before:
            await universe.sleep(1.0)
        with pytest.raises(RuntimeError, match="single 'with' block"):
            before.__enter__()
        first, second = trio.CancelScope(), trio.CancelScope()
        with pytest.raises(RuntimeError, match="still within its child"):
            with first:
                second.__enter__()
        late = trio.CancelScope()
        late.cancel()
        with late:
            await universe.sleep(1.0)
        assert late.cancelled_caught
        with pytest.raises(ValueError, match="NaN"):
            trio.CancelScope(deadline=math.nan)

    Universe(1).run(main)
