"""What goes wrong between Spark and a topic. Conditions carry the official connector's names, so that a search for
one finds its documentation."""

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
REMEDY = (
    "To go on, set the sink option onDifference to atLeastOnce: what differs is then written behind what an earlier "
    "attempt wrote. To write each row once, a task that is tried again needs the same rows in the same order: no "
    "uuid(), rand() or current time in a row. After a shuffle, write within foreachBatch: "
    "frame.sortWithinPartitions(<all columns>).write.format('kraft') with the option exactlyOnce=true."
)


class SourceError(KraftError):
    """A read cannot go on. `condition` is the official error condition."""

    def __init__(self, condition: str, message: str) -> None:
        super().__init__(f"[{condition}] {message}")
        self.condition = condition

    def __reduce__(self) -> tuple[type[RuntimeError], tuple[str]]:
        # Crosses process borders as text: the class need not be importable on the other side.
        return RuntimeError, (str(self),)


class DataLoss(SourceError):
    """Offsets that the query needs are gone. Raised only where failOnDataLoss is true; elsewhere it is a warning
    with the same text."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"KAFKA_DATA_LOSS.{reason}", f"{RELIEF} {CONTINUE} Reason: {detail}")
        self.detail = detail


def not_read(partition: TopicPartition, start: int, end: int, why: str) -> DataLoss:
    """Offsets `[start, end)` of one partition cannot be read."""
    return DataLoss(
        "COULD_NOT_READ_OFFSET_RANGE",
        f"Could not read records in offset [{start}, {end}) for topic partition {partition}: {why}.",
    )


def show_partitions(partitions: Iterable[TopicPartition]) -> str:
    """`t-0, t-1`, in order."""
    return ", ".join(str(partition) for partition in sorted(partitions))


def show_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """`t-0: 5, t-1: 7`, in order."""
    return ", ".join(f"{partition}: {offsets[partition]}" for partition in sorted(offsets))


def start_after_end(partition: TopicPartition, start: int, end: int) -> SourceError:
    """The batch read's resolved start lies beyond its resolved end."""
    return SourceError(
        "RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET",
        f"The resolved start offset {start} is greater than the resolved end offset {end} for topic "
        f"{partition.topic} partition {partition.partition}. "
        "Check whether the start offset is set beyond the end offset or the latest available offset, or "
        "whether the partition was deleted and created again.",
    )


def malformed_header_name(topic: str, partition: int, offset: int, detail: str) -> SourceError:
    """A header's name that no string of Spark can hold as it is."""
    where = f"topic {topic} partition {partition} offset {offset}"
    return SourceError(
        "KAFKA_MALFORMED_HEADER_NAME", f"The record at {where} has a header whose name is not UTF-8{detail}"
    )


def null_topic() -> SourceError:
    """A row that says no topic, where no option says one."""
    return SourceError(
        "KAFKA_NULL_TOPIC_IN_DATA",
        (
            "The Kafka message data sent to the producer contains a null topic. Use the `topic` option for "
            "setting a default topic."
        ),
    )


def not_repeatable(what: str) -> SourceError:
    return SourceError("KAFKA_SINK_BATCH_NOT_REPEATABLE", f"{what}. {REMEDY}")
