"""Trio's event loop, reduced to the needs of a simulation.

In each turn, trio's own loop also asks the kernel for events, and checks deadlines, idle waiters and instruments, which
a simulation does not have. Most turns run only one task. This loop asks the kernel only if something may wait for it:
trio's queue of calls from other threads, a task that waits for a real file descriptor, the closing of the run. The same
tasks run in the same order as in trio's loop.
"""

from __future__ import annotations

from collections.abc import Generator
from operator import attrgetter
from types import TracebackType
from typing import Any, Final

import trio
from outcome import Error, Value
from trio._core import _run
from trio._core._traps import CancelShieldedCheckpoint, PermanentlyDetachCoroutineObject, WaitTaskRescheduled

from kraft.world.simulated.time import VirtualTime

LOOP: Final = "unrolled_run"
FRAMES_OF_A_STEP: Final = 1 + _run.CONTEXT_RUN_TB_FRAMES
"""The number of frames of the loop above a task's own frames in the traceback of an error."""
of_any: Final = _run.unrolled_run
_by_number: Final = attrgetter("_counter")
Turns = Generator[float, Any, None]


def of_run(runner: Any, async_fn: Any, args: Any, *more: Any) -> Turns:
    """Return the loop of one of trio's runs: this module's loop if virtual time drives the run, else trio's."""
    return (_simulated if type(runner.clock) is VirtualTime else of_any)(runner, async_fn, args, *more)


@trio.lowlevel.enable_ki_protection
def _simulated(runner: Any, async_fn: Any, args: Any) -> Turns:
    """Run the loop. Yields the seconds for which trio should wait for the kernel. Raises TrioInternalError."""
    try:
        runner.entry_queue.wakeup.wakeup_on_signals()
        runner.clock.start_clock()
        runner.init_task = runner.spawn_impl(runner.init, (async_fn, args), None, "<init>", system_task=True)
        yield from _turns(runner)
    except (trio.TrioInternalError, GeneratorExit):
        raise
    except BaseException as problem:
        raise trio.TrioInternalError("internal error in the loop of a simulation") from problem
    finally:
        runner.close()
        _run.GLOBAL_RUN_CONTEXT.__dict__.clear()
        if runner.ki_pending:
            runner.main_task_outcome = Error(KeyboardInterrupt())


@trio.lowlevel.enable_ki_protection
def _turns(runner: Any) -> Turns:
    clock, deadlines, queue, kernel = runner.clock, runner.deadlines, runner.runq, runner.io_manager
    calls, waiting, context = runner.entry_queue, kernel._registered, _run.GLOBAL_RUN_CONTEXT
    while runner.tasks:
        seconds = 0.0 if queue else clock.deadline_to_sleep_time(deadlines.next_deadline())
        # The queue of calls is the one that waits in any case.
        if seconds > 0 or calls.queue or calls.idempotent_queue or len(waiting) != 1:
            kernel.process_events((yield max(0.0, seconds)))
        now = clock.current_time()
        if deadlines._active:
            deadlines.expire(now)
        batch = list(queue)
        queue.clear()
        if len(batch) > 1:
            batch.sort(key=_by_number)
            _run._r.shuffle(batch)
        while batch:
            context.task = task = batch.pop()
            step, value = task._next_send_fn, task._next_send
            task._next_send_fn = task._next_send = None
            if runner.instruments:
                _tell(runner, "before_task_step", task)
            try:
                message = task.context.run(step, value)
            except StopIteration as end:
                final: Value[Any] | Error | None = Value(end.value)
            except BaseException as error:  # noqa: BLE001  # It is the task's, and its parent's to handle.
                final = Error(error.with_traceback(_below_the_loop(error.__traceback__)))
            else:
                final = None
            if final is not None:
                runner.task_exited(task, final)
                final = None
            else:
                _wait(runner, task, message)
                del message
            if runner.instruments:
                _tell(runner, "after_task_step", task)
            del task, step, value, context.task  # The loop must not keep ended tasks alive.


def _wait(runner: Any, task: Any, message: Any) -> None:
    """Suspend the task. `message` is the value that the task yielded to trio."""
    task._schedule_points += 1
    if type(message) is WaitTaskRescheduled:
        task._cancel_points += 1
        task._abort_func = message.abort_func
        if runner.ki_pending and task is runner.main_task:
            task._attempt_delivery_of_pending_ki()
        if task._cancel_status.effectively_cancelled:
            task._attempt_delivery_of_any_pending_cancel()
    elif message is CancelShieldedCheckpoint:
        runner.reschedule(task)
    elif type(message) is PermanentlyDetachCoroutineObject:
        runner.task_exited(task, message.final_outcome)
    else:
        runner.reschedule(task, TypeError(f"trio does not know the message {message!r} of a task"))
        task._next_send_fn = task.coro.throw


def _below_the_loop(traceback: TracebackType | None) -> TracebackType | None:
    for _ in range(FRAMES_OF_A_STEP):
        traceback = traceback.tb_next if traceback is not None else None
    return traceback


def _tell(runner: Any, hook: str, task: Any) -> None:
    if hook in runner.instruments:
        runner.instruments.call(hook, task)
