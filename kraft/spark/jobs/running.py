"""Run a query until all present records are processed, and report its progress."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kraft.common.errors import KraftError
from kraft.spark.errors import CONTINUE, PAST_BAD

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

POLL_SECONDS = 1
WRITTEN = "written"
"""The name of the observation of written rows: their `records`, which may be fewer than are read, and their `bytes`."""
READING = re.compile(r"reading file (?:file://)?(\S+?)\.\s+SQLSTATE")
SKIP = "With --skip-lost, `kraft spark archive` and `mirror` continue after the lost records."
PAST = "With --bad-records null or column, `kraft spark archive` continues past such records."
"""Advice for users of a job, who cannot set options of its source."""
RAISED = re.compile(r"^(?:kraft\.[\w.]+: |(?=(?:\w+Error|cimpl\.KafkaException): ))")
"""The line of a Python traceback with the error; for kraft's errors without the class."""
AROUND = re.compile(r"^.*?\[PYTHON_\w+\] [^:]*: (?=(?:kraft\.[\w.]+|\w+Error): )")
"""The text that Spark writes before an error that has no traceback."""
CAUSE = re.compile(r"^Caused by: [\w.$]+: ")


class Progress(NamedTuple):
    """A job's progress: micro-batches and rows so far, rows per second in the last batch, and the lag in offsets behind
    the topics' ends (None if the job reads no topic). `share` is known for jobs of files: bytes done and bytes in
    total. `size` is the bytes written so far, `seconds` the duration of the last batch. `is_last`: the query has
    ended."""

    batches: int
    rows: int
    rate: float = 0.0
    behind: int | None = None
    share: tuple[int, int] | None = None
    size: int = 0
    seconds: float = 0.0
    is_last: bool = False


class Part(NamedTuple):
    """A part of a compaction that is merged: its records, its bytes, and the seconds that it took."""

    records: int = 0
    size: int = 0
    seconds: float = 0.0


class Work(NamedTuple):
    """The current work of Spark, the number of completed tasks, and the number of all tasks (0 if unknown). `failed`
    has the failed attempts of tasks by stage."""

    what: str
    done: int = 0
    of: int = 0
    failed: Mapping[int, int] | None = None


class Notice(NamedTuple):
    """A message of a running job. A warning is always shown."""

    text: str
    is_warning: bool = False


JobReport = Progress | Part | Notice | Work
Say = Callable[[JobReport], None]
Share = Callable[[], tuple[int, int]]


class JobFailed(KraftError):
    """Raised when a job cannot run, or its query ended with an error. The message gives the reason in one line."""


class JobNotFound(KraftError):
    """Raised when a topic or path that the job should read does not exist."""


def nothing() -> None:
    """The default for `beside`: do nothing."""


def run_to_the_end(
    session: SparkSession,
    writer: DataStreamWriter,
    checkpoint: str,
    say: Say,
    beside: Callable[[], None] = nothing,
    every_seconds: int | None = None,
    share: Share | None = None,
) -> Progress:
    """Start the query and wait until all present records are processed. With `every_seconds` it runs until SIGINT or
    SIGTERM, and looks for new records at this interval. `beside` is called at intervals, and at the end. `share`
    returns the bytes of files that are done, and the total. Returns the progress of this run. Raises JobFailed."""
    from kraft.spark.jobs.watching import tasks

    when: Any = {"availableNow": True} if every_seconds is None else {"processingTime": f"{every_seconds} seconds"}
    with spark_errors(), terminable(is_endless=every_seconds is not None) as is_asked_to_end:
        query = writer.option("checkpointLocation", checkpoint).trigger(**when).start()
        counted = Counted(share)
        try:
            while not query.awaitTermination(POLL_SECONDS):
                say(Work("writing", *tasks(session)))
                say(counted.take(query))
                beside()
                if is_asked_to_end():
                    say(Notice("stopped: run it again to continue"))
                    break
        finally:
            query.stop()
    whole = counted.take(query)._replace(is_last=True)
    beside()
    say(whole)
    return whole


@contextmanager
def terminable(*, is_endless: bool) -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether SIGINT or SIGTERM was received, for an endless job. Other jobs end on a
    signal as any command does. Raising an exception from the signal handler could interrupt a call to the JVM, and
    break the connection."""
    received: list[int] = []
    if not is_endless:
        yield lambda: False
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [(each, signal.signal(each, lambda number, _: received.append(number))) for each in numbers]
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before:
            signal.signal(number, handler)


@contextmanager
def spark_errors() -> Iterator[None]:
    """Convert Spark's errors, from Python and the JVM, to JobFailed."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as problem:
        raise JobFailed(reason(problem)) from problem


def observed(rows: DataFrame) -> DataFrame:
    """Count the rows, and the bytes of their keys and values, as they are written."""
    from pyspark.sql import functions as f

    lengths = [f.coalesce(f.octet_length(each), f.lit(0)).cast("long") for each in ("key", "value")]
    size = f.coalesce(f.sum(lengths[0] + lengths[1]), f.lit(0))
    return rows.observe(WRITTEN, f.count(f.lit(1)).alias("records"), size.alias("bytes"))


class Counted:
    """Sums up progress reports, counting each batch once (Spark keeps only the last hundred)."""

    def __init__(self, share: Share | None = None) -> None:
        self.last = -1
        self.progress = Progress(0, 0)
        self.share = share

    def take(self, query: StreamingQuery) -> Progress:
        before = self.progress
        for each in query.recentProgress:
            report: dict[str, Any] = json.loads(each.json)
            if report["batchId"] > self.last and report["numInputRows"] > 0:
                self.last = report["batchId"]
                written = report.get("observedMetrics", {}).get(WRITTEN, {})
                rows = written.get("records", report["numInputRows"])
                self.progress = Progress(
                    batches=self.progress.batches + 1,
                    rows=self.progress.rows + rows,
                    rate=float(report.get("processedRowsPerSecond", 0)) * rows / report["numInputRows"],
                    behind=behind(report.get("sources", [])),
                    size=self.progress.size + written.get("bytes", 0),
                    seconds=report.get("durationMs", {}).get("triggerExecution", 0) / 1000,
                )
        if self.share is not None and self.progress is not before:
            self.progress = self.progress._replace(share=self.share())
        return self.progress


def behind(sources: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the lag in offsets of the topics in a progress report behind their ends; None if no source is a topic."""
    lag = None
    for source in sources:
        latest, ends = source.get("latestOffset"), source.get("endOffset")
        if not isinstance(latest, dict) or not isinstance(ends, dict):
            continue
        for topic, offsets in latest.items():
            done = ends.get(topic, {})
            lag = (lag or 0) + sum(max(0, end - done.get(partition, 0)) for partition, end in offsets.items())
    return lag


def reason(problem: Exception) -> str:
    """Return the line of a Spark error that gives the reason: the line of a kraft error if there is one, else the file
    that could not be read, else the first line."""
    lines = [AROUND.sub("", line.strip()) for line in str(problem).splitlines() if line.strip()]
    ours = [RAISED.sub("", line) for line in lines if "KAFKA_" in line or RAISED.match(line)]
    if not ours and (file := READING.search(str(problem))):
        from urllib.parse import unquote

        return (
            f"{unquote(file.group(1))} does not have the expected columns: "
            f"{'; '.join(causes(lines)) or 'it cannot be read'}"
        )
    told = (ours or lines or [type(problem).__name__])[-1 if ours else 0]
    return told.replace(CONTINUE, SKIP).replace(PAST_BAD, PAST)


def causes(lines: Sequence[str]) -> list[str]:
    """Return the causes below the first line of a JVM error: each with its lines, without its class."""
    told: list[str] = []
    inside = False
    for line in lines:
        if CAUSE.match(line):
            inside = True
            told.append(CAUSE.sub("", line))
        elif line.startswith(("at ", "...")):
            inside = False
        elif inside:
            told.append(line)
    return list(dict.fromkeys(told))


def state_directory(checkpoint: str | None, job: str, names: Sequence[str], before: Sequence[str]) -> str:
    """Return the checkpoint directory: the given one, or one in the user's state directory, named by a digest of
    `names`.

    Earlier versions used the current directory, and a digest of `before`. An existing directory there is still used.
    """
    if checkpoint:
        return checkpoint
    earlier = Path("kraft-spark-state").absolute() / f"{job}-{digest(before)}"
    if earlier.exists():
        return str(earlier)
    home = os.environ.get("XDG_STATE_HOME")
    return str((Path(home) if home else Path.home() / ".local/state") / "kraft" / "spark" / f"{job}-{digest(names)}")


def digest(names: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(names).encode()).hexdigest()[:12]
