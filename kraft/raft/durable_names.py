"""Making names in the metadata log's directory durable, which takes a descriptor: where none is left, nothing has
happened, and it may be tried again."""

from __future__ import annotations

from kraft.storage.storage_failure import no_descriptor_refused
from kraft.world.ports import FileSystem


def sync_names(files: FileSystem, directory: str) -> None:
    """Raises OSError, and OutOfResources without a descriptor."""
    with no_descriptor_refused(directory):
        files.sync_directory(directory)
