"""The log directories that were offline while logs of this one were created or used, as this one remembers it.

A replica may leave its broker and come back while its disk is away: the log is made anew on another disk, and when
the first one returns there are two of the same topic. The one that counts is the one whose directory remembers that
the other's was away; nothing in the two logs would tell.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from kraft.common.errors import CorruptData
from kraft.storage.checkpoints import read_text, replace_file
from kraft.storage.log_files import ABSENT_DIRECTORIES
from kraft.world.ports import FileSystem


class AbsentDirectories:
    """The memory of the log directory at `path`. Whatever it is asked may raise OSError; what it was told is
    durable."""

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
        """These are away. Blocks for some syncs when that is news."""
        if paths:
            self._put(self.paths().union(paths))

    def settle(self, present: Collection[str]) -> None:
        """Forget the directories that are `present`: no log of theirs that was created anew here is left."""
        self._put(self.paths().difference(present))

    def _put(self, paths: frozenset[str]) -> None:
        if paths == self.paths():
            return
        content = json.dumps({"version": 0, "directories": sorted(paths)}, separators=(",", ":"))
        replace_file(self._files, self._path, content.encode())
        self._known = paths

    def _read(self) -> frozenset[str]:
        """None are known from a damaged file: what cannot be decided then is refused."""
        try:
            text = read_text(self._files, self._path)
            return frozenset() if text is None else frozenset(map(str, json.loads(text)["directories"]))
        except (CorruptData, ValueError, KeyError, TypeError):
            return frozenset()
