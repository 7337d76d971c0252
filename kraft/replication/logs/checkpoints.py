"""Writes checkpoints that are not urgent. Threads wait for the disk, so the loop stays free."""

from __future__ import annotations

from kraft.storage.directories.log_directory import CheckpointJob
from kraft.world.ports import Threads


async def write_checkpoint(job: CheckpointJob, threads: Threads) -> None:
    """Write a checkpoint in three steps, the slow ones in a thread. Raises StorageError (OutOfResources may be
    retried)."""
    await threads.run(job.prepare)
    job.put_in_place()
    await threads.run(job.finish)
