"""A flush in three steps: `UnifiedLog.prepare_flush` says what must be durable, `FlushJob.run` waits for the disk
(in a thread), `UnifiedLog.finish_flush` moves the recovery point.

A sync that failed is never tried again: the kernel may have dropped the pages and would report success. The log
directory goes offline instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from kraft.common.errors import StorageError
from kraft.storage.checkpoints import replace_file
from kraft.storage.file_cache import OpenFile
from kraft.storage.storage_failure import upkeep_failure
from kraft.world.ports import FileSystem

EPOCHS_SUFFIX = ".flushed.tmp"  # Not the name that a truncation uses: it may come while a flush is under way.


class FlushJob:
    """Files, then names, then the leader-epoch checkpoint. `up_to` is the offset below which everything is durable
    afterwards.

    `generation` counts the log's truncations: a job from before one says nothing about the log after it.
    """

    __slots__ = ("directories", "epochs", "epochs_path", "epochs_version", "files", "generation", "opened", "up_to")

    def __init__(
        self,
        files: FileSystem,
        up_to: int,
        opened: Sequence[OpenFile],
        epochs_path: str,
        epochs: bytes | None,
        epochs_version: int,
        directories: Sequence[str],
        generation: int,
    ) -> None:
        self.files = files
        self.up_to = up_to
        self.opened = opened
        self.epochs_path = epochs_path
        self.epochs = epochs
        self.epochs_version = epochs_version
        self.directories = directories
        self.generation = generation

    def run(self) -> None:
        """Blocks. Raises StorageError; the caller takes the directory offline, except for OutOfResources: all but
        the epochs is synced then."""
        what = f"flush of {self.epochs_path.rpartition('/')[0]}"
        try:
            for opened in self.opened:
                opened.file.sync()
            for directory in self.directories:
                self.files.sync_directory(directory)
        except OSError as problem:
            raise StorageError(f"{what}: {problem}") from problem
        try:
            if self.epochs is not None:
                replace_file(self.files, self.epochs_path, self.epochs, suffix=EPOCHS_SUFFIX)
        except OSError as problem:
            raise upkeep_failure(problem, what) from problem
