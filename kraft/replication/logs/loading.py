"""Loads a broker's logs at start. Each log directory has its own task, so that no directory waits for another's disk.
The loop stays free for other work.

A combined node serves the quorum meanwhile. After a crash, loading one log may take ten seconds of reading.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import trio

from kraft.common.errors import StorageError
from kraft.common.ids import TopicPartition
from kraft.storage.checkpoints import read_partition_metadata
from kraft.storage.directories.log_directory import LogDirectory, remember_absent
from kraft.storage.log_files import (
    LOG_SUFFIX,
    PARTITION_METADATA,
    STRAY_DIRECTORY_SUFFIX,
    directory_name,
    marked_directory_name,
    offset_file_name,
)
from kraft.storage.log_manager import LogManager
from kraft.world.ports import World
from kraft.world.turns import in_turns

DIRECTORIES_SYNCED_AT_ONCE = 64
FIRST_SEGMENT = offset_file_name(0, LOG_SUFFIX)


async def load_logs(
    logs: LogManager,
    world: World,
    topic_id_of: Callable[[str], bytes | None],
    assigned: Callable[[TopicPartition], bytes | None] = lambda _: None,
) -> None:
    """Load the logs of all directories.

    After a crash every log's directory entries must be made durable. Many are synced together, so that the kernel can
    batch them.

    `topic_id_of` returns the current id of a topic name. `assigned` returns the directory that the metadata assigns to
    this broker's replica. Raises StorageError if no directory is left, ConfigurationError if two directories have the
    same log.
    """
    unsynced: list[str] = []
    now_ms = world.clock.wall_ms()
    logs.futures.finish_moves(now_ms)
    _set_former_aside(logs, world, topic_id_of, assigned)
    loads = logs.loads(now_ms, unsynced.append)
    async with trio.open_nursery() as directory_nursery:
        for steps in loads:
            directory_nursery.start_soon(in_turns, steps, 1, world.threads.run, _pause)
    logs.require_one_online()
    for start in range(0, len(unsynced), DIRECTORIES_SYNCED_AT_ONCE):
        async with trio.open_nursery() as sync_nursery:
            for path in unsynced[start : start + DIRECTORIES_SYNCED_AT_ONCE]:
                sync_nursery.start_soon(_sync_directory, path, logs, world)
    _remember_absent(logs)


def _set_former_aside(
    logs: LogManager,
    world: World,
    topic_id_of: Callable[[str], bytes | None],
    assigned: Callable[[TopicPartition], bytes | None],
) -> None:
    """Set aside as strays the logs that a returned disk has of former replicas.

    A disk that was offline for a while may have logs of topics that were deleted and recreated in another directory. It
    may have logs of replicas that left this broker and returned to another directory. A log without records that was
    created in a directory to which the replica is no longer assigned is a stray as well.
    """
    places: dict[TopicPartition, list[LogDirectory]] = {}
    for directory in logs.online() if len(logs.directories) > 1 else ():
        try:
            found, _ = directory.find_logs()
        except OSError as problem:
            logs.directory_failed(directory.path, str(problem))
            continue
        for topic_partition in found:
            places.setdefault(topic_partition, []).append(directory)
    for topic_partition, directories in places.items():
        place, topic_id = assigned(topic_partition), topic_id_of(topic_partition.topic)
        if len(directories) > 1 or place is not None:
            directories = _left(
                logs, world, topic_partition, directories, partial(_was_only_begun, topic_partition, place, world)
            )
        if len(directories) > 1:
            directories = _left(
                logs,
                world,
                topic_partition,
                directories,
                partial(_is_of_former_topic, topic_partition, topic_id, world),
            )
        if len(directories) > 1:
            _left(logs, world, topic_partition, directories, partial(_was_away, directories, place))


def _left(
    logs: LogManager,
    world: World,
    topic_partition: TopicPartition,
    directories: list[LogDirectory],
    is_stray: Callable[[LogDirectory], bool],
) -> list[LogDirectory]:
    """Set aside the strays among `directories`. Returns the directories that still have a log of this name."""
    left = []
    for directory in directories:
        try:
            if is_stray(directory):
                _set_aside(directory, topic_partition, world)
            else:
                left.append(directory)
        except (OSError, StorageError) as problem:
            logs.directory_failed(directory.path, str(problem))
    return left


def _was_only_begun(
    topic_partition: TopicPartition, place: bytes | None, world: World, directory: LogDirectory
) -> bool:
    """Whether this is the leftover of a failed or interrupted creation: without data, and not in the directory assigned
    to the replica. Raises OSError."""
    if directory.directory_id == place:
        return False
    path = directory.file(directory_name(topic_partition))
    # Includes segments that compaction was about to swap.
    segments = [name for name in world.files.list_directory(path) if LOG_SUFFIX in name]
    return all(name == FIRST_SEGMENT and world.files.status(f"{path}/{name}").size == 0 for name in segments)


def _is_of_former_topic(
    topic_partition: TopicPartition, topic_id: bytes | None, world: World, directory: LogDirectory
) -> bool:
    """Whether the log belongs to another topic id than `topic_id`. False if the log's topic id is not known. Raises
    OSError, StorageError."""
    path = f"{directory.file(directory_name(topic_partition))}/{PARTITION_METADATA}"
    return read_partition_metadata(world.files, path) not in (None, topic_id)


def _was_away(directories: list[LogDirectory], assigned: bytes | None, directory: LogDirectory) -> bool:
    """Whether another of these directories was used while this one was offline. Raises OSError.

    If both were used while the other was offline, the metadata's assignment decides. This is safe: a replica found in a
    directory other than the assigned one acknowledges nothing until the controller has reassigned it, and then it joins
    no ISR before it has caught up.
    """
    users = [other for other in directories if directory.path in other.absent.paths()]
    return any(other.path not in directory.absent.paths() or other.directory_id == assigned for other in users)


def _set_aside(directory: LogDirectory, topic_partition: TopicPartition, world: World) -> None:
    """Rename the log to a stray. Raises OSError."""
    stray = marked_directory_name(topic_partition, world.random.uuid("directory"), STRAY_DIRECTORY_SUFFIX)
    world.files.rename(directory.file(directory_name(topic_partition)), directory.file(stray))
    world.files.sync_directory(directory.path)
    directory.forget(topic_partition)


def _remember_absent(logs: LogManager) -> None:
    """Record in each online directory which directories are offline. From now on the data in an online directory takes
    precedence over the data in an offline one. No log name may exist in two online directories."""
    for directory in logs.online():
        try:
            directory.absent.settle([other.path for other in logs.online()])
            remember_absent(directory, logs.directories)
        except (OSError, StorageError) as problem:
            logs.directory_failed(directory.path, str(problem))
    logs.require_one_online()


async def _pause(after_job: bool) -> None:
    """Yield after every step, also after a job, so that the tasks that load other directories can continue."""
    await trio.lowlevel.checkpoint()


async def _sync_directory(path: str, logs: LogManager, world: World) -> None:
    try:
        await world.threads.run(world.files.sync_directory, path)
    except OSError as problem:
        logs.directory_failed(path.rpartition("/")[0], str(problem))
