"""Long work in steps, so that its driver can run other tasks in between: a generator that yields None where it may be
paused, and a job where a disk or a large computation may take long. A thread may run the job, which uses no state of
the loop. An exception of a job is raised where it was yielded.

`at_once` drives the steps where no other task waits, and `kraft.world.turns.in_turns` on the loop. Nothing here waits,
so that packages without a loop can be written in steps.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

Job: TypeAlias = Callable[[], object]
Steps: TypeAlias = Generator[Job | None, None, T]


def in_thread(function: Callable[[*Ts], T], *arguments: *Ts) -> Steps[T]:
    """Run `function` as one job, and return its result."""
    results: list[T] = []
    yield lambda: results.append(function(*arguments))
    return results[0]


def at_once(work: Steps[T]) -> T:
    """Run `work` without a pause, its jobs included. Returns its result, and raises its exceptions."""
    try:
        job = next(work)
        while True:
            job = next(work) if job is None else _do(job, work)
    except StopIteration as end:
        result: T = end.value
        return result


def _do(job: Job, work: Steps[T]) -> Job | None:
    try:
        job()
    except Exception as problem:  # noqa: BLE001  # Whatever it is, it is for those who asked.
        return work.throw(problem)
    return next(work)
