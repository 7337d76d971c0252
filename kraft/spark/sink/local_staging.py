"""Stages the rows of a large micro-batch in files in Spark's local directory, beside shuffle files, until its
transaction. Used if the tasks run within the driver's JVM, as with a local master. It costs the brokers nothing.

As with the staging topic, a task reports where its rows are, and only reported rows are read. A file belongs to one
attempt at one task. The files of a batch, and of all earlier ones, are deleted once the batch is committed. Files left
at the end of a run are deleted with Spark's directory.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from kraft.spark.errors import staged_rows_gone
from kraft.spark.sink.staged_batch import Place, Span, StagedBatch, crc_of
from kraft.spark.sink.staging import Staging

log = logging.getLogger(__name__)
VARIABLE = "SPARK_LOCAL_DIRS"
"""The environment variable with the JVM's local directories, set by Spark. Only that JVM uses them."""
NAME = "kraft-sink"
ONLY_MINE = 0o600


def local_directory() -> str | None:
    """Return the local directory of the JVM that this process belongs to; None if it has none. The driver and a task
    get the same directory if they share the JVM."""
    first = os.environ.get(VARIABLE, "").split(",")[0]
    return str(Path(first) / NAME) if first else None


def prefix_of(sink: str) -> str:
    """Return the prefix of the file names of one sink of a query."""
    return hashlib.sha256(sink.encode()).hexdigest()[:16]


class LocalStaging:
    """Stages the rows of one task attempt of micro-batch `batch`. `fallback` stages them if the disk fails."""

    def __init__(self, directory: str, sink: str, batch: int, fallback: Staging) -> None:
        self.path = Path(directory) / f"{prefix_of(sink)}-{batch}-{uuid.uuid4().hex}"
        self.fallback = fallback
        self.is_broken = False
        self.end = 0

    def put(self, task: int, parcels: list[bytes]) -> list[Place | Span]:
        """Stage the batches and return the place of each. Raises WireError or OSError of the fallback."""
        if not self.is_broken:
            try:
                return list(self.append(parcels))
            except OSError as problem:
                log.warning("rows are staged in the cluster because %s cannot be written: %s", self.path, problem)
                self.is_broken = True
        return list(self.fallback.put(task, parcels))

    def append(self, parcels: list[bytes]) -> list[Span]:
        """Append the batches to the file. Raises OSError. Bytes written before the error are never referenced."""
        self.path.parent.mkdir(mode=0o700, exist_ok=True)
        begin, spans = self.end, []
        with open(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, ONLY_MINE), "wb") as file:
            for each in parcels:
                file.write(each)
                spans.append(Span(str(self.path), begin, len(each)))
                begin += len(each)
        self.end = begin
        return spans


class LocalFiles:
    """Reads the staged files of tasks on the driver. One file is open at a time."""

    def __init__(self) -> None:
        self.path: str | None = None
        self.file: BinaryIO | None = None

    def get(self, span: Span, crc: int) -> bytes:
        """Return the staged batch and check its CRC. Raises SourceError if it is gone."""
        try:
            if self.path != span.path or self.file is None:
                self.close()
                self.file = Path(span.path).open("rb")  # noqa: SIM115  # Open for many reads; `close` ends it.
                self.path = span.path
            self.file.seek(span.offset)
            found = self.file.read(span.size)
        except OSError:
            found = b""
        if len(found) != span.size or crc_of(found) != crc:
            raise staged_rows_gone(f"{span.path} at {span.offset}")
        return found

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
        self.path = self.file = None


def forget_files(parcels: Iterable[StagedBatch], sink: str, batch: int) -> None:
    """Delete the sink's files of this batch, and leftovers of failed attempts at earlier batches."""
    directories = {str(Path(each.place.path).parent): None for each in parcels if isinstance(each.place, Span)}
    prefix = f"{prefix_of(sink)}-"
    for directory in directories:
        with contextlib.suppress(OSError):  # Deleted with the next batch, or with Spark's directory.
            for path in sorted(Path(directory).glob(f"{prefix}*")):
                if int(path.name.removeprefix(prefix).partition("-")[0]) <= batch:
                    path.unlink()
