"""Errors of the Spark source and sink. Conditions have the official connector's names, so that a search for one finds
its documentation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kraft.common.errors import KraftError
from kraft.common.ids import TopicPartition

RELIEF = (
    "Some data may have been lost because they are not available in Kafka any more; either the data was aged "
    "out by Kafka or the topic may have been deleted "
    "before all the data in the topic was processed."
)
CONTINUE = (
    "If you don't want your streaming query to fail on such cases, set the source option failOnDataLoss to false."
)
PAST_BAD = "Set the source option badRecords to null or column to read on past such records."


class SourceError(KraftError):
    """Raised when a read or write cannot continue. `condition` is the official error condition."""

    def __init__(self, condition: str, message: str) -> None:
        super().__init__(f"[{condition}] {message}")
        self.condition = condition

    def __reduce__(self) -> tuple[type[RuntimeError], tuple[str]]:
        # Crosses process borders as text: the class need not be importable on the other side.
        return RuntimeError, (str(self),)


class DataLoss(SourceError):
    """Raised when offsets that the query needs are gone and failOnDataLoss is true. If it is false, a warning has the
    same text."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"KAFKA_DATA_LOSS.{reason}", f"{RELIEF} {CONTINUE} Reason: {detail}")
        self.detail = detail


class NotYetKnown(SourceError):
    """Raised when a look-up on the driver got no usable response. The caller may retry."""


class LookUpFailed(NotYetKnown):
    """Raised when no broker has given a usable response to a look-up. `seconds` is how long the look-up was tried; None
    if that time says nothing about the cause."""

    def __init__(self, why: str, seconds: float | None) -> None:
        tried = "" if seconds is None else f" The look-up was retried for {seconds:g} s (kafka.default.api.timeout.ms)."
        super().__init__("KAFKA_LOOK_UP_FAILED", f"Metadata or offsets could not be looked up: {why}.{tried}")


class OffsetNotKnown(NotYetKnown):
    """Raised when a client returns neither an offset nor an error for a partition, because its connection broke. The
    caller may retry."""

    def __init__(self, partition: TopicPartition, what: str, told: int | None) -> None:
        answer = "no broker answered" if told is None else f"the answer is {told}, which is not an offset"
        super().__init__(
            "KAFKA_OFFSET_NOT_KNOWN",
            f"The {what} of partition {partition} is not known: {answer}. The connection to the partition's leader "
            "broke, or it has no leader. Run the query again when the partition has a leader, or raise "
            "fetchOffset.numRetries or fetchOffset.retryIntervalMs.",
        )


class PlanIncomplete(NotYetKnown):
    """Raised when a read would leave out partitions. The reason may be a node that lags, so the caller may retry."""

    def __init__(self, missing: str, why: str) -> None:
        super().__init__(
            "KAFKA_PLAN_INCOMPLETE",
            f"The read would leave out {missing}: {why}. Nothing was read. Run the query again; if the error stays, "
            "compare the query's options with what `kraft topics describe` shows.",
        )


def not_read(partition: TopicPartition, start: int, end: int, why: str) -> DataLoss:
    """The error that offsets `[start, end)` of one partition cannot be read."""
    return DataLoss(
        "COULD_NOT_READ_OFFSET_RANGE",
        f"Could not read records in offset [{start}, {end}) for topic partition {partition}: {why}.",
    )


def show_partitions(partitions: Iterable[TopicPartition]) -> str:
    """Format partitions as `t-0, t-1`, in order."""
    return ", ".join(str(partition) for partition in sorted(partitions))


def show_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """Format offsets as `t-0: 5, t-1: 7`, in order."""
    return ", ".join(f"{partition}: {offsets[partition]}" for partition in sorted(offsets))


def start_after_end(partition: TopicPartition, start: int, end: int) -> SourceError:
    """The error that the resolved start of a batch read is beyond its resolved end."""
    return SourceError(
        "RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET",
        f"The resolved start offset {start} is greater than the resolved end offset {end} for topic "
        f"{partition.topic} partition {partition.partition}. "
        "Check whether the start offset is set beyond the end offset or the latest available offset, or "
        "whether the partition was deleted and created again.",
    )


def malformed_header_name(topic: str, partition: int, offset: int, detail: str) -> SourceError:
    """The error for a header name that is not valid UTF-8, so that a Spark string cannot hold it."""
    where = f"topic {topic} partition {partition} offset {offset}"
    return SourceError(
        "KAFKA_MALFORMED_HEADER_NAME", f"The record at {where} has a header whose name is not UTF-8{detail}"
    )


def bad_record(side: str, topic: str, partition: int, offset: int, reason: str) -> SourceError:
    """The error for a key or value that does not match its schema."""
    return SourceError(
        "KAFKA_BAD_RECORD",
        f"The {side} of the record at topic {topic} partition {partition} offset {offset} does not match "
        f"{side}Schema: {reason}. {PAST_BAD}",
    )


def null_topic() -> SourceError:
    """The error for a row without a topic, if the option `topic` is not set either."""
    return SourceError(
        "KAFKA_NULL_TOPIC_IN_DATA",
        (
            "The Kafka message data sent to the producer contains a null topic. Use the `topic` option for "
            "setting a default topic."
        ),
    )


def not_written(reason: str) -> SourceError:
    """The error for a record that a broker rejected or the producer gave up."""
    return SourceError("KAFKA_RECORD_NOT_WRITTEN", reason)


def not_continuous() -> SourceError:
    """The error for continuous mode: Spark passes no rows to a Python sink, and would count all of them as written."""
    return SourceError(
        "KAFKA_SINK_NOT_CONTINUOUS",
        'trigger(continuous=...) cannot write with format("kraft"): Spark passes no rows to a Python sink there. '
        'Nothing was written. Use trigger(processingTime=...), or write with Spark\'s own format("kafka").',
    )


def batch_fenced(transactional_id: str) -> SourceError:
    """The error that another run took over the transaction, or that it timed out. Its rows are not committed."""
    return SourceError(
        "KAFKA_SINK_BATCH_FENCED",
        f"The transaction of {transactional_id} was taken over or ended: another run of the query continues "
        "from the same checkpoint, or writing took longer than kafka.transaction.timeout.ms. Nothing of this attempt "
        "can be read as committed. Stop the other run, or raise kafka.transaction.timeout.ms.",
    )


def task_fenced(transactional_id: str, task: str) -> SourceError:
    """The error that another client ended a task's transaction before the batch was committed."""
    return SourceError(
        "KAFKA_SINK_BATCH_FENCED",
        f"The transaction {task} with rows of a task is no longer open, so this micro-batch of {transactional_id} is "
        "not committed. Another run of the query continues from the same checkpoint, or somebody aborted the "
        "transaction (`kraft transactions abort`). Stop the other run, and start the query again: it repeats the "
        "micro-batch.",
    )


def rows_aborted(transactional_id: str, batch: int, task: str, answer: str) -> SourceError:
    """The error that rows of a committed batch are lost: another client aborted their transaction."""
    return SourceError(
        "KAFKA_SINK_ROWS_ABORTED",
        f"Micro-batch {batch} of {transactional_id} is committed, but the transaction {task} with a part of its rows "
        f"cannot be: its coordinator answered {answer}. Another client aborted it (`kraft transactions abort`, or a "
        "producer with this transactional id). The other rows of the micro-batch are in their topics. To write all of "
        "them again, start the query once with the option onDifference=atleastonce; to continue without the lost rows, "
        "with onDifference=keep.",
    )


def batch_behind(transactional_id: str, batch: int, last: int) -> SourceError:
    """The error that a later batch than this one is already committed."""
    return SourceError(
        "KAFKA_SINK_BATCH_FENCED",
        f"Micro-batch {batch} of {transactional_id} is older than what the query has committed, micro-batch {last}: "
        "another run of the query continues from the same checkpoint, or the checkpoint was set back. Stop the other "
        "run. To write again from an older checkpoint on purpose, set exactlyOnceId to a new text.",
    )


def not_repeatable(batch: int, rows: int, committed: int) -> SourceError:
    """The error that a committed batch was replayed with another number of rows."""
    return SourceError(
        "KAFKA_SINK_BATCH_NOT_REPEATABLE",
        f"Micro-batch {batch} was committed with {committed} rows, and now it has {rows}: the checkpoint was set "
        "back, or the query's result is not deterministic (rand(), the current time). Set the sink option "
        "onDifference to keep to continue with the committed rows, or to atLeastOnce to write all rows of the batch "
        "again.",
    )


def written_twice(batch: int) -> SourceError:
    """The error that foreachBatch writes one batch twice under the same name."""
    return SourceError(
        "KAFKA_SINK_BATCH_WRITTEN_TWICE",
        f"This run of the query has committed micro-batch {batch} already. If a function of foreachBatch writes more "
        "than once with the same option topic, give each write an exactlyOnceId of its own.",
    )


def staged_rows_gone(where: str) -> SourceError:
    """The error that rows which a task has staged do not exist any more."""
    return SourceError(
        "KAFKA_SINK_STAGED_ROWS_GONE",
        f"Rows that a task has staged in {where} are gone: another run of the query has committed the batch, or the "
        "topic was deleted. Nothing of this attempt was committed. Start the query again.",
    )


def not_authorized(topic: str, right: str, principal: str) -> SourceError:
    """The error that the user lacks a permission on a topic, or is denied it."""
    who = principal if principal.startswith("User:") else "User:<name>"
    return SourceError(
        "KAFKA_NOT_AUTHORIZED",
        f"{principal} lacks the permission {right} on topic {topic}, or is denied it. A cluster administrator "
        f"can grant it: kraft acls add --allow-principal '{who}' --operation {right.lower()} --topic {topic}",
    )


def no_transactions(missing: str) -> ValueError:
    """The error that the cluster lacks an API for transactions. No write is attempted."""
    return ValueError(
        f"The cluster does not serve transactions (it lacks {missing}), and without them no micro-batch can be "
        "written exactly once. Set the option exactlyOnce to false to write at least once."
    )
