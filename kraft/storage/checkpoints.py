"""Small text files that are replaced whole: offset checkpoints, the leader-epoch checkpoint, partition.metadata.

A checkpoint is a version line, a count line, then one line an entry. `replace_file` writes beside the old file,
syncs, renames over it and syncs the directory, so that a crash leaves the old content or the new, never a mixture.
An empty file has no entries (Kafka makes such); a count that differs is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kraft.common.errors import CorruptData
from kraft.common.ids import TopicPartition, Uuid, uuid_from_text, uuid_to_text
from kraft.world.ports import FileSystem

CHECKPOINT_VERSION = 0
FILE_BYTES_MAX = 1 << 30


def read_file(files: FileSystem, path: str) -> bytes | None:
    """The whole content; None when there is no such file."""
    try:
        file = files.open(path, writable=False)
    except FileNotFoundError:
        return None
    try:
        return file.pread(min(file.size(), FILE_BYTES_MAX), 0)
    finally:
        file.close()


def replace_file(files: FileSystem, path: str, content: bytes, *, durable: bool = True, suffix: str = ".tmp") -> None:
    """Replace the file at `path` with `content` atomically. Without `durable` a power loss may undo the replacement or
    leave the file empty. A crash of the process cannot.

    Threads that replace the same file concurrently need distinct `suffix` values.
    """
    beside = path + suffix
    write_file(files, beside, content, durable=durable)
    files.rename(beside, path)
    if durable:
        files.sync_directory(path.rpartition("/")[0])


def put_in_place(files: FileSystem, beside: str, path: str) -> None:
    """Sync the file `beside` and rename it to `path` durably."""
    file = files.open(beside)
    try:
        file.sync()
    finally:
        file.close()
    files.rename(beside, path)
    files.sync_directory(path.rpartition("/")[0])


def write_file(files: FileSystem, path: str, content: bytes, *, durable: bool = False) -> None:
    """Create a file with exactly `content`. A crash during the write leaves a partial file."""
    file = files.open(path, create=True, truncate=True)
    try:
        file.append((content,))
        if durable:
            file.sync()
    finally:
        file.close()


def read_text(files: FileSystem, path: str) -> str | None:
    """The whole content as text; None when there is no such file. Raises CorruptData when it is not UTF-8."""
    content = read_file(files, path)
    try:
        return None if content is None else content.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise CorruptData(f"{path}: not text: {problem}") from problem


def checkpoint_text(lines: Iterable[str]) -> str:
    """The content of a checkpoint file: version, count and entry lines."""
    entries = list(lines)
    return "\n".join((str(CHECKPOINT_VERSION), str(len(entries)), *entries, ""))


def checkpoint_lines(path: str, text: str) -> list[list[str]]:
    """Return the words of each entry. Raises CorruptData naming `path` and the fault."""
    if not text:
        return []
    lines = text.splitlines()
    try:
        version, count = int(lines[0]), int(lines[1])
    except (ValueError, IndexError):
        raise CorruptData(f"{path}: a checkpoint starts with a version line and a count line") from None
    if version != CHECKPOINT_VERSION:
        raise CorruptData(f"{path}: unknown checkpoint version {version}")
    entries = [line.split() for line in lines[2:] if line.strip()]
    if len(entries) != count:
        raise CorruptData(f"{path}: {len(entries)} entries, but the count line says {count}")
    return entries


def read_offset_checkpoint(files: FileSystem, path: str) -> dict[TopicPartition, int]:
    """`<topic> <partition> <offset>` lines; empty when there is no file. Raises CorruptData."""
    text = read_text(files, path)
    offsets = {}
    for words in checkpoint_lines(path, text or ""):
        try:
            topic, partition, offset = words
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise CorruptData(f"{path}: malformed line {' '.join(words)!r}") from None
    return offsets


def offset_line(topic_partition: TopicPartition, offset: int) -> str:
    """One entry of an offset checkpoint."""
    return f"{topic_partition.topic} {topic_partition.partition} {offset}"


def offset_checkpoint_text(offsets: Mapping[TopicPartition, int]) -> str:
    return checkpoint_text(offset_line(*entry) for entry in sorted(offsets.items()))


def partition_metadata_text(topic_id: bytes) -> str:
    return f"version: 0\ntopic_id: {uuid_to_text(topic_id)}"


def read_partition_metadata(files: FileSystem, path: str) -> Uuid | None:
    """The topic id that a partition's directory belongs to; None when the file is missing or empty (a power loss
    before its first flush).

    Raises CorruptData.
    """
    text = read_text(files, path)
    if not text or not text.strip("\x00"):
        return None
    values = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    try:
        if int(values["version"]) != 0:
            raise CorruptData(f"{path}: unknown version {values['version']}")
        return uuid_from_text(values["topic_id"].strip())
    except (KeyError, ValueError) as problem:
        raise CorruptData(f"{path}: malformed: {problem}") from problem
