"""Loading a broker's logs when it starts: a task for each log directory, so that none waits for another's disk, and nobody else on the loop for any of them.

A combined node serves the quorum meanwhile, with what may be ten seconds of reading for each log after a crash.
"""

from __future__ import annotations

import trio

from kraft.replication.step_driver import run_steps
from kraft.storage.log_manager import LogManager
from kraft.world.ports import World

DIRECTORIES_SYNCED_AT_ONCE = 64


async def load_logs(logs: LogManager, world: World) -> None:
    """After a crash every log's names have to be made durable: many at a time, so that the kernel does them together.

    Raises StorageError when no directory is left, ConfigurationError when two have the same log.
    """
    unsynced: list[str] = []
    loads = logs.loads(world.clock.wall_ms(), unsynced.append)
    async with trio.open_nursery() as directory_nursery:
        for steps in loads:
            directory_nursery.start_soon(run_steps, steps, world.threads, _pause)
    logs.require_one_online()
    for start in range(0, len(unsynced), DIRECTORIES_SYNCED_AT_ONCE):
        async with trio.open_nursery() as sync_nursery:
            for path in unsynced[start : start + DIRECTORIES_SYNCED_AT_ONCE]:
                sync_nursery.start_soon(_sync_directory, path, logs, world)


async def _pause(was_job: bool) -> None:
    await trio.lowlevel.checkpoint()


async def _sync_directory(path: str, logs: LogManager, world: World) -> None:
    try:
        await world.threads.run(world.files.sync_directory, path)
    except OSError as problem:
        logs.directory_failed(path.rpartition("/")[0], str(problem))
