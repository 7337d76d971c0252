"""Commit one micro-batch in one transaction: the driver writes the rows of the task attempts that Spark chose, and the
batch's number.

The order matters. First, starting the transaction aborts any open transaction of another run of the query, and fences
that run. Then the batch's own number is written. Last, the previously committed number is read from the log before that
record. No other run can commit in between: it would have to start a transaction first, and that would fence this run.
So a committed batch is never committed again, no matter when a driver was killed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kraft.spark.client.wire import WireCluster
from kraft.spark.errors import batch_behind, not_repeatable, written_twice
from kraft.spark.sink import committed_batches
from kraft.spark.sink.batch_sender import Outgoing
from kraft.spark.sink.committed_batches import CommittedBatch
from kraft.spark.sink.internal_topics import ensure_topic
from kraft.spark.sink.local_staging import LocalFiles, forget_files
from kraft.spark.sink.sink_transaction import SinkTransaction
from kraft.spark.sink.staged_batch import Place, Span, StagedBatch
from kraft.spark.sink.staging import Staging, staging_topic

log = logging.getLogger(__name__)
PREFIX = "kraft-spark"
WAIT_SECONDS_MAX = 120.0


class BatchOrigin(NamedTuple):
    """A micro-batch, and the run of the query that writes it."""

    query: str
    batch: int
    run: str


class SinkIdentity(NamedTuple):
    """One sink of a query. `topic` is the option, or None. `once_id` distinguishes otherwise equal sinks."""

    query: str
    topic: str | None
    once_id: str

    @property
    def transactional_id(self) -> str:
        return "/".join((PREFIX, self.query, self.topic or "*", self.once_id))

    @property
    def staging_topic(self) -> str:
        return staging_topic(self.query, f"{self.topic or '*'}/{self.once_id}")


class CommitRules(NamedTuple):
    """How repeated commits are handled. `on_difference`: what to do with a batch that was committed with another number
    of rows ("fail", "keep", "atleastonce"). `once_a_run`: whether it is an error if the same run commits a batch twice.
    """

    timeout_ms: int
    on_difference: str
    once_a_run: bool


def commit_batch(
    cluster: WireCluster, sink: SinkIdentity, origin: BatchOrigin, parcels: Sequence[StagedBatch], rules: CommitRules
) -> bool:
    """Commit the batch unless it is already committed. Returns whether its rows were written now. Raises SourceError,
    WireError, OSError: then the batch is not committed or the outcome is unknown, and the next attempt finds out."""
    key, staging = sink.transactional_id, Staging(cluster, sink.staging_topic)
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    ensure_topic(cluster, committed_batches.TOPIC, committed_batches.PARTITIONS, committed_batches.CONFIGS, deadline)
    transaction = SinkTransaction(cluster, key, rules.timeout_ms)
    transaction.begin()
    try:
        note = committed_batches.TOPIC, committed_batches.partition_of(key)
        transaction.add([note, *((each.topic, each.partition) for each in parcels)])
        value = CommittedBatch(origin.batch, sum(each.rows for each in parcels), origin.run)
        record = committed_batches.record_of(key, value, time.time_ns() // 1_000_000)
        end = transaction.write([Outgoing(*note, record)])[note]
        last = committed_batches.last_before(cluster, key, end, deadline)
        is_due = must_write(key, value, last, rules)
        if is_due:
            transaction.write(outgoing(parcels, staging))
            transaction.end(is_commit=True)
    except BaseException:
        transaction.abort()
        raise
    if not is_due:
        transaction.abort()
    staging.forget([each.place for each in parcels if isinstance(each.place, Place)])
    forget_files(parcels, key, origin.batch)
    return is_due


def must_write(key: str, value: CommittedBatch, last: CommittedBatch | None, rules: CommitRules) -> bool:
    """Whether the batch still has to be committed, given the last committed batch. Raises SourceError for a batch older
    than the last one, for a second commit in one run, and (as `on_difference` says) for another number of rows."""
    if last is None or last.batch < value.batch:
        return True
    if last.batch > value.batch:
        raise batch_behind(key, value.batch, last.batch)
    if rules.once_a_run and last.run == value.run:
        raise written_twice(value.batch)
    if last.rows == value.rows or rules.on_difference == "keep":
        log.warning("micro-batch %d of %s was committed before its driver ended", value.batch, key)
        return False
    if rules.on_difference == "atleastonce":
        log.warning("micro-batch %d of %s is written again: its rows have changed", value.batch, key)
        return True
    raise not_repeatable(value.batch, value.rows, last.rows)


def outgoing(parcels: Sequence[StagedBatch], staging: Staging) -> Iterator[Outgoing]:
    """Yield the batches in order, with the data of the staged ones."""
    files = LocalFiles()
    try:
        for each in parcels:
            if each.data is not None:
                yield Outgoing(each.topic, each.partition, each.data)
            elif isinstance(each.place, Span):
                yield Outgoing(each.topic, each.partition, files.get(each.place, each.crc))
            else:
                assert each.place is not None
                yield Outgoing(each.topic, each.partition, staging.get(each.place, each.crc))
    finally:
        files.close()
