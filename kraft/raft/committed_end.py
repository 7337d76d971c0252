"""How far this controller has known the metadata log to be committed, kept beside the log and not in it: the file
`metadata-committed-end` in metadata.log.dir.

A metadata log that was cut short at the end of a batch looks whole. Without this file a controller would start from
it, and topics with committed offsets would be missing, and begin again at offset 0 when a client creates them anew.

One line of fixed size, the end offset and its CRC-32C, written in place and never synced: a loss of power may take it
back to an older value or destroy it, and either is safe. It names only what the log had on disk and synced before,
so the log is never shorter by a crash alone. Apache Kafka ignores the file.
"""

from __future__ import annotations

import contextlib

from crc32c import crc32c

from kraft.common.errors import OutOfResources
from kraft.storage.storage_failure import passing_refused
from kraft.world.ports import File, FileSystem

FILE_NAME = "metadata-committed-end"
LINE_SIZE = 30


class CommittedEnd:
    """Reads and replaces the one number. Everything blocks, for a write into the page cache."""

    def __init__(self, files: FileSystem, directory: str) -> None:
        self._files = files
        self.path = f"{directory}/{FILE_NAME}"
        self._file: File | None = None
        self._written = 0

    def read(self) -> int:
        """The end offset; 0 where there is none, or none that can be read. Raises OSError."""
        if not self._files.exists(self.path):
            return 0
        file = self._files.open(self.path, writable=False)
        try:
            return parse_line(file.pread(LINE_SIZE, 0))
        finally:
            file.close()

    def advance(self, end_offset: int) -> None:
        """Everything before `end_offset` is committed, and synced in our log. Nothing is written where there is no
        room: an older number is as true. Raises OSError."""
        assert end_offset >= 0, f"end offset {end_offset}"
        if end_offset <= self._written:
            return
        with contextlib.suppress(OutOfResources), passing_refused(self.path):
            if self._file is None:
                self._file = self._files.open(self.path, create=True)
            self._file.pwrite(line_of(end_offset), 0)
            self._written = end_offset

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def line_of(end_offset: int) -> bytes:
    number = b"%020d" % end_offset
    return b"%s %08x\n" % (number, crc32c(number))


def parse_line(line: bytes) -> int:
    """The inverse of `line_of`; 0 for anything else."""
    number = line[:20]
    return int(number) if number.isdigit() and line_of(int(number)) == line else 0
