"""A topic into another cluster: partitions, order, keys, values, headers and timestamps stay what they are; each record arrives once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kraft.spark.jobs.running import JobFailed, Say, run_to_the_end, state_directory
from kraft.spark.jobs.topics import ensure_topic, require_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """`source` and `target` are bootstrap servers."""

    topic: str
    source: str
    target: str
    target_topic: str
    records_per_batch: int = 500_000
    codec: str = "none"
    checkpoint: str | None = None


def mirror(session: SparkSession, wanted: Mirror, say: Say) -> dict[str, Any]:
    """Raises JobNotFound, JobFailed."""
    partitions = require_topic(wanted.source, wanted.topic)
    there = ensure_topic(wanted.target, wanted.target_topic, partitions)
    if there < partitions:
        raise JobFailed(f"{wanted.target_topic} has {there} partitions, {wanted.topic} has {partitions}: add partitions first (`kraft topics alter`)")
    checkpoint = state_directory(wanted.checkpoint, "mirror", wanted.source, wanted.topic, wanted.target, wanted.target_topic)
    reader = session.readStream.format("kraft").option("kafka.bootstrap.servers", wanted.source).option("subscribe", wanted.topic)
    reader = reader.option("startingOffsets", "earliest").option("includeHeaders", "true").option("maxOffsetsPerTrigger", wanted.records_per_batch)
    frame = reader.load().select("key", "value", "headers", "partition", "timestamp")
    writer = frame.writeStream.format("kraft").option("kafka.bootstrap.servers", wanted.target).option("topic", wanted.target_topic)
    writer = writer.option("keepTimestamp", "true").option("kafka.compression.type", wanted.codec)
    progress = run_to_the_end(writer, checkpoint, say)
    return {
        "job": "mirror", "topic": wanted.topic, "target_topic": wanted.target_topic, "partitions": partitions, "records": progress.rows,
        "batches": progress.batches, "checkpoint": checkpoint,
    }  # fmt: skip
