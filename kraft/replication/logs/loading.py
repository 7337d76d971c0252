"""Loading a broker's logs when it starts: a task for each log directory, so that none waits for another's disk, and
nobody else on the loop for any of them.

A combined node serves the quorum meanwhile, with what may be ten seconds of reading for each log after a crash.
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
    """After a crash every log's names have to be made durable: many at a time, so that the kernel does them
    together.

    Raises StorageError when no directory is left, ConfigurationError when two have the same log. `topic_id_of` tells
    which topic has a name now, `assigned` in which directory the metadata has a replica of this broker's.
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
    """A disk that failed for a while has logs of topics that were deleted meanwhile, and made anew under their names
    in another directory, and of replicas that left and came back to another directory: these are strays. So is what
    was begun where the replica is not assigned any more, and never got a record."""
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
    """The directories of `directories` that still have a log of this name after the strays among them are set aside."""
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
    """Whether it is not where the replica belongs, and has nothing but what making a log leaves behind that fails or
    is interrupted. Raises OSError."""
    if directory.directory_id == place:
        return False
    path = directory.file(directory_name(topic_partition))
    # Those that compaction was about to exchange included.
    segments = [name for name in world.files.list_directory(path) if LOG_SUFFIX in name]
    return all(name == FIRST_SEGMENT and world.files.status(f"{path}/{name}").size == 0 for name in segments)


def _is_of_former_topic(
    topic_partition: TopicPartition, topic_id: bytes | None, world: World, directory: LogDirectory
) -> bool:
    """Whether the log's topic is known, and another one. Raises OSError, StorageError."""
    path = f"{directory.file(directory_name(topic_partition))}/{PARTITION_METADATA}"
    return read_partition_metadata(world.files, path) not in (None, topic_id)


def _was_away(directories: list[LogDirectory], assigned: bytes | None, directory: LogDirectory) -> bool:
    """Whether another of these was used while this one was away. Raises OSError.

    Where it was so both ways the metadata decides: a replica that turns up in a directory while the one that it is
    assigned to is away acknowledges nothing until the controller has assigned it anew, and then it is in no in-sync
    set before it has caught up.
    """
    users = [other for other in directories if directory.path in other.absent.paths()]
    return any(other.path not in directory.absent.paths() or other.directory_id == assigned for other in users)


def _set_aside(directory: LogDirectory, topic_partition: TopicPartition, world: World) -> None:
    """Keep the log as a stray. Raises OSError."""
    stray = marked_directory_name(topic_partition, world.random.uuid("directory"), STRAY_DIRECTORY_SUFFIX)
    world.files.rename(directory.file(directory_name(topic_partition)), directory.file(stray))
    world.files.sync_directory(directory.path)
    directory.forget(topic_partition)


def _remember_absent(logs: LogManager) -> None:
    """No name is left in two directories that are here; what is used from now on counts more than what is in those
    that are not."""
    for directory in logs.online():
        try:
            directory.absent.settle([other.path for other in logs.online()])
            remember_absent(directory, logs.directories)
        except (OSError, StorageError) as problem:
            logs.directory_failed(directory.path, str(problem))
    logs.require_one_online()


async def _pause(after_job: bool) -> None:
    """Also after a job: whoever loads another directory may go on."""
    await trio.lowlevel.checkpoint()


async def _sync_directory(path: str, logs: LogManager, world: World) -> None:
    try:
        await world.threads.run(world.files.sync_directory, path)
    except OSError as problem:
        logs.directory_failed(path.rpartition("/")[0], str(problem))
