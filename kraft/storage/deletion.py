"""Delayed removal of unused files and directories, so that reads in progress can finish."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from kraft.common.errors import StorageError
from kraft.world.ports import FileSystem


class DeletionJob:
    """Removes paths that are due. `run` blocks and may run in a thread. It tries every path, then raises StorageError
    if one failed."""

    __slots__ = ("_files", "paths")

    def __init__(self, files: FileSystem, paths: Sequence[str]) -> None:
        self._files = files
        self.paths = paths

    def run(self) -> None:
        failure: OSError | None = None
        for path in self.paths:
            try:
                self._remove(path)
            except OSError as problem:
                failure = failure or problem
        if failure is not None:
            raise StorageError(f"delayed deletion: {failure}") from failure

    def _remove(self, path: str) -> None:
        if self._files.exists(path):
            if self._files.status(path).is_directory:
                self._files.remove_tree(path)
            else:
                self._files.remove(path)


class DelayedDeletions:
    """Paths to remove, each with the time when its removal is due."""

    __slots__ = ("_due",)

    def __init__(self) -> None:
        self._due: list[tuple[int, str]] = []

    def add(self, paths: Sequence[str], due_ms: int) -> None:
        for path in paths:
            heappush(self._due, (due_ms, path))

    def forget_directory(self, directory: str) -> None:
        """Drop the paths in a failed log directory, where nothing can be removed."""
        self._due = [entry for entry in self._due if not entry[1].startswith(directory + "/")]
        heapify(self._due)

    def take_due(self, files: FileSystem, now_ms: int) -> DeletionJob | None:
        """Return a job for the paths that are due, or None."""
        paths = []
        while self._due and self._due[0][0] <= now_ms:
            paths.append(heappop(self._due)[1])
        return DeletionJob(files, paths) if paths else None

    def __len__(self) -> int:
        return len(self._due)
