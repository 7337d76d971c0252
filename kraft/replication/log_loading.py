"""Loading a broker's logs when it starts: a task for each log directory, so that none waits for another's disk, and nobody else on the loop for any of them.

A combined node serves the quorum meanwhile, with what may be ten seconds of reading for each log after a crash.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from kraft.common.errors import StorageError
from kraft.common.ids import TopicPartition
from kraft.replication.step_driver import run_steps
from kraft.storage.checkpoints import read_partition_metadata
from kraft.storage.log_directory import LogDirectory
from kraft.storage.log_files import PARTITION_METADATA, STRAY_DIRECTORY_SUFFIX, directory_name, marked_directory_name
from kraft.storage.log_manager import LogManager
from kraft.world.ports import World

DIRECTORIES_SYNCED_AT_ONCE = 64


async def load_logs(logs: LogManager, world: World, topic_id_of: Callable[[str], bytes | None]) -> None:
    """After a crash every log's names have to be made durable: many at a time, so that the kernel does them together.

    Raises StorageError when no directory is left, ConfigurationError when two have the same log. `topic_id_of` tells which topic has a name now.
    """
    _set_former_aside(logs, world, topic_id_of)
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


def _set_former_aside(logs: LogManager, world: World, topic_id_of: Callable[[str], bytes | None]) -> None:
    """A disk that failed for a while has logs of topics that were deleted meanwhile, and made anew under their names in another directory: these are strays."""
    places: dict[TopicPartition, list[LogDirectory]] = {}
    for directory in logs.online():
        try:
            found, _ = directory.find_logs()
        except OSError as problem:
            logs.directory_failed(directory.path, str(problem))
            continue
        for topic_partition in found:
            places.setdefault(topic_partition, []).append(directory)
    for topic_partition, directories in places.items():
        for directory in directories if len(directories) > 1 else ():
            try:
                _set_aside_unless(directory, topic_partition, topic_id_of(topic_partition.topic), world)
            except (OSError, StorageError) as problem:
                logs.directory_failed(directory.path, str(problem))


def _set_aside_unless(directory: LogDirectory, topic_partition: TopicPartition, topic_id: bytes | None, world: World) -> None:
    """Keep the log, whose topic is known, as a stray if that is another one. Raises OSError, StorageError."""
    path = directory.file(directory_name(topic_partition))
    if read_partition_metadata(world.files, f"{path}/{PARTITION_METADATA}") in (None, topic_id):
        return
    world.files.rename(path, directory.file(marked_directory_name(topic_partition, world.random.uuid("directory"), STRAY_DIRECTORY_SUFFIX)))
    world.files.sync_directory(directory.path)
    directory.forget(topic_partition)


async def _pause(was_job: bool) -> None:
    await trio.lowlevel.checkpoint()


async def _sync_directory(path: str, logs: LogManager, world: World) -> None:
    try:
        await world.threads.run(world.files.sync_directory, path)
    except OSError as problem:
        logs.directory_failed(path.rpartition("/")[0], str(problem))
