"""Where the partitions of the sink's topic ended before a micro-batch began, kept in the query's checkpoint.

Leaders forget a producer a day after its last record (`producer.id.expiration.ms`), and they go by the records' own
timestamps. So a leader that knows nothing of a task does not prove that the task wrote nothing. What it wrote is then
looked for in the log, from the offsets that are kept here. Spark makes a sink's writer on the driver for each
micro-batch, after it has noted the batch's offsets and before any task runs: the newest of these notes has the batch's
number.

Ends are asked for before the file is found missing, and a file that is there is never replaced. So what it holds lies
before the first row of the batch, also while two drivers share a checkpoint.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

log = logging.getLogger(__name__)
DIRECTORY = "kraft-sink"
KEPT = 2
"""Files of so many micro-batches stay: Spark replays the last one alone."""


class BatchBegun(NamedTuple):
    """`ends` has the end of each partition that was there before micro-batch `batch`. `is_new`: no attempt of the
    batch came before this one."""

    batch: int
    ends: Mapping[int, int]
    is_new: bool


def begun(checkpoint: str, topic: str, sink: str, ask: Callable[[], Mapping[int, int]]) -> BatchBegun | None:
    """Remember what `ask` tells, unless an earlier attempt has. `sink` is the option exactlyOnceId. None, with a
    warning, where the checkpoint cannot be reached from Python."""
    try:
        files, place = opened(checkpoint)
        batch = newest_batch(files, place)
    except (OSError, ValueError, NotImplementedError) as problem:
        log.warning(
            "the sink cannot keep anything in checkpoint %s (%s): a micro-batch of records older than a day, or tried "
            "again after more than a day, may be written twice",
            checkpoint,
            problem,
        )
        return None
    directory = f"{place}/{DIRECTORY}"
    name = f"{directory}/{batch}-{sink.encode().hex()}-{topic}.json"
    kept = read(files, name)
    if kept is None:
        ends = dict(ask())
        kept = read(files, name)
    if kept is not None:
        return BatchBegun(batch, kept, is_new=False)
    files.create_dir(directory, recursive=True)
    with files.open_output_stream(f"{name}.new") as stream:
        stream.write(json.dumps(ends).encode())
    files.move(f"{name}.new", name)
    forget(files, directory, batch)
    return BatchBegun(batch, ends, is_new=True)


def opened(checkpoint: str) -> tuple[FileSystem, str]:
    """The file system of a checkpoint, and the path in it. Raises OSError, ValueError."""
    from os.path import abspath

    from pyarrow.fs import FileSystem, LocalFileSystem

    if "://" in checkpoint:
        files, place = FileSystem.from_uri(checkpoint)
        return files, place
    return LocalFileSystem(), abspath(checkpoint.removeprefix("file:"))


def newest_batch(files: FileSystem, place: str) -> int:
    """Of those that Spark has planned. Raises FileNotFoundError where it has planned none."""
    from pyarrow.fs import FileSelector

    numbers = [
        int(each.base_name)
        for each in files.get_file_info(FileSelector(f"{place}/offsets"))
        if each.base_name.isdigit()
    ]
    if not numbers:
        raise FileNotFoundError(f"{place}/offsets is empty")
    return max(numbers)


def read(files: FileSystem, name: str) -> dict[int, int] | None:
    """What was kept. A file that a crash has damaged tells nothing: then the whole log is looked through."""
    try:
        with files.open_input_stream(name) as stream:
            return {int(partition): int(end) for partition, end in json.loads(stream.read()).items()}
    except FileNotFoundError:
        return None
    except (ValueError, AttributeError) as problem:
        log.warning("%s is damaged (%s): the whole topic is looked through", name, problem)
        return {}


def forget(files: FileSystem, directory: str, batch: int) -> None:
    """Remove what belongs to batches that Spark never replays again."""
    from pyarrow.fs import FileSelector

    for each in files.get_file_info(FileSelector(directory)):
        number = each.base_name.partition("-")[0]
        if number.isdigit() and int(number) <= batch - KEPT:
            files.delete_file(each.path)
