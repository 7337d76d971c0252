"""Choose the number of files in one micro-batch of an ingest, and the timeout of its transaction.

Spark's file source limits a micro-batch either by bytes (`maxBytesPerTrigger`) or by files (`maxFilesPerTrigger`), not
by both. It takes whole files in the order of their modification times. A file above the limit of bytes is a micro-batch
by itself. The limit chosen here keeps both bounds for the files that exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kraft.spark.jobs.running import JobFailed
from kraft.spark.sink.sink_options import TRANSACTION_MS

BY_BYTES: Final = "maxBytesPerTrigger"
BY_FILES: Final = "maxFilesPerTrigger"
BYTES_PER_BATCH: Final = 64 << 20
FILES_PER_BATCH: Final = 100
SLOW_BYTES_PER_SECOND: Final = 4_000_000
"""A transaction's timeout leaves time for writing at this rate: a replicated cluster that is busy."""
FAST_BYTES_PER_SECOND: Final = 16_000_000
"""A file is refused if its transaction, written at this rate, would exceed the brokers' longest timeout."""
GROWTH: Final = 8
"""Rows of a compressed file may have this many times its bytes as they are written."""
COMPRESSED: Final = frozenset((".avro", ".bz2", ".deflate", ".gz", ".lz4", ".orc", ".parquet", ".snappy", ".zst"))
MILLISECONDS: Final = 1000


class Limit(NamedTuple):
    """Spark's option for the limit of a micro-batch, and its value in bytes or files."""

    option: str
    value: int


class FileSize(NamedTuple):
    """A file of the source. `changed_ns` is its modification time in ns since the epoch."""

    path: Path
    size: int
    changed_ns: int


def sizes_of(paths: Iterable[Path]) -> list[FileSize]:
    """Return the files in the order in which Spark takes them. A file that was removed meanwhile is left out."""
    found = []
    for path in paths:
        try:
            seen = path.stat()
        except FileNotFoundError:
            continue
        found.append(FileSize(path, seen.st_size, seen.st_mtime_ns))
    return sorted(found, key=lambda each: (each.changed_ns // 1_000_000, str(each.path)))


def limit_of(sizes: Sequence[int], bytes_max: int, files_max: int, *, is_endless: bool) -> Limit:
    """Return the limit under which no micro-batch of files of these sizes, in this order, exceeds either bound. Of
    several such limits, the one with the fewest micro-batches is returned. An endless run is limited by bytes, because
    the sizes of future files are not known."""
    if all(count <= files_max for count in counts(sizes, Limit(BY_BYTES, bytes_max))):
        return Limit(BY_BYTES, bytes_max)
    filled = sorted(size for size in sizes if size)
    lowered = Limit(BY_BYTES, max(1, min(bytes_max, sum(filled[: files_max + 1]) - 1)))
    if is_endless:
        return lowered
    of_files = Limit(BY_FILES, largest_count(filled, bytes_max, files_max))
    return min(lowered, of_files, key=lambda limit: sum(1 for _ in counts(sizes, limit)))


def largest_count(ascending: Sequence[int], bytes_max: int, files_max: int) -> int:
    """Return the largest n such that any n of the files have at most `bytes_max` bytes in total; at least 1."""
    total = 0
    for count, size in enumerate(reversed(ascending)):
        total += size
        if count == files_max or total > bytes_max:
            return max(1, count)
    return files_max


def counts(sizes: Iterable[int], limit: Limit) -> Iterator[int]:
    """Yield the number of files in each micro-batch."""
    count = total = 0
    for size in sizes:
        is_full = count == limit.value if limit.option == BY_FILES else total + size > limit.value
        if count and is_full:
            yield count
            count = total = 0
        count += 1
        total += size
    if count:
        yield count


def needed_ms(files: Sequence[FileSize], bytes_max: int) -> int:
    """Return the estimated time in ms of the largest micro-batch's transaction on a slow cluster."""
    largest = max([written_bytes(each) for each in files], default=0)
    return max(TRANSACTION_MS, max(bytes_max, largest) * MILLISECONDS // SLOW_BYTES_PER_SECOND)


def transaction_ms(files: Sequence[FileSize], bytes_max: int, granted_ms: int) -> int:
    """Return the timeout in ms of each micro-batch's transaction. `granted_ms` is the longest that the brokers allow
    (transaction.max.timeout.ms). Raises JobFailed for a file that takes longer even on a fast cluster."""
    for each in files:
        if each.size * MILLISECONDS > granted_ms * FAST_BYTES_PER_SECOND:
            raise JobFailed(
                f"{each.path} has {each.size:,} bytes. A file is written in one transaction. This one may take "
                f"{each.size // FAST_BYTES_PER_SECOND:,} s; the brokers allow {granted_ms // MILLISECONDS:,} s. Split "
                "the file, or raise transaction.max.timeout.ms of the brokers"
            )
    return min(granted_ms, needed_ms(files, bytes_max))


def written_bytes(file: FileSize) -> int:
    """Return an estimate of the bytes of the file's rows as records."""
    return file.size * (GROWTH if file.path.suffix.lower() in COMPRESSED else 1)
