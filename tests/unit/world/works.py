"""Pieces of work for the tests of work processes, which find them by their names."""

from __future__ import annotations

import errno
from collections.abc import Iterator

from kraft.world.ports import FileSystem, StepEnd


def write_and_tell(files: FileSystem, path: str) -> Iterator[StepEnd | int]:
    """Appends a byte three times, and tells the size each time."""
    file = files.open(path, create=True)
    for _ in range(3):
        file.append((b"x",))
        yield StepEnd()
        yield file.size()
    file.close()


def fail(files: FileSystem, path: str) -> Iterator[StepEnd | int]:
    yield StepEnd()
    raise OSError(errno.EIO, "the disk", path)


def blunder(files: FileSystem, path: str) -> Iterator[StepEnd | int]:
    yield StepEnd()
    raise ZeroDivisionError(path)


def never_end(files: FileSystem, path: str) -> Iterator[StepEnd | int]:
    """Writes on and on once it has told a first result."""
    file = files.open(path, create=True)
    yield 1
    while True:
        file.append((b"x",))
        yield StepEnd()


def take_time(files: FileSystem, seconds: float) -> Iterator[StepEnd | str]:
    yield StepEnd(seconds)
    yield StepEnd(seconds)
    yield "done"
