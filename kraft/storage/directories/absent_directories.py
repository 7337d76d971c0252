"""Remembers, per log directory, which other directories were offline while its logs were created or used.

A partition may be removed from a broker and reassigned to it while the disk with its log is offline. The log is then
recreated on another disk, and when the first disk returns the broker has two logs of one topic. The valid log is in the
directory that remembers the other one as offline. The two logs alone do not show which is valid.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from kraft.common.errors import CorruptData
from kraft.storage.checkpoints import read_text, replace_file
from kraft.storage.log_files import ABSENT_DIRECTORIES
from kraft.world.ports import FileSystem


class AbsentDirectories:
    """The offline directories remembered by the log directory at `path`. Every method may raise OSError. Changes are
    durable on return."""

    __slots__ = ("_files", "_known", "_path")

    def __init__(self, files: FileSystem, path: str) -> None:
        self._files = files
        self._path = f"{path}/{ABSENT_DIRECTORIES}"
        self._known: frozenset[str] | None = None

    def paths(self) -> frozenset[str]:
        """The paths of the directories that were offline."""
        if self._known is None:
            self._known = self._read()
        return self._known

    def add(self, paths: Collection[str]) -> None:
        """Remember directories as offline. Blocks for some syncs if one is new."""
        if paths:
            self._put(self.paths().union(paths))

    def settle(self, present: Collection[str]) -> None:
        """Forget the directories in `present`: they hold no stale log of a partition that was recreated here."""
        self._put(self.paths().difference(present))

    def _put(self, paths: frozenset[str]) -> None:
        if paths == self.paths():
            return
        content = json.dumps({"version": 0, "directories": sorted(paths)}, separators=(",", ":"))
        replace_file(self._files, self._path, content.encode())
        self._known = paths

    def _read(self) -> frozenset[str]:
        """Read the file. A damaged file counts as empty; a start then refuses duplicate logs that it cannot resolve."""
        try:
            text = read_text(self._files, self._path)
            return frozenset() if text is None else frozenset(map(str, json.loads(text)["directories"]))
        except (CorruptData, ValueError, KeyError, TypeError):
            return frozenset()
