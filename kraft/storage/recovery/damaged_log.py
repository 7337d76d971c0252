"""A log whose files were damaged in the middle: bytes changed after they were written, and whole batches follow.

Loading truncates such a log at the damage, since nothing can be appended behind what cannot be read. But the records
from there on may be acknowledged, so they are neither dropped nor forgotten: the bytes are kept in the folder
`damaged` of the partition's directory, and `damaged/report.json` tells what is missing. While that is not settled the
replica must not lead: it would answer for offsets that it has lost. It is settled once the replica has got the
records from another leader, or a person accepts the loss.

The folder holds no more than the log held, and goes with the partition.
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
"""Of a log that is damaged again and again the report tells the first reasons."""
END_UNKNOWN = (1 << 63) - 1
"""The known end where nothing can be told: the replica may have had any offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DamageReport:
    """`start_offset` is the first offset that is missing; `known_end_offset` (exclusive) is the end of what could
    still be told from the bytes, and `known_epoch` the leader epoch of the last batch there. `kept_bytes` are in the
    folder. `state` is WAITING, FETCHED or ACCEPTED.

    `possible_topic_id` is set where the log lost partition.metadata: the topic that has the name now, as text. The
    log is whole then, but its records may be those of an earlier topic of the name. Accepting takes them for this
    topic's."""

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
        """This damage, found where an earlier one may still be waiting: what that says stays true."""
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
    """The report in a partition's directory; None when there is none. An unreadable one counts as waiting, and as of
    END_UNKNOWN: nobody has settled it. Raises OSError."""
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
    """Durable when it returns. Raises OSError."""
    folder = f"{directory}/{DAMAGED_FOLDER}"
    if not files.exists(folder):
        files.make_directories(folder)
        files.sync_directory(directory)
    replace_file(files, f"{folder}/{REPORT}", json.dumps(asdict(report), indent=1).encode())


def settle_damage(files: FileSystem, directory: str, report: DamageReport, state: str) -> None:
    """The replica may lead again, for the reason that `state` says. Raises OSError."""
    assert report.is_waiting
    assert state in (FETCHED, ACCEPTED)
    write_damage(files, directory, replace(report, state=state))


def set_damaged_aside(
    cache: FileCache, directory: str, segment: LogSegment, later: Sequence[LogSegment], report: DamageReport
) -> Steps[None]:
    """Copy what lies behind `segment.size` into the folder and truncate the file there; move the files of `later`
    segments there. The report comes first, so that a crash in between forgets nothing. Raises OSError."""
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
