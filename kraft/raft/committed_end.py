"""The highest offset up to which this controller has known the metadata log to be committed: the file
`metadata-committed-end` in metadata.log.dir, next to the log.

A metadata log that was cut off at the end of a batch looks whole. Without this file a controller would start from it.
Topics with committed offsets would then be missing, and would start again at offset 0 when a client recreates them.

The file has one line of fixed size: the end offset and its CRC-32C. It is written in place and never synced. A power
failure may restore an older value or destroy the line, and either is safe. The offset is at most the one up to which
the log was synced before, so a crash alone never leaves the log shorter. Apache Kafka ignores the file.
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
    """Reads and replaces the offset. All methods block, for a write into the page cache."""

    def __init__(self, files: FileSystem, directory: str) -> None:
        self._files = files
        self.path = f"{directory}/{FILE_NAME}"
        self._file: File | None = None
        self._written = 0

    def read(self) -> int:
        """Return the end offset; 0 if there is none or it cannot be read. Raises OSError."""
        if not self._files.exists(self.path):
            return 0
        file = self._files.open(self.path, writable=False)
        try:
            return parse_line(file.pread(LINE_SIZE, 0))
        finally:
            file.close()

    def advance(self, end_offset: int) -> None:
        """Record that everything before `end_offset` is committed, and synced in this log. Nothing is written on a full
        disk: an older offset is safe as well. Raises OSError."""
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
    """The inverse of `line_of`; 0 for any other content."""
    number = line[:20]
    return int(number) if number.isdigit() and line_of(int(number)) == line else 0
