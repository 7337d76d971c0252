"""Long work of the storage engine, in steps, so that whoever drives it can serve others in between.

A generator that yields None where it may be paused, and a job where the disk may take a while. A thread may do the
job: it touches no state of the loop. What a job raises is raised where it was yielded.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

Job: TypeAlias = Callable[[], object]
Steps: TypeAlias = Generator[Job | None, None, T]


def in_thread(function: Callable[[*Ts], T], *arguments: *Ts) -> Steps[T]:
    """What `function` returns, as one job."""
    results: list[T] = []
    yield lambda: results.append(function(*arguments))
    return results[0]


def run_here(steps: Steps[T]) -> T:
    """All of it at once, jobs included, where nobody is kept waiting."""
    try:
        job = next(steps)
        while True:
            job = next(steps) if job is None else _do(job, steps)
    except StopIteration as end:
        result: T = end.value
        return result


def _do(job: Job, steps: Steps[T]) -> Job | None:
    try:
        job()
    except Exception as problem:  # noqa: BLE001  # Whatever it is, it is for those who asked.
        return steps.throw(problem)
    return next(steps)
