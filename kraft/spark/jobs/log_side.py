"""A topic as one side of a comparison: the content of its log when the comparison started, and whether it is compacted.

Offsets are looked up once, so that Spark reads the same records each time it reads a side. Records appended later are
not read. If retention deletes records meanwhile, the job fails.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kraft.common.errors import KraftError
from kraft.mirror.topic_configs import is_compacted
from kraft.spark.errors import PlanIncomplete, show_partitions
from kraft.spark.jobs.access import Access
from kraft.spark.jobs.reading import Reading
from kraft.spark.jobs.running import JobFailed
from kraft.spark.jobs.topic_configs import describe
from kraft.spark.jobs.topics import require_topic
from kraft.spark.source.options import batch_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSide:
    """One topic of a comparison. `starts` (log start offsets) and `ends` (exclusive) are by partition."""

    topic: str
    at: Access
    reading: Reading
    starts: dict[int, int]
    ends: dict[int, int]
    compacted: bool

    def options(self) -> dict[str, str]:
        """The options of a source that reads exactly these records."""
        limits = {"startingOffsets": self.starts, "endingOffsets": self.ends}
        whole = {
            name: json.dumps({self.topic: {str(partition): offset for partition, offset in each.items()}})
            for name, each in limits.items()
        }
        return {**self.reading.options(self.at, self.topic), **whole}

    def rows(self, session: SparkSession) -> DataFrame:
        return session.read.format("kraft").options(**self.options()).load()


def log_side(at: Access, topic: str, *, committed: bool) -> LogSide:
    """Look up a topic's offsets and configuration. Raises JobNotFound, JobFailed."""
    from kraft.spark.source.offset_reader import KafkaOffsetReader

    require_topic(at, topic)
    compacted = is_compacted(describe(at, topic))
    reading = Reading(committed=committed, replace_names=True)
    offsets = KafkaOffsetReader(batch_options(reading.options(at, topic)))
    try:
        assigned = offsets.with_retries(offsets.partitions)
        starts, ends = offsets.earliest(assigned), offsets.latest(dict.fromkeys(assigned, 0))
        if lacking := assigned - starts.keys() | assigned ^ ends.keys():
            raise PlanIncomplete(f"partitions {show_partitions(lacking)}", "their offsets are not known")
    except (OSError, KraftError) as problem:
        raise JobFailed(f"offsets of topic {topic} at {at.bootstrap}: {problem}") from problem
    finally:
        offsets.close()
    return LogSide(
        topic=topic,
        at=at,
        reading=reading,
        starts={each.partition: offset for each, offset in sorted(starts.items())},
        ends={each.partition: offset for each, offset in sorted(ends.items())},
        compacted=compacted,
    )
