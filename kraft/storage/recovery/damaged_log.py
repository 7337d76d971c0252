"""A log damaged in the middle: bytes changed after they were written, and whole batches follow.

Loading truncates such a log at the damage, because nothing can be appended behind unreadable bytes. But the records
from there on may be acknowledged, so they are kept: the bytes in the folder `damaged` of the partition's directory, and
a description of the missing range in `damaged/report.json`. Until that is settled the replica must not lead, because it
would serve offsets that it has lost. It is settled once the replica has fetched the records from another leader, or an
operator accepts the loss.

The folder holds no more than the log held, and is deleted with the partition.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from kraft.common.errors import CorruptData
from kraft.common.ids import TopicPartition
from kraft.storage.checkpoints import read_text, replace_file
from kraft.storage.file_cache import FileCache
from kraft.storage.log_files import LOG_SUFFIX, parse_directory_name
from kraft.storage.log_segment import LogSegment
from kraft.world.ports import File, FileSystem
from kraft.world.steps import Steps

DAMAGED_FOLDER = "damaged"
REPORT = "report.json"
COPY_BYTES = 1 << 20

WAITING = "waiting"
FETCHED = "fetched from another replica"
ACCEPTED = "accepted"
REASON_CHARS_MAX = 2000
"""Limit of the reasons in a report. It has the first ones."""
END_UNKNOWN = (1 << 63) - 1
"""The known end if it cannot be determined: the replica may have had any offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DamageReport:
    """The damage of a log. `start_offset` is the first missing offset. `known_end_offset` (exclusive) is the end of the
    batches still found in the bytes, `known_epoch` the leader epoch of the last of them. `kept_bytes` are in the
    folder. `state` is WAITING, FETCHED or ACCEPTED.

    `possible_topic_id` is set if the log lost partition.metadata: the id of the topic that now has the name, as text.
    The log is whole then, but its records may belong to an earlier topic of that name. Accepting assigns them to this
    topic.
    """

    since_ms: int
    start_offset: int
    known_end_offset: int
    kept_bytes: int
    reason: str
    known_epoch: int = -1
    state: str = WAITING
    possible_topic_id: str = ""

    @property
    def is_waiting(self) -> bool:
        return self.state not in (FETCHED, ACCEPTED)

    def after(self, earlier: DamageReport | None) -> DamageReport:
        """Combine this damage with an earlier report that may still be waiting. The combined report covers the missing
        ranges of both."""
        if earlier is None or not earlier.is_waiting:
            return self
        return replace(
            self,
            since_ms=earlier.since_ms,
            start_offset=min(self.start_offset, earlier.start_offset),
            known_end_offset=max(self.known_end_offset, earlier.known_end_offset),
            known_epoch=max(self.known_epoch, earlier.known_epoch),
            kept_bytes=self.kept_bytes + earlier.kept_bytes,
            reason=f"{earlier.reason}; {self.reason}"[:REASON_CHARS_MAX],
            possible_topic_id=earlier.possible_topic_id,
        )


def read_damage(files: FileSystem, directory: str) -> DamageReport | None:
    """Read the report in a partition's directory; None if there is none. An unreadable report counts as waiting with
    END_UNKNOWN, because it was never settled. Raises OSError."""
    path = f"{directory}/{DAMAGED_FOLDER}/{REPORT}"
    try:
        text = read_text(files, path)
        return None if text is None else DamageReport(**json.loads(text))
    except (CorruptData, ValueError, TypeError) as problem:
        return DamageReport(
            since_ms=0,
            start_offset=0,
            known_end_offset=END_UNKNOWN,
            kept_bytes=0,
            reason=f"{path} cannot be read: {problem}",
        )


def find_damaged(files: FileSystem, directory: str) -> list[tuple[TopicPartition, str, DamageReport]]:
    """(partition, its directory, report) of every log of a log directory that has a report. Raises OSError."""
    found = []
    for name in files.list_directory(directory):
        topic_partition = parse_directory_name(name)
        report = None if topic_partition is None else read_damage(files, f"{directory}/{name}")
        if topic_partition is not None and report is not None:
            found.append((topic_partition, f"{directory}/{name}", report))
    return found


def write_damage(files: FileSystem, directory: str, report: DamageReport) -> None:
    """Write the report durably. Raises OSError."""
    folder = f"{directory}/{DAMAGED_FOLDER}"
    if not files.exists(folder):
        files.make_directories(folder)
        files.sync_directory(directory)
    replace_file(files, f"{folder}/{REPORT}", json.dumps(asdict(report), indent=1).encode())


def settle_damage(files: FileSystem, directory: str, report: DamageReport, state: str) -> None:
    """Mark the damage as settled, so that the replica may lead again. `state` is the reason. Raises OSError."""
    assert report.is_waiting
    assert state in (FETCHED, ACCEPTED)
    write_damage(files, directory, replace(report, state=state))


def set_damaged_aside(
    cache: FileCache, directory: str, segment: LogSegment, later: Sequence[LogSegment], report: DamageReport
) -> Steps[None]:
    """Copy the bytes behind `segment.size` into the folder, truncate the file there, and move the files of `later`
    segments into the folder. The report is written first, so that a crash in between loses nothing. Raises OSError."""
    files, folder = cache.files, f"{directory}/{DAMAGED_FOLDER}"
    write_damage(files, directory, report)
    yield None
    for moved in reversed(later):
        path = moved.path(LOG_SUFFIX)
        cache.forget(path)
        files.rename(path, f"{folder}/{path.rpartition('/')[2]}")
        moved.delete_files()
    source = segment.open_log().file
    name = segment.path(LOG_SUFFIX).rpartition("/")[2]
    target = files.open(f"{folder}/{name}.from-{segment.size}", create=True, truncate=True)
    try:
        yield from _copy(source, segment.size, target)
        yield target.sync
    finally:
        target.close()
    files.sync_directory(folder)
    files.sync_directory(directory)
    source.truncate(segment.size)
    yield source.sync


def _copy(source: File, position: int, target: File) -> Steps[None]:
    end = source.size()
    while position < end:
        chunk = source.pread(min(COPY_BYTES, end - position), position)
        if not chunk:
            break
        target.append((chunk,))
        position += len(chunk)
        yield None
