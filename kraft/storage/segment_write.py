"""Bytes to the end of a segment's file, whole or not at all. Nothing but the file is touched, so that a thread may
do it; `LogSegment.appended` follows."""

from __future__ import annotations

from collections.abc import Sequence

from kraft.common.errors import StorageError
from kraft.storage.file_cache import OpenFile
from kraft.world.ports import Buffer


def write_at_end(opened: OpenFile, size: int, buffers: Sequence[Buffer]) -> None:
    """Append to a file of `size` bytes. Raises OSError, the file as it was; StorageError when it could not be made
    so, or is not of that size."""
    if opened.file.size() != size:
        raise StorageError(
            f"{opened.file.path} has {opened.file.size()} bytes where its log ends at {size}: what is "
            "appended would be read at another place"
        )
    try:
        opened.file.append(buffers)
    except OSError as problem:
        try:
            cut_back(opened, size)
        except StorageError as again:
            raise again from problem
        raise


def cut_back(opened: OpenFile, size: int) -> None:
    """Take back what was written behind `size`. Raises StorageError."""
    try:
        opened.file.truncate(size)
    except OSError as problem:
        raise StorageError(f"{opened.file.path}: an append could not be undone: {problem}") from problem
