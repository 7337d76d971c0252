"""Whether a topic agrees with another topic or with an archive: the same records in the same order in each partition.

Records are compared by their place in the partition: key, value, headers and timestamp, and against an archive the offset as well. Offsets of two topics may
differ (compaction, control records), so they are only told.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kraft.spark.jobs.archive import read_archive
from kraft.spark.jobs.reading import Reading
from kraft.spark.jobs.running import JobNotFound, spark_errors
from kraft.spark.jobs.topics import require_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DIFFERENCES_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    """`archive` is a directory; without it the other side is a topic."""

    topic: str
    bootstrap: str
    other_topic: str | None = None
    other_bootstrap: str | None = None
    archive: str | None = None
    ignore_timestamps: bool = False
    committed: bool = False


def verify(session: SparkSession, wanted: Verify) -> dict[str, Any]:
    """`agree`, how many records each side has, and the first difference of each partition. Raises JobNotFound, JobFailed."""
    require_topic(wanted.bootstrap, wanted.topic)
    with spark_errors():
        left = numbered(topic_rows(session, wanted.bootstrap, wanted.topic, wanted.committed), wanted)
        right = numbered(other_rows(session, wanted), wanted)
        return compared(left, right, wanted)


def other_rows(session: SparkSession, wanted: Verify) -> DataFrame:
    if wanted.archive is not None:
        place = Path(wanted.archive).absolute()
        if not any(place.glob("batch=*")):
            raise JobNotFound(f"{wanted.archive} holds no archive (`kraft spark archive` makes one)")
        return read_archive(session, place)
    bootstrap, topic = wanted.other_bootstrap or wanted.bootstrap, wanted.other_topic or wanted.topic
    require_topic(bootstrap, topic)
    return topic_rows(session, bootstrap, topic, wanted.committed)


def topic_rows(session: SparkSession, bootstrap: str, topic: str, committed: bool) -> DataFrame:
    return session.read.format("kraft").options(**Reading(committed=committed, replace_names=True).options(bootstrap, topic)).load()


def numbered(rows: DataFrame, wanted: Verify) -> DataFrame:
    """(partition, place, offset, print): what is compared of each record, as a digest."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    columns = [f.hex("key"), f.hex("value"), f.to_json("headers")]
    columns += [] if wanted.ignore_timestamps else [f.unix_millis("timestamp").cast("string")]
    columns += [f.col("offset").cast("string")] if wanted.archive is not None else []
    whole = f.sha2(f.concat_ws("|", *[f.coalesce(column, f.lit("null")) for column in columns]), 256)
    place = f.row_number().over(Window.partitionBy("partition").orderBy("offset"))
    return rows.select("partition", "offset", whole.alias("print"), place.alias("place"))


def compared(left: DataFrame, right: DataFrame, wanted: Verify) -> dict[str, Any]:
    from pyspark.sql import functions as f

    a, b = left.alias("a"), right.alias("b")
    both = a.join(b, (f.col("a.partition") == f.col("b.partition")) & (f.col("a.place") == f.col("b.place")), "full_outer")
    partition, place = f.coalesce("a.partition", "b.partition"), f.coalesce("a.place", "b.place")
    differs = ~f.col("a.print").eqNullSafe(f.col("b.print"))
    first = f.min_by(f.struct(f.col("a.offset").alias("left"), f.col("b.offset").alias("right")), f.when(differs, place))
    rows = (
        both.groupBy(partition.alias("partition"))
        .agg(f.count("a.offset").alias("left"), f.count("b.offset").alias("right"), f.sum(differs.cast("long")).alias("differences"), first.alias("first"))
        .orderBy("partition")
        .collect()
    )
    different = [row for row in rows if row.differences]
    return {
        "job": "verify",
        "topic": wanted.topic,
        "other": wanted.archive if wanted.archive is not None else wanted.other_topic or wanted.topic,
        "agree": not different,
        "records": sum(row.left for row in rows),
        "other_records": sum(row.right for row in rows),
        "partitions": len(rows),
        "differences": [
            {"partition": row.partition, "count": row.differences, "offset": row["first"]["left"], "other_offset": row["first"]["right"]}
            for row in different[:DIFFERENCES_MAX]
        ],
    }
