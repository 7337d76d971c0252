"""Long work in steps, so that whoever drives it can serve others in between: a generator that yields None where it
may be paused, and a job where a disk or a large computation may take a while. A thread may do the job: it touches no
state of the loop. What a job raises is raised where it was yielded.

The steps decide; `at_once` drives them where nobody is kept waiting, and `kraft.world.turns.in_turns` on the loop.
Nothing here waits, so that packages that know no loop may be written in steps.
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


def at_once(work: Steps[T]) -> T:
    """What `work` returns, without a pause; its jobs are done here. Raises what it raises."""
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
