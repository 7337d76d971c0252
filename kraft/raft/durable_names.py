"""Makes names in the metadata log's directory durable. This needs a file descriptor. If none is left, nothing has
happened, and the call may be retried."""

from __future__ import annotations

from kraft.storage.storage_failure import no_descriptor_refused
from kraft.world.ports import FileSystem


def sync_names(files: FileSystem, directory: str) -> None:
    """Sync the directory. Raises OSError; OutOfResources without a file descriptor."""
    with no_descriptor_refused(directory):
        files.sync_directory(directory)
