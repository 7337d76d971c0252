"""Making names in the metadata log's directory durable, which takes a descriptor: where none is left, nothing has happened, and it may be tried again."""

from __future__ import annotations

from kraft.storage.storage_failure import refuse_without_descriptor
from kraft.world.ports import FileSystem


def sync_names(files: FileSystem, directory: str) -> None:
    """Raises OSError, and OutOfResources without a descriptor."""
    try:
        files.sync_directory(directory)
    except OSError as problem:
        refuse_without_descriptor(problem, directory)
        raise
