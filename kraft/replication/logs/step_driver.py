"""Drives long work of the storage engine from the loop: others are served between its steps (`kraft.storage.steps`),
threads do what waits for the disk."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from kraft.storage.directories.log_directory import CheckpointJob
from kraft.storage.steps import Job, Steps
from kraft.world.ports import Threads

T = TypeVar("T")


async def run_steps(
    steps: Steps[T], run_job: Callable[[Job], Awaitable[object]], pause: Callable[[bool], Awaitable[None]]
) -> T:
    """Run the steps, and return what they return. `run_job` waits for a job (`Threads.run`). After each step `pause`
    decides how long the next one waits. Its argument says whether the step was a job. Raises what the steps raise."""
    try:
        job = next(steps)
        while True:
            problem: Exception | None = None
            if job is not None:
                try:
                    await run_job(job)
                except Exception as raised:  # noqa: BLE001  # Whatever it is, it is for those who asked.
                    problem = raised
            await pause(job is not None)
            job = next(steps) if problem is None else steps.throw(problem)
    except StopIteration as end:
        result: T = end.value
        return result


async def serve_others(after_job: bool) -> None:
    """The shortest pause. A job was one itself."""
    if not after_job:
        await trio.lowlevel.checkpoint()


async def write_checkpoint(job: CheckpointJob, threads: Threads) -> None:
    """The three steps of a checkpoint that need not be written at once. Raises StorageError (OutOfResources may
    pass)."""
    await threads.run(job.prepare)
    job.put_in_place()
    await threads.run(job.finish)
