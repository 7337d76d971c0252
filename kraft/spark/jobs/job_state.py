"""The state that a job keeps beside its checkpoint, so that a later run continues with the same settings on any
machine.

A replayed micro-batch must have the same rows. Spark's checkpoint holds offsets and files. How files become rows and
tasks depends on the session and the machine. So the first run writes `kraft-job.json` into the checkpoint: the job's
parameters, the ids of cluster and topics, the schema of files, and the settings below. Later runs use that schema and
those settings, and are rejected if their parameters differ. A checkpoint of an earlier version has no such file; its
next run writes it.
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kraft.spark.jobs.lock import sole_run
from kraft.spark.jobs.reading import ALL_RECORDS
from kraft.spark.jobs.running import JobFailed, Say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "kraft-job.json"
FILE_TASKS_MIN = "8"
"""The minimum number of tasks of a micro-batch of files; larger ones have tasks of 128 MB each. Spark's default is the
parallelism of the machine."""
SPLIT = "spark.sql.files.minPartitionNum"
KEPT = (
    SPLIT,
    "spark.sql.files.maxPartitionNum",
    "spark.sql.files.maxPartitionBytes",
    "spark.sql.files.openCostInBytes",
    "spark.sql.session.timeZone",
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
    "spark.sql.jsonGenerator.ignoreNullFields",
    "spark.sql.legacy.timeParserPolicy",
)
"""Settings that affect how files are split into tasks, and how rows are written as JSON."""

VALUES, FORMAT, BAD, DEAD = "value schema", "value format", "bad records", "dead letters"
"""Keys of the decoding options of an archive; their values are empty without typed columns. `dead letters` is the topic
for bad records. An ingest job uses the key `dead letter`."""
MEANT = {"reads": ALL_RECORDS, "dead letter": "", "files by": "day", "format": "parquet", VALUES: "", BAD: "", DEAD: ""}
"""Defaults for keys that documents of earlier versions do not have."""

Document = dict[str, Any]


class Remembered(Protocol):
    """The facts about earlier runs that a checkpoint keeps."""

    checkpoint: str

    def recall(self) -> Document | None: ...

    def is_begun(self) -> bool: ...

    def open_batch(self) -> int | None: ...


class Memory:
    """The job's document in one checkpoint, in any file system that Spark can write."""

    def __init__(self, session: SparkSession, checkpoint: str, name: str = NAME) -> None:
        self.name = name
        self.checkpoint = checkpoint
        self.gateway: Any = session.sparkContext._gateway
        jvm: Any = session._jvm
        java: Any = session._jsc
        self.jvm = jvm
        self.path = self.jvm.org.apache.hadoop.fs.Path(checkpoint, name)
        self.configuration = java.hadoopConfiguration()
        self.files = self.path.getFileSystem(self.configuration)

    def alone(self, say: Say) -> AbstractContextManager[None]:
        """Return a lock to hold while a run uses the checkpoint. Only a checkpoint in a local file system is locked.
        Raises JobFailed if another run holds it."""
        directory = self.local
        if directory is None:
            return nullcontext()
        # None where the JVM has started this process, and not the other way round.
        java = getattr(self.gateway, "proc", None)
        return sole_run(directory, None if java is None else java.pid, say)

    @property
    def local(self) -> Path | None:
        """The checkpoint's directory; None if it is not in this machine's file systems."""
        place = self.files.makeQualified(self.jvm.org.apache.hadoop.fs.Path(self.checkpoint)).toUri()
        return Path(place.getPath()) if place.getScheme() == "file" else None

    def is_begun(self) -> bool:
        """Whether a query has used this checkpoint."""
        return bool(self.files.exists(self.jvm.org.apache.hadoop.fs.Path(self.checkpoint, "offsets")))

    def open_batch(self) -> int | None:
        """Return the number of the micro-batch that has begun and is not committed; None if there is none."""
        begun, done = (self.numbers(each) for each in ("offsets", "commits"))
        return begun if begun is not None and (done is None or begun > done) else None

    def numbers(self, name: str) -> int | None:
        """Return the highest number of a file in a directory of the checkpoint; None without files."""
        directory = self.jvm.org.apache.hadoop.fs.Path(self.checkpoint, name)
        if not self.files.exists(directory):
            return None
        names = [str(each.getPath().getName()) for each in self.files.listStatus(directory)]
        return max((int(each) for each in names if each.isdecimal()), default=None)

    def recall(self) -> Document | None:
        """Return the document; None before the first run. Raises JobFailed for a file that no job wrote."""
        if not self.files.exists(self.path):
            return None
        try:
            found = json.loads(self.text(self.name))
        except ValueError as problem:
            raise JobFailed(f"{self.path} is damaged: {problem}") from problem
        return dict(found)

    def text(self, name: str) -> str:
        """Return the text of a file of the checkpoint, which must exist."""
        stream = self.files.open(self.jvm.org.apache.hadoop.fs.Path(self.checkpoint, name))
        try:
            return str(self.jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def remember(self, document: Document) -> None:
        """Write the document atomically: to another name, then rename."""
        beside = self.jvm.org.apache.hadoop.fs.Path(self.checkpoint, f"_{self.name}.new")
        stream = self.files.create(beside, True)
        try:
            stream.write(bytearray(json.dumps(document, indent=1).encode()))
        finally:
            stream.close()
        rename = self.jvm.org.apache.hadoop.fs.Options.Rename
        how = self.gateway.new_array(rename, 1)
        how[0] = rename.OVERWRITE
        context = self.jvm.org.apache.hadoop.fs.FileContext.getFileContext(self.path.toUri(), self.configuration)
        context.rename(context.makeQualified(beside), context.makeQualified(self.path), how)


def check_same(known: Document, wish: Document, checkpoint: str) -> None:
    """Raise JobFailed if a run's parameters or topics differ from those of earlier runs. None means unknown."""
    for name, value in wish.items():
        before = known.get(name, MEANT.get(name))
        if before is None or value is None or before == value:
            continue
        if name.startswith("id of "):
            raise JobFailed(
                f"{name.removeprefix('id of ')} was deleted and recreated since {checkpoint} began (its id "
                f"was {before}, and is {value}): "
                "the checkpoint does not apply to it. To start over, give another checkpoint, or remove this one"
            )
        raise JobFailed(
            f"{checkpoint} belongs to a run with {name} {before or 'none'}, but this run has {value or 'none'}: "
            "give another checkpoint"
        )


def keep_settings(session: SparkSession, kept: dict[str, str | None] | None) -> dict[str, str | None]:
    """Apply the first run's settings to the session. In the first run, return the settings to keep."""
    if kept is None:
        if session.conf.get(SPLIT, None) is None:
            session.conf.set(SPLIT, FILE_TASKS_MIN)
        return {name: session.conf.get(name, None) for name in KEPT}
    for name, value in kept.items():
        if value is not None:
            session.conf.set(name, value)
        elif session.conf.get(name, None) is not None:
            session.conf.unset(name)
    return kept
