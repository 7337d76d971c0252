"""Commit one micro-batch: in one transaction the driver writes the rows of the task attempts that Spark chose, and the
note with the batch's number. Tasks of many rows have written them in transactions of their own, which the note names.

The order matters. First, starting the transaction aborts any open transaction of another run of the query, and fences
that run. Then the batch's own number is written. Last, the previously committed number is read from the log before that
record. No other run can commit in between: it would have to start a transaction first, and that would fence this run.
So a committed batch is never committed again, no matter when a driver was killed.

The committed note decides the tasks' transactions. Those it names are then committed, by this run or by the next one
that repeats the batch. All others that were open before it are aborted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.spark.client.wire import WireCluster
from kraft.spark.errors import batch_behind, not_repeatable, rows_aborted, task_fenced, written_twice
from kraft.spark.sink import committed_batches
from kraft.spark.sink.batch_sender import Outgoing
from kraft.spark.sink.committed_batches import CommittedBatch
from kraft.spark.sink.internal_topics import ensure_topic
from kraft.spark.sink.local_staging import LocalFiles, forget_files
from kraft.spark.sink.open_transactions import end_all, open_transactions, still_open
from kraft.spark.sink.prepared_transactions import (
    PreparedTransaction,
    decoded,
    encoded,
    left_over,
    not_open,
    prefix_of,
)
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


class BatchContent(NamedTuple):
    """The rows of the chosen task attempts: those for the driver to write, and those in open transactions."""

    rows: int
    parcels: tuple[StagedBatch, ...] = ()
    prepared: tuple[PreparedTransaction, ...] = ()


def commit_batch(
    cluster: WireCluster, sink: SinkIdentity, origin: BatchOrigin, content: BatchContent, rules: CommitRules
) -> bool:
    """Commit the batch unless it is already committed. Returns whether its rows were written now. Raises SourceError,
    WireError, OSError: then the batch is not committed or the outcome is unknown, and the next attempt finds out."""
    key, staging = sink.transactional_id, Staging(cluster, sink.staging_topic)
    parcels = content.parcels
    transaction = SinkTransaction(cluster, key, rules.timeout_ms)
    if not content.rows and not content.prepared and not transaction.offers_two_phase():
        return False
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    ensure_topic(cluster, committed_batches.TOPIC, committed_batches.PARTITIONS, committed_batches.CONFIGS, deadline)
    has_tasks = bool(content.prepared) or transaction.offers_two_phase()
    transaction.begin()
    open_before: Sequence[PreparedTransaction] = ()
    try:
        if has_tasks:
            open_before = open_transactions(cluster, prefix_of(key))
        note = committed_batches.TOPIC, committed_batches.partition_of(key)
        transaction.add([note, *((each.topic, each.partition) for each in parcels)])
        value = CommittedBatch(origin.batch, content.rows, origin.run, encoded(content.prepared, key))
        record = committed_batches.record_of(key, value, time.time_ns() // 1_000_000)
        end = transaction.write([Outgoing(*note, record)])[note]
        last = committed_batches.last_before(cluster, key, end, deadline)
        is_lost = last is not None and last.batch == origin.batch and not complete_noted(cluster, key, last, rules)
        is_due = must_write(key, value, last, rules) or (is_lost and rules.on_difference == "atleastonce")
        if is_due:
            require_open(cluster, key, content.prepared, open_before)
            transaction.write(outgoing(parcels, staging))
            transaction.end(is_commit=True)
    except BaseException:
        transaction.abort()
        raise
    if is_due:
        complete_noted(cluster, key, value, rules._replace(on_difference="fail"))
        if last is None or last.batch < origin.batch:
            end_all(cluster, left_over(content.prepared, open_before), is_commit=False)
    else:
        transaction.abort()
        end_all(cluster, content.prepared, is_commit=False)
    staging.forget([each.place for each in parcels if isinstance(each.place, Place)])
    forget_files(parcels, key, origin.batch)
    return is_due


def require_open(
    cluster: WireCluster, key: str, prepared: Sequence[PreparedTransaction], found: Sequence[PreparedTransaction]
) -> None:
    """Check that every chosen transaction is open. Raises SourceError if another client has ended one, WireError,
    OSError. `found` may lack those whose coordinator moved: they are asked for once more."""
    missing = not_open(prepared, found)
    if missing and (ended := not_open(missing, still_open(cluster, missing))):
        raise task_fenced(key, ended[0].transactional_id)


def complete_noted(cluster: WireCluster, key: str, noted: CommittedBatch, rules: CommitRules) -> bool:
    """Commit the transactions that a committed note names. Those that are committed already stay so. Returns False if
    another client has aborted one. Raises SourceError then, unless `on_difference` allows it; WireError, OSError.

    A coordinator that no longer has the producer has committed the transaction long ago: it never removes a
    transactional id with an open one.
    """
    failed = end_all(cluster, decoded(noted.transactions, key), is_commit=True)
    lost = {each: code for each, code in failed.items() if code != ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    for each, code in lost.items():
        problem = rows_aborted(key, noted.batch, each.transactional_id, name_of(code))
        if rules.on_difference == "fail":
            raise problem
        log.warning("%s", problem)
    return not lost


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
