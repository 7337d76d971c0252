"""Running a query that takes what there is and ends, and telling how far it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kraft.common.errors import KraftError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

POLL_SECONDS = 1


class Progress(NamedTuple):
    """What a job says on its way: micro-batches and rows so far."""

    batches: int
    rows: int


Say = Callable[[Progress], None]


class JobFailed(KraftError):
    """The query ended with an error, whose last line this is."""


class JobNotFound(KraftError):
    """A topic or a place that the job is to read does not exist."""


def run_to_the_end(writer: DataStreamWriter, checkpoint: str, say: Say) -> Progress:
    """Start the query, wait until it has taken all there is. Answers what this run has moved. Raises JobFailed."""
    from pyspark.errors import PySparkException

    try:
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    except PySparkException as problem:
        raise JobFailed(reason(problem)) from problem
    counted = Counted()
    try:
        while not query.awaitTermination(POLL_SECONDS):
            say(counted.take(query))
    except PySparkException as problem:
        raise JobFailed(reason(problem)) from problem
    finally:
        query.stop()
    whole = counted.take(query)
    say(whole)
    return whole


class Counted:
    """Adds up progress reports, each batch once (Spark keeps only the last hundred)."""

    def __init__(self) -> None:
        self.last = -1
        self.progress = Progress(0, 0)

    def take(self, query: StreamingQuery) -> Progress:
        for each in query.recentProgress:
            report: dict[str, Any] = json.loads(each.json)
            if report["batchId"] > self.last and report["numInputRows"] > 0:
                self.last = report["batchId"]
                self.progress = Progress(self.progress.batches + 1, self.progress.rows + report["numInputRows"])
        return self.progress


def reason(problem: Exception) -> str:
    """The line of a Spark error that says why: ours if one of our errors is in it, else the first."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    ours = [line for line in lines if "KAFKA_" in line or line.startswith(("ValueError:", "RuntimeError:", "TimeoutError:", "ConnectionError:"))]
    return (ours or lines or [type(problem).__name__])[-1 if ours else 0]


def state_directory(checkpoint: str | None, job: str, *names: str) -> str:
    """Where the job remembers how far it is: what was said, or a place of its own under the current directory."""
    import hashlib

    if checkpoint:
        return checkpoint
    digest = hashlib.sha256("\0".join(names).encode()).hexdigest()[:12]
    return str(Path("kraft-spark-state").absolute() / f"{job}-{digest}")
