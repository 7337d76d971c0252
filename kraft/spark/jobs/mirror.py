"""Copy a topic to another cluster. Partitions, order, keys, values, headers and timestamps are preserved. Each record
is copied exactly once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kraft.mirror.topic_configs import carried, dangers, shown
from kraft.security.acls import Operation
from kraft.spark.jobs.access import Access
from kraft.spark.jobs.early_cluster import EarlyCluster, early
from kraft.spark.jobs.early_files import local_checkpoint
from kraft.spark.jobs.job_state import Document, Memory, check_same
from kraft.spark.jobs.reading import AS_IT_IS, Reading, Starts, starts_of
from kraft.spark.jobs.running import JobFailed, Notice, Say, observed, run_to_the_end, state_directory
from kraft.spark.jobs.topic_configs import describe
from kraft.spark.jobs.topics import (
    SeenTopic,
    check_there,
    ensure_topic,
    identity_of,
    log_starts,
    look_up,
    require_topic,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """The parameters of a mirror job. `source` and `target` are clusters. `configs`: whether a created target topic
    gets the configurations that were set for the source topic."""

    topic: str
    source: Access
    target: Access
    target_topic: str
    records_per_batch: int = 500_000
    codec: str = "none"
    configs: bool = True
    checkpoint: str | None = None
    reading: Reading = AS_IT_IS


def check_mirror(wanted: Mirror, settings: Mapping[str, str]) -> None:
    """Check all that can be checked before Spark starts. `settings` are those for Spark. Writes nothing. Raises
    JobNotFound, JobFailed."""
    source = early(wanted.source, lambda cluster: cluster.existing(wanted.topic, Operation.READ))
    ours = describe(wanted.source, wanted.topic)
    configs = carried(ours) if wanted.configs else {}

    def ask(cluster: EarlyCluster) -> SeenTopic:
        found = cluster.target(wanted.target_topic, source.partitions or 1, configs)
        cluster.check_transactions()
        return found

    target = early(wanted.target, ask)
    check_apart(wanted, source, target)
    checkpoint = local_checkpoint(checkpoint_of(wanted, source, target), settings)
    if checkpoint is not None:
        checkpoint.check_free()
        known = checkpoint.recall()
        reading = wanted.reading.settled(known, is_begun=checkpoint.is_begun())
        check_known(replace(wanted, reading=reading), source, target, known, checkpoint.checkpoint)
    if target.partitions is not None:
        check_partitions(wanted, source, target)


def check_apart(wanted: Mirror, source: SeenTopic, target: SeenTopic) -> None:
    """Raise JobFailed if source and target are the same topic."""
    if (source.cluster, wanted.topic) == (target.cluster, wanted.target_topic):
        raise JobFailed(f"{wanted.topic} would be copied to itself: give --target-topic, or another cluster")


def check_partitions(wanted: Mirror, source: SeenTopic, target: SeenTopic) -> None:
    """Raise JobFailed if the target has too few partitions."""
    if (target.partitions or 0) < (source.partitions or 0):
        what = f"{wanted.target_topic} has {target.partitions} partitions, {wanted.topic} has {source.partitions}"
        raise JobFailed(f"{what}: add partitions first (`kraft topics alter`)")


def check_known(wanted: Mirror, source: SeenTopic, target: SeenTopic, known: Document | None, checkpoint: str) -> None:
    """Raise JobFailed if either topic is not that of earlier runs."""
    if known is not None:
        check_there(wanted.target_topic, target, checkpoint)
        check_same(known, wish_of(wanted, source, target), checkpoint)


def checkpoint_of(wanted: Mirror, source: SeenTopic, target: SeenTopic) -> str:
    names = source.cluster, wanted.topic, target.cluster, wanted.target_topic
    before = wanted.source.bootstrap, wanted.topic, wanted.target.bootstrap, wanted.target_topic
    return state_directory(wanted.checkpoint, "mirror", names, before)


def mirror(session: SparkSession, wanted: Mirror, say: Say) -> dict[str, Any]:
    """Copy the topic and return the summary. Raises JobNotFound, JobFailed."""
    source, target = require_topic(wanted.source, wanted.topic), look_up(wanted.target, wanted.target_topic)
    check_apart(wanted, source, target)
    memory = Memory(session, checkpoint_of(wanted, source, target))
    with memory.alone(say):
        reading = wanted.reading.settled(memory.recall(), is_begun=memory.is_begun())
        return mirror_alone(session, replace(wanted, reading=reading), source, target, memory, say)


def mirror_alone(
    session: SparkSession, wanted: Mirror, source: SeenTopic, target: SeenTopic, memory: Memory, say: Say
) -> dict[str, Any]:
    checkpoint, partitions = memory.checkpoint, source.partitions or 0
    starts, configs = prepared(wanted, source, target, memory, say)
    reader = session.readStream.format("kraft").options(
        **wanted.reading.stream_options(wanted.source, wanted.topic, wanted.records_per_batch, starts)
    )
    frame = observed(reader.load().select("key", "value", "headers", "partition", "timestamp"))
    writer = (
        frame.writeStream.format("kraft")
        .option("onDifference", "keep")  # A replayed batch may lack records deleted since.
        .option("taskTransactions", "never")  # The records of a partition keep their order.
        .options(**wanted.target.options)
        .option("topic", wanted.target_topic)
    )
    writer = writer.option("keepTimestamp", "true").option("kafka.compression.type", wanted.codec)
    progress = run_to_the_end(session, writer, checkpoint, say)
    return {
        "job": "mirror",
        "topic": wanted.topic,
        "target_topic": wanted.target_topic,
        "partitions": partitions,
        "records": progress.rows,
        "batches": progress.batches,
        "checkpoint": checkpoint,
        "configs": configs,
    }


def prepared(
    wanted: Mirror, source: SeenTopic, target: SeenTopic, memory: Memory, say: Say
) -> tuple[Starts | None, dict[str, str]]:
    """Check that both topics are those of earlier runs. Returns the offsets at which the first run started, and the
    configurations of a created target topic. Raises JobFailed."""
    known = memory.recall()
    check_known(wanted, source, target, known, memory.checkpoint)
    target, configs = prepared_target(wanted, source, target, say)
    check_partitions(wanted, source, target)
    if known is not None:
        return starts_of(known, source.partitions or 0), configs
    starts = None if memory.is_begun() else log_starts(wanted.source, wanted.topic)
    memory.remember({**wish_of(wanted, source, target), "starts": starts})
    return starts, configs


def prepared_target(wanted: Mirror, source: SeenTopic, target: SeenTopic, say: Say) -> tuple[SeenTopic, dict[str, str]]:
    """Return the target topic, and the configurations with which it was created. An existing topic is not changed. In
    both cases the user is notified if the target's settings would delete records that the source keeps."""
    ours = describe(wanted.source, wanted.topic)
    configs = carried(ours) if wanted.configs and target.partitions is None else {}
    if target.partitions is None:
        try:
            target = ensure_topic(wanted.target, wanted.target_topic, source.partitions or 1, configs)
        except JobFailed as problem:
            hint = (
                f" (they are copied from {wanted.topic} at the source; --no-configs leaves them out)" if configs else ""
            )
            raise JobFailed(f"{problem}{hint}") from problem
        say(
            Notice(
                f"created topic {wanted.target_topic} at {wanted.target.bootstrap} with "
                f"{shown(configs) if configs else 'the defaults there'}"
            )
        )
    for danger in dangers(ours, describe(wanted.target, wanted.target_topic)):
        say(Notice(f"topic {wanted.target_topic} at {wanted.target.bootstrap} {danger}", is_warning=True))
    return target, configs


def wish_of(wanted: Mirror, source: SeenTopic, target: SeenTopic) -> dict[str, str | None]:
    """Return the parameters that must be the same in every run with one checkpoint."""
    sides = {**identity_of(wanted.topic, source, "source "), **identity_of(wanted.target_topic, target, "target ")}
    return {"job": "mirror", **wanted.reading.remembered, **sides}
