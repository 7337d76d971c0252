"""A least-recently-used cache of open files, with a limit, for all logs of a node.

A partition keeps file names, not descriptors, so idle partitions need no open files. `get` and `make` open a file when
it is needed. Beyond the limit, the least recently used file is dropped. A dropped file closes when the last reference
to its `OpenFile` is released. A Fetch that is being sent and a write that runs in a thread keep a reference, so their
file stays open.
"""

from __future__ import annotations

from collections import OrderedDict

from kraft.world.ports import File, FileSystem

DEFAULT_OPEN_FILES_MAX = 512


class OpenFile:
    """A shared file handle. The file closes when the last reference is dropped."""

    __slots__ = ("file", "kept")

    def __init__(self, file: File) -> None:
        self.file = file
        self.kept: tuple[object, int, bytes] | None = None
        """The last piece that was read, as long as the file is open: its owner, position and bytes. The owner defines
        their meaning."""

    def __del__(self) -> None:
        try:
            self.file.close()
        except BaseException:  # noqa: BLE001  # A node that dies at this call raises at its next one; an error raised here cannot be caught.
            pass


class FileCache:
    """Opens files for reading and writing. The cache holds at most `open_files_max` of them."""

    __slots__ = ("_in_directory", "_open", "files", "open_files_max")

    def __init__(self, files: FileSystem, open_files_max: int = DEFAULT_OPEN_FILES_MAX) -> None:
        self.files = files
        self.open_files_max = open_files_max
        self._open: OrderedDict[str, OpenFile] = OrderedDict()
        self._in_directory: dict[str, dict[str, None]] = {}
        """The paths of `_open` by directory, ordered, so that a replay closes files in the same order."""

    def get(self, path: str) -> OpenFile:
        """Return the open file at `path`. Raises OSError, including FileNotFoundError: a read never creates a file,
        because its disk may be unmounted."""
        found = self._open.get(path)
        if found is None:
            return self._add(path, create=False)
        self._open.move_to_end(path)
        return found

    def make(self, path: str) -> OpenFile:
        """Return the open file at `path` for a write. Creates it if it is missing. Raises OSError."""
        found = self._open.get(path)
        if found is None:
            return self._add(path, create=True)
        self._open.move_to_end(path)
        return found

    def _add(self, path: str, *, create: bool) -> OpenFile:
        opened = OpenFile(self.files.open(path, create=create))
        self._open[path] = opened
        self._in_directory.setdefault(_directory_of(path), {})[path] = None
        if len(self._open) > self.open_files_max:
            self.forget(next(iter(self._open)))
        return opened

    def forget(self, path: str) -> None:
        """Drop the handle for `path`. Call it before the file is renamed or removed."""
        if self._open.pop(path, None) is not None:
            directory = _directory_of(path)
            paths = self._in_directory[directory]
            del paths[path]
            if not paths:
                del self._in_directory[directory]

    def forget_other(self, path: str, opened: OpenFile) -> None:
        """Drop a handle for `path` that is not `opened`: a handle created during a write through `opened` may have a
        stale size."""
        if self._open.get(path) is not opened:
            self.forget(path)

    def forget_files_in(self, directory: str) -> None:
        """Drop the handles of all files directly in `directory`, such as those of a log."""
        for path in self._in_directory.pop(directory, ()):
            del self._open[path]

    def forget_directory(self, directory: str) -> None:
        """Drop the handles of all files below `directory`, at any depth. Scans all directories."""
        prefix = directory + "/"
        for each in [each for each in self._in_directory if each == directory or each.startswith(prefix)]:
            self.forget_files_in(each)

    def clear(self) -> None:
        self._open.clear()
        self._in_directory.clear()

    def __len__(self) -> int:
        return len(self._open)


def _directory_of(path: str) -> str:
    return path.rpartition("/")[0]
