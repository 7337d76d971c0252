"""Copy many topics to another cluster in one query, which may run endlessly. New topics and partitions are created at
the target before their first record is written.

A micro-batch is one transaction over all topics. The ids of the topics, and the mapping of source to target offsets
(sync_points.py), are in `kraft-mirror.json` beside the job's checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kraft.common.ids import TopicPartition
from kraft.mirror.sync_points import Point, Points, noted
from kraft.mirror.topic_configs import carried
from kraft.security.acls import Operation
from kraft.spark.jobs.access import Access
from kraft.spark.jobs.early_cluster import EarlyCluster, early
from kraft.spark.jobs.early_files import local_checkpoint
from kraft.spark.jobs.group_sync import GroupSync, list_offsets
from kraft.spark.jobs.job_state import Document, Memory, check_same
from kraft.spark.jobs.mirror import Mirror, prepared_target
from kraft.spark.jobs.reading import AS_IT_IS, Reading
from kraft.spark.jobs.running import (
    JobFailed,
    JobNotFound,
    Notice,
    Say,
    nothing,
    observed,
    run_to_the_end,
    state_directory,
)
from kraft.spark.jobs.selection import Selection
from kraft.spark.jobs.topic_configs import describe
from kraft.spark.jobs.topics import SeenTopic, add_partitions, check_there, identity_of, look_up

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OFFSETS = "__consumer_offsets"
COPIES = "kraft-mirror.json"
SOURCE_ID = "id of source topic "
"""The prefix of the key under which a topic's id is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorMany:
    """The parameters of a mirror job of many topics. `every_seconds`: run endlessly, and look for records at this
    interval. `groups`: a pattern of consumer groups whose offsets are copied to the target. The other parameters are as
    in `Mirror`."""

    selection: Selection
    source: Access
    target: Access
    records_per_batch: int = 500_000
    codec: str = "none"
    configs: bool = True
    checkpoint: str | None = None
    every_seconds: int | None = None
    groups: str | None = None
    reading: Reading = AS_IT_IS


def check_mirror_many(wanted: MirrorMany, settings: Mapping[str, str]) -> None:
    """Check all that can be checked before Spark starts. `settings` are those for Spark. Writes nothing. Raises
    JobNotFound, JobFailed."""
    source = early(wanted.source, lambda cluster: cluster.seen(OFFSETS)).cluster

    def ask(cluster: EarlyCluster) -> str:
        found = cluster.seen(OFFSETS).cluster
        cluster.check_transactions()
        return found

    target = early(wanted.target, ask)
    check_apart(wanted, source, target)
    checkpoint = local_checkpoint(checkpoint_of(wanted, source, target), settings)
    known = None if checkpoint is None else checkpoint.recall()
    if checkpoint is not None:
        checkpoint.check_free()
        reading = wanted.reading.settled(known, is_begun=checkpoint.is_begun())
        check_known(replace(wanted, reading=reading), known, source, target, checkpoint.checkpoint)
    if known is None:
        wanted.selection.require(wanted.source)
    check_rights(wanted)


def check_rights(wanted: MirrorMany) -> None:
    """Check the permissions to read the topics that exist now, and to write or create them at the target. Raises
    JobFailed."""
    topics = wanted.selection.now(wanted.source)
    early(wanted.source, lambda cluster: [cluster.seen(each, Operation.READ) for each in topics])
    configs = {each: carried(describe(wanted.source, each)) if wanted.configs else {} for each in topics}
    early(
        wanted.target,
        lambda cluster: [cluster.target(each, found.partitions or 1, configs[each]) for each, found in topics.items()],
    )


def check_apart(wanted: MirrorMany, source: str, target: str) -> None:
    """Raise JobNotFound if no topic matches. Raise JobFailed if source and target are the same cluster."""
    if wanted.every_seconds is None and not wanted.selection.topics and not wanted.selection.now(wanted.source):
        raise JobNotFound(f"no topic at {wanted.source.bootstrap} matches {wanted.selection.pattern}")
    if source == target:
        raise JobFailed("topics would be copied to themselves: several topics keep their names; give another cluster")


def check_known(wanted: MirrorMany, known: Document | None, source: str, target: str, checkpoint: str) -> None:
    """Raise JobFailed if the checkpoint belongs to another job."""
    if known is not None:
        if "topics" not in known:
            raise JobFailed(f"{checkpoint} belongs to a mirror of one topic: give another checkpoint")
        check_same(known, wish_of(wanted, source, target), checkpoint)


def checkpoint_of(wanted: MirrorMany, source: str, target: str) -> str:
    names = source, str(wanted.selection), target
    return state_directory(wanted.checkpoint, "mirror", names, names)


def mirror_many(session: SparkSession, wanted: MirrorMany, say: Say) -> dict[str, Any]:
    """Copy the topics and return the summary. Raises JobNotFound, JobFailed."""
    source, target = cluster_of(wanted.source), cluster_of(wanted.target)
    check_apart(wanted, source, target)
    memory = Memory(session, checkpoint_of(wanted, source, target))
    with memory.alone(say):
        known = memory.recall()
        wanted = replace(wanted, reading=wanted.reading.settled(known, is_begun=memory.is_begun()))
        check_known(wanted, known, source, target, memory.checkpoint)
        copies = Copies(wanted, Memory(session, memory.checkpoint, COPIES), say)
        wanted.selection.require(wanted.source, may_lack=copies.copied if wanted.reading.skip_lost else frozenset())
        if known is None:
            memory.remember(wish_of(wanted, source, target))
        return mirror_alone(session, wanted, memory, copies, say)


def cluster_of(at: Access) -> str:
    return look_up(at, OFFSETS).cluster


def wish_of(wanted: MirrorMany, source: str, target: str) -> Document:
    """Return the parameters that must be the same in every run with one checkpoint."""
    return {
        "job": "mirror",
        **wanted.reading.remembered,
        "topics": str(wanted.selection),
        "source cluster": source,
        "target cluster": target,
    }


def mirror_alone(session: SparkSession, wanted: MirrorMany, memory: Memory, copies: Copies, say: Say) -> dict[str, Any]:
    copies.make()
    options = wanted.reading.stream_options(wanted.source, "", wanted.records_per_batch)
    del options["subscribe"]
    reader = session.readStream.format("kraft").options(**options, **wanted.selection.option)
    groups = None
    if wanted.groups is not None:
        groups = GroupSync(wanted.source, wanted.target, wanted.groups, copies.points_of_all, say)
    progress = run_to_the_end(
        session,
        observed(reader.load()).writeStream.foreachBatch(BatchCopy(wanted, memory, copies)),
        memory.checkpoint,
        say,
        beside=nothing if groups is None else groups.run,
        every_seconds=wanted.every_seconds,
    )
    return {
        "job": "mirror",
        "topics": len(copies.partitions),
        "partitions": sum(copies.partitions.values()),
        "records": progress.rows,
        "batches": progress.batches,
        "checkpoint": memory.checkpoint,
    }


class Copies:
    """The topics at the target, and the mapping of offsets. Used by one thread at a time, except `points_of_all`."""

    def __init__(self, wanted: MirrorMany, memory: Memory, say: Say) -> None:
        known = memory.recall() or {"ids": {}, "points": {}}
        self.wanted, self.memory, self.say = wanted, memory, say
        self.ids: dict[str, str | None] = known["ids"]
        self.points: dict[TopicPartition, Points] = {
            TopicPartition(topic, int(partition)): tuple(Point(*each) for each in points)
            for topic, of_topic in known["points"].items()
            for partition, points in of_topic.items()
        }
        self.partitions: dict[str, int] = {}  # Of topics that this run has made sure of.
        self.missed: frozenset[str] = frozenset()  # Topics that were said to be gone from the source.

    @property
    def copied(self) -> frozenset[str]:
        """The source topics that this run or an earlier one has created or found at the target."""
        return frozenset(each.removeprefix(SOURCE_ID) for each in self.ids if each.startswith(SOURCE_ID))

    def points_of_all(self) -> Mapping[TopicPartition, Points]:
        every = [TopicPartition(topic, each) for topic, count in list(self.partitions.items()) for each in range(count)]
        return {each: self.points.get(each, ()) for each in every}

    def make(self) -> None:
        """Create missing topics and partitions at the target. Raises JobFailed."""
        before, there = dict(self.ids), self.wanted.selection.now(self.wanted.source)
        self.tell_missing(self.copied - there.keys())
        for topic, source in there.items():
            self.check_same(identity_of(topic, source, "source "), topic)
            if self.partitions.get(topic, 0) < (source.partitions or 0):
                self.make_topic(topic, source)
        if self.ids != before:
            self.keep()

    def tell_missing(self, missing: frozenset[str]) -> None:
        """Log each missing source topic once, if the job may skip lost records. Otherwise the query's source fails the
        job."""
        if self.wanted.reading.skip_lost:
            for topic in sorted(missing - self.missed):
                what = f"topic {topic} no longer exists at {self.wanted.source.bootstrap} and is skipped"
                self.say(Notice(f"{what}; its copy stays as it is", is_warning=True))
            self.missed = missing

    def make_topic(self, topic: str, source: SeenTopic) -> None:
        target = look_up(self.wanted.target, topic)
        if f"id of target topic {topic}" in self.ids:
            check_there(topic, target, self.memory.checkpoint)
            self.check_same(identity_of(topic, target, "target "), topic)
        one = Mirror(
            topic=topic,
            source=self.wanted.source,
            target=self.wanted.target,
            target_topic=topic,
            configs=self.wanted.configs,
        )
        if topic not in self.partitions:
            target, _ = prepared_target(one, source, target, self.say)
        count = source.partitions or 0
        if (target.partitions or 0) < count:
            add_partitions(self.wanted.target, topic, count)
            self.say(Notice(f"topic {topic} at {self.wanted.target.bootstrap} has {count} partitions now"))
        for found, side in ((source, "source "), (target, "target ")):
            name = f"id of {side}topic {topic}"
            self.ids[name] = identity_of(topic, found, side)[name]
        self.partitions[topic] = count

    def check_same(self, identity: Mapping[str, str | None], topic: str) -> None:
        """Raise JobFailed for a topic that is not the same topic as in earlier runs."""
        ids = {name: value for name, value in identity.items() if name.endswith(f"topic {topic}")}
        check_same(self.ids, ids, self.memory.checkpoint)

    def note(self, ends: Mapping[TopicPartition, int]) -> None:
        """Record that the target now has exactly the source's records before `ends`."""
        moved = [each for each, end in ends.items() if end > last_of(self.points.get(each, ())).source]
        if not moved:
            return
        at = list_offsets(self.wanted.target, moved, latest=True)
        self.points = {
            **self.points,
            **{each: noted(self.points.get(each, ()), Point(ends[each], at[each])) for each in moved},
        }
        self.keep()

    def keep(self) -> None:
        shaped: dict[str, dict[str, Points]] = {}
        for each, points in sorted(self.points.items()):
            shaped.setdefault(each.topic, {})[str(each.partition)] = points
        self.memory.remember({"ids": self.ids, "points": shaped})


def last_of(points: Points) -> Point:
    return points[-1] if points else Point(-1, 0)


class BatchCopy:
    """Writes a micro-batch, after creating missing topics."""

    def __init__(self, wanted: MirrorMany, memory: Memory, copies: Copies) -> None:
        self.wanted, self.memory, self.copies = wanted, memory, copies

    def __call__(self, frame: DataFrame, number: int) -> None:
        self.copies.make()
        chosen = frame.select("topic", "key", "value", "headers", "partition", "timestamp")
        writer = chosen.write.format("kraft").options(**self.wanted.target.options).mode("append")
        writer = writer.option("exactlyOnce", "true").option("keepTimestamp", "true")
        writer = writer.option("taskTransactions", "never")  # The records of a partition keep their order.
        writer = writer.option("onDifference", "keep")  # A replay may lack deleted records.
        writer.option("kafka.compression.type", self.wanted.codec).save()
        if self.wanted.groups is not None:
            self.copies.note(ends_of(self.memory.text(f"offsets/{number}")))


def ends_of(planned: str) -> dict[TopicPartition, int]:
    """Return the end offsets of a micro-batch from Spark's plan of it. The plan's lines are: version, settings, and the
    source's offsets. A partition number with a leading zero marks the query's start, and is ignored."""
    found = json.loads(planned.splitlines()[2])
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, of_topic in found.items()
        for partition, offset in of_topic.items()
        if partition == str(int(partition))
    }
