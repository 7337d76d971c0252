"""Checks of a job's files and directories before Spark starts: whether they can be read and written, whether the
checkpoint belongs to this job, and whether the first records have the key.

A checkpoint that may be in another file system than this machine's is not checked here. Spark checks it.
"""

from __future__ import annotations

import csv
import fcntl
import gzip
import io
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from kraft.spark.jobs.files import AVRO, NAMED, SHOWN_MAX, SourceFiles
from kraft.spark.jobs.job_state import NAME, Document
from kraft.spark.jobs.lock import NAME as LOCK
from kraft.spark.jobs.lock import record_of, refusal
from kraft.spark.jobs.processed_files import numbers
from kraft.spark.jobs.running import JobFailed, JobNotFound

LINES_MAX: Final = 1000
FILES_MAX: Final = 20
"""The number of files that are checked. Spark checks the others."""
DEFAULT_FILES: Final = "spark.hadoop.fs.defaultFS"
HADOOP: Final = "HADOOP_CONF_DIR"
UNSEEN: Final = frozenset((".bz2", ".deflate", ".lz4", ".snappy", ".zst"))
"""Compressed text that only Spark reads."""


class LocalCheckpoint:
    """A checkpoint in this machine's file systems. It need not exist."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.checkpoint = str(directory)

    def recall(self) -> Document | None:
        """Return the job's document; None before the first run. Raises JobFailed for a file that no job wrote."""
        try:
            return dict(json.loads((self.directory / NAME).read_text(encoding="utf-8")))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as problem:
            raise JobFailed(f"{self.directory / NAME} cannot be read: {problem.strerror}") from problem
        except (TypeError, ValueError) as problem:
            raise JobFailed(f"{self.directory / NAME} is damaged: {problem}") from problem

    def is_begun(self) -> bool:
        """Whether a query has used this checkpoint."""
        return (self.directory / "offsets").exists()

    def open_batch(self) -> int | None:
        """Return the number of the micro-batch that has begun and is not committed; None if there is none."""
        begun, done = (max(numbers(self.directory / each), default=-1) for each in ("offsets", "commits"))
        return begun if begun > done else None

    def check_free(self) -> None:
        """Raise JobFailed if another run uses the checkpoint, or it cannot be written."""
        check_writable(self.directory)
        try:
            with (self.directory / LOCK).open("r", encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            with (self.directory / LOCK).open("r", encoding="utf-8") as file:
                raise JobFailed(refusal(self.directory, record_of(file))) from None
        except OSError:
            return  # It is not there, or this file system has no locks: the run itself says so.


def local_checkpoint(checkpoint: str, settings: Mapping[str, str]) -> LocalCheckpoint | None:
    """Return the checkpoint if, by Spark's `settings`, it is in this machine's file systems; else None."""
    parts = urlsplit(checkpoint)
    if parts.scheme == "file":
        return LocalCheckpoint(Path(unquote(parts.path)))
    is_elsewhere = len(parts.scheme) > 1 or DEFAULT_FILES in settings or os.environ.get(HADOOP)
    return None if is_elsewhere else LocalCheckpoint(Path(checkpoint))


def check_writable(directory: Path) -> None:
    """Raise JobFailed if the directory cannot be written to or created."""
    place = directory.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise JobFailed(f"{directory} cannot be written: {place} is a file")
    if not os.access(place, os.W_OK | os.X_OK):
        raise JobFailed(f"{directory} cannot be written: {place} is not writable for this user")


def check_readable(place: Path) -> None:
    """Raise JobNotFound if the path does not exist. Raise JobFailed if a file or directory in it cannot be read."""
    if not place.exists():
        raise JobNotFound(f"{place} does not exist")

    def refuse(problem: OSError) -> None:
        raise JobFailed(f"{problem.filename} cannot be read: {problem.strerror}")

    each: Iterable[str] = (str(place),)
    if place.is_dir():
        each = (os.path.join(at, name) for at, _, names in os.walk(place, onerror=refuse) for name in names)
    for path in each:
        if not os.access(path, os.R_OK):
            raise JobFailed(f"{path} cannot be read: permission denied")


def check_first_records(files: SourceFiles, key: str | None, *, lines_may_be_wrong: bool) -> None:
    """Raise JobFailed if the content of the first files does not have their format, or lacks the key."""
    paths = [each for each in files.paths() if each.stat().st_size]
    if files.format == "json":
        check_lines(paths, key, may_be_wrong=lines_may_be_wrong)
        return
    known: dict[str, None] = {}
    looked_at = paths[: FILES_MAX if files.format in (*NAMED, AVRO) else 1]  # The others all have the same columns.
    for path in looked_at:
        found = columns_of(files.format, path)
        if found is None:
            return
        known.update(dict.fromkeys(found))
    if files.by_columns:
        inner = [each.relative_to(files.place).parts[:-1] for each in looked_at]
        known.update(dict.fromkeys(part.partition("=")[0] for parts in inner for part in parts))
    if key is not None and known and key not in known and len(looked_at) < FILES_MAX:
        raise JobFailed(f"there is no column {key}; the columns are {', '.join(known)}")


def columns_of(file_format: str, path: Path) -> list[str] | None:
    """Return the columns of a file; None if only Spark can read them. Raises JobFailed for a file of another format."""
    if file_format == "text":
        return ["value"]
    if file_format == "csv":
        return header_of(path)
    if file_format == AVRO:
        from kraft.spark.jobs.avro_files import AvroFile, errors_named

        with errors_named(path), path.open("rb") as file:
            return [field.name for field in AvroFile(file).shown]
    assert file_format in NAMED
    from pyarrow import lib, orc, parquet

    try:
        schema = orc.ORCFile(path).schema if file_format == "orc" else parquet.read_schema(path)
    except (lib.ArrowException, OSError) as problem:
        raise JobFailed(f"{path} is not a readable {file_format} file: {problem}") from problem
    return list(schema.names)


def header_of(path: Path) -> list[str] | None:
    lines = lines_of(path)
    return None if lines is None else next(csv.reader(lines), None)


def lines_of(path: Path) -> Iterator[str] | None:
    """Return the lines of a plain or gzip-compressed file; None for other compressed files."""
    if path.suffix.lower() in UNSEEN:
        return None
    return text_of(path)


def text_of(path: Path) -> Iterator[str]:
    try:
        is_packed = path.suffix.lower() == ".gz"
        raw: Any = gzip.GzipFile(path, "rb", mtime=0) if is_packed else path.open("rb")
        with io.TextIOWrapper(raw, encoding="utf-8-sig", errors="replace") as file:
            yield from file
    except (OSError, EOFError) as problem:
        raise JobFailed(f"{path} cannot be read: {problem}") from problem


def check_lines(paths: Iterable[Path], key: str | None, *, may_be_wrong: bool) -> None:
    """Check lines that should be JSON objects. Spark accepts some lines that Python's parser rejects. So a line is
    rejected only if it does not start as an object, and the key is checked only if all lines can be parsed."""
    is_missing, seen = key is not None, 0
    for path in paths:
        lines = lines_of(path)
        if lines is None:
            return
        for line in itertools.islice((each.strip() for each in lines), LINES_MAX - seen):
            if not line:
                continue
            seen += 1
            if line.startswith("{"):
                is_missing = is_missing and not has_key(line, key)
            elif not may_be_wrong:
                raise JobFailed(f"{path}: a line is not a JSON object: {line[:SHOWN_MAX]}")
        if seen >= LINES_MAX or (not is_missing and may_be_wrong):
            break
    if is_missing and seen:
        where = "any line" if seen < LINES_MAX else f"the first {LINES_MAX:,} lines"
        raise JobFailed(f"there is no field {key} in {where}")


def has_key(line: str, key: str | None) -> bool:
    """Whether the line has the key, or may have it."""
    try:
        return json.loads(line).get(key) is not None
    except ValueError:
        return True
