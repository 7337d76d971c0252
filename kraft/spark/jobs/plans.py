"""What a job would do (`--dry-run`): run its checks, and count what it would read. Spark is not started, and nothing is
written.

Records of topics are counted by offsets. This is an upper bound: transaction markers and compacted records have
offsets, too. A checkpoint outside this machine's file systems is not read; the plan is then that of a first run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kraft.common.ids import TopicPartition
from kraft.spark.jobs.access import Access
from kraft.spark.jobs.archive import BATCH, CHECKPOINT, TOPIC, WHOLE, Archive, check_archive
from kraft.spark.jobs.archive_table import TableArchive, check_archive_table, of_topic
from kraft.spark.jobs.batches import counts, sizes_of
from kraft.spark.jobs.compact import Compact, archives_in, check_compact, count_files, groups
from kraft.spark.jobs.delta import is_table
from kraft.spark.jobs.early_files import local_checkpoint
from kraft.spark.jobs.files import source_files
from kraft.spark.jobs.group_sync import list_offsets
from kraft.spark.jobs.iceberg import find_table
from kraft.spark.jobs.ingest import Ingest, bounds_of, check_ingest, checkpoint_of
from kraft.spark.jobs.mirror import Mirror, check_mirror
from kraft.spark.jobs.mirror import checkpoint_of as mirror_checkpoint_of
from kraft.spark.jobs.mirror_many import MirrorMany, check_mirror_many, cluster_of, ends_of
from kraft.spark.jobs.mirror_many import checkpoint_of as many_checkpoint_of
from kraft.spark.jobs.processed_files import ProcessedFiles, numbers
from kraft.spark.jobs.selection import Selection
from kraft.spark.jobs.topics import SeenTopic, look_up

Plan = dict[str, Any]
Settings = Mapping[str, str]


def plan_ingest(wanted: Ingest, settings: Settings) -> Plan:
    """Return what an ingest would do. Raises JobNotFound, JobFailed."""
    check_ingest(wanted, settings)
    given, found = Path(wanted.path).absolute(), look_up(wanted.at, wanted.topic)
    checkpoint = checkpoint_of(wanted, given, found)
    local = local_checkpoint(checkpoint, settings)
    known = None if local is None else local.recall()
    place = Path(known["place"]) if known is not None else given.resolve()
    present = sizes_of(source_files(wanted.format, place).paths())
    left = present if local is None else ProcessedFiles(local.directory).left(present)
    limit, _ = bounds_of(wanted, present)
    return {
        "job": "ingest",
        "dry_run": True,
        "path": str(place),
        "topic": wanted.topic,
        "creates_topic": found.partitions is None,
        "files": len(left),
        "bytes": sum(each.size for each in left),
        "batches": sum(1 for _ in counts([each.size for each in left], limit)),
        "checkpoint": checkpoint,
    }


def plan_archive(wanted: Archive, selection: Selection, settings: Settings) -> Plan:
    """Return what an archive job would do. Raises JobNotFound, JobFailed."""
    check_archive(wanted, selection, settings)
    place, records, batches = Path(wanted.directory).absolute(), 0, 0
    topics = selection.require(wanted.at)
    for topic, found in topics.items():
        directory = place if len(selection.topics) == 1 else place / f"{TOPIC}{topic}"
        left = records_left(wanted.at, {topic: found}, str(directory / CHECKPOINT), settings)
        records, batches = records + left, batches + -(-left // wanted.records_per_batch)
    return {
        "job": "archive",
        "dry_run": True,
        "topics": list(topics),
        "directory": str(place),
        "records_at_most": records,
        "batches": batches,
    }


def plan_archive_table(wanted: TableArchive, selection: Selection, settings: Settings) -> Plan:
    """Return what an archive job to a table would do. Raises JobNotFound, JobFailed."""
    check_archive_table(wanted, selection, settings)
    topics, records, batches = selection.require(wanted.at), 0, 0
    for topic, found in topics.items():
        one = of_topic(wanted, topic, found, is_one=len(selection.topics) == 1)
        left = records_left(wanted.at, {topic: found}, str(one.checkpoint), settings)
        records, batches = records + left, batches + -(-left // wanted.records_per_batch)
    return {
        "job": "archive",
        "dry_run": True,
        "topics": list(topics),
        "table": wanted.table.shown,
        "creates_table": find_table(wanted.table) is None,
        "records_at_most": records,
        "batches": batches,
    }


def plan_mirror(wanted: Mirror, settings: Settings) -> Plan:
    """Return what a mirror job would do. Raises JobNotFound, JobFailed."""
    check_mirror(wanted, settings)
    source, target = look_up(wanted.source, wanted.topic), look_up(wanted.target, wanted.target_topic)
    checkpoint = mirror_checkpoint_of(wanted, source, target)
    left = records_left(wanted.source, {wanted.topic: source}, checkpoint, settings)
    creates = [wanted.target_topic] if target.partitions is None else []
    return copied([wanted.topic], creates, left, wanted.records_per_batch, checkpoint)


def plan_mirror_many(wanted: MirrorMany, settings: Settings) -> Plan:
    """Return what a mirror job of many topics would do. Raises JobNotFound, JobFailed."""
    check_mirror_many(wanted, settings)
    topics = wanted.selection.now(wanted.source)
    checkpoint = many_checkpoint_of(wanted, cluster_of(wanted.source), cluster_of(wanted.target))
    left = records_left(wanted.source, topics, checkpoint, settings)
    creates = [each for each in topics if look_up(wanted.target, each).partitions is None]
    return copied(list(topics), creates, left, wanted.records_per_batch, checkpoint)


def copied(topics: list[str], creates: list[str], records: int, records_per_batch: int, checkpoint: str) -> Plan:
    return {
        "job": "mirror",
        "dry_run": True,
        "topics": topics,
        "creates_topics": creates,
        "records_at_most": records,
        "batches": -(-records // records_per_batch),
        "checkpoint": checkpoint,
    }


def plan_compact(wanted: Compact, settings: Settings) -> Plan:
    """Return what a compaction would do. The library decides how a Delta table is compacted. Raises JobNotFound,
    JobFailed."""
    check_compact(wanted, settings)
    archives = archives_in(Path(wanted.directory).absolute())
    merged = [
        group
        for each in archives
        if not is_table(each)
        for group in groups(
            sorted(one for one in each.glob(f"{BATCH}*") if (one / WHOLE).is_file())[:-1], wanted.bytes_max
        )
    ]
    return {
        "job": "compact",
        "dry_run": True,
        "archives": [str(each) for each in archives],
        "tables": sum(map(is_table, archives)),
        "batches": len(merged),
        "batches_merged": sum(map(len, merged)),
        "files": count_files([each for group in merged for each in group]),
        "bytes": sum(path.stat().st_size for group in merged for each in group for path in each.rglob("*.parquet")),
    }


def records_left(at: Access, topics: Mapping[str, SeenTopic], checkpoint: str, settings: Settings) -> int:
    """Return the number of offsets of the topics after the checkpoint. Raises JobFailed."""
    partitions = [
        TopicPartition(topic, each) for topic, found in topics.items() for each in range(found.partitions or 0)
    ]
    local = local_checkpoint(checkpoint, settings)
    done = {} if local is None else done_offsets(local.directory)
    begins, ends = (list_offsets(at, partitions, latest=latest) for latest in (False, True))
    return total(ends[each] - max(begins[each], done.get(each, 0)) for each in partitions)


def total(offsets: Iterable[int]) -> int:
    return sum(max(0, each) for each in offsets)


def done_offsets(directory: Path) -> dict[TopicPartition, int]:
    """Return the end offsets of the last completed micro-batch; empty before the first."""
    done = numbers(directory / "commits")
    return ends_of((directory / "offsets" / str(max(done))).read_text(encoding="utf-8")) if done else {}
