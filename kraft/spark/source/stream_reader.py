"""`spark.readStream`: one long-lived object on the driver decides how far each micro-batch reads. The tasks read like
those of a batch read.

Offsets are those of the official connector: the next offset to read of each partition. The limits of a trigger
(minimum, maximum, longest delay) are applied here, because Spark's Python API passes only one limit at a time and no
delay. Under Trigger.AvailableNow the end is fixed when the query starts, and the minimum is ignored: it might never be
reached.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from kraft.spark.client.client_config import consumer_config
from kraft.spark.client.worker_socket import ForWorkers
from kraft.spark.errors import CONTINUE, SourceError, show_offsets, show_partitions
from kraft.spark.option_values import beginning_of, offsets_of_json, offsets_to_json, with_beginning
from kraft.spark.source.batch_reader import fetch
from kraft.spark.source.options import SourceOptions
from kraft.spark.source.ranges import OffsetRange, gone_back, group_ranges, rate_limit, split_ranges
from kraft.spark.source.share_plan import refuse_share_offset
from kraft.spark.worker_traceback import hide_traceback

if TYPE_CHECKING:
    import pyarrow as pa

    from kraft.spark.source.look_ups import Offsets
    from kraft.spark.source.offset_reader import KafkaOffsetReader

log = logging.getLogger(__name__)
RESTART = "The error could be transient - restart your query, and report if you still see the same issue."


class KafkaStreamReader(ForWorkers, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming read. It is pickled to the workers before its client opens. Later state stays on the driver."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.config = consumer_config(
            options.kafka, f"{options.group_id_prefix}-{uuid.uuid4()}-executor", options.security
        )
        self.known_latest: Offsets | None = None
        self.frozen: Offsets | None = None  # the end of everything under Trigger.AvailableNow
        self.initial: Offsets | None = None
        self.last_trigger_s: float | None = None
        self.told: Offsets | None = None  # the last offsets committed for the group
        self.recreated: Offsets = {}  # log starts of recreated topics, for the batch after `recreated_after`
        self.recreated_after: dict[str, Any] | None = None
        self._offsets: KafkaOffsetReader | None = None

    @property
    def offsets(self) -> KafkaOffsetReader:
        if self._offsets is None:
            from kraft.spark.source.offset_reader import KafkaOffsetReader

            self._offsets = KafkaOffsetReader(self.options)
        return self._offsets

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_offsets": None}

    @hide_traceback()
    def initialOffset(self) -> dict[str, Any]:
        """Return the start of the query. Spark asks repeatedly until the first batch is done, and always gets the same
        offsets. Records appended meanwhile belong to that batch."""
        if self.initial is None:
            self.initial = self.offsets.resolve(self.options.starting, starting=True)
        return offsets_to_json(self.initial)

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.options.offsets_per_trigger_max is not None:
            return ReadMaxRows(self.options.offsets_per_trigger_max)
        if self.options.offsets_per_trigger_min is not None:
            return ReadMinRows(self.options.offsets_per_trigger_min)
        return ReadAllAvailable()

    @hide_traceback()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next micro-batch. In the first batch, and after a topic was recreated, `start` is not
        the offset at which the batch begins. The result then has the begin as well, so that Spark's checkpoint keeps
        it."""
        refuse_share_offset(start)
        if start != self.recreated_after:
            self.recreated, self.recreated_after = {}, start
        begin = offsets_of_json(start)
        self.commit_to_group(begin)
        end = self.end_of_batch(begin, limit)
        if self.recreated:
            return with_beginning(end, {**begin, **self.recreated}, unlike=start)
        if end == begin and beginning_of(start) is not None:
            return start  # Nothing is new: another text would be taken for another offset.
        if self.initial is not None and start == offsets_to_json(self.initial):
            return with_beginning(end, self.initial)
        return offsets_to_json(end)

    def skip_to_recreated(self, begin: Offsets, latest: Offsets) -> Offsets:
        """Return the offsets at which the batch from `begin` really starts. A topic that was deleted and recreated is
        read from its log start. Raises DataLoss with failOnDataLoss."""
        if topics := self.offsets.adopt_recreated_topics():
            self.recreated |= self.offsets.earliest(each for each in latest if each.topic in topics)
        return {**begin, **self.recreated}

    def end_of_batch(self, begin: Offsets, limit: ReadLimit) -> Offsets:
        if self.frozen is not None and gone_back(begin, self.frozen):
            # The frozen end came from a leader that was behind: ask again.
            self.frozen = self.offsets.latest(begin)
        latest = self.frozen if self.frozen is not None else self.offsets.latest(begin)
        self.known_latest = latest
        begin = self.skip_to_recreated(begin, latest)
        if isinstance(limit, ReadAllAvailable):
            return latest
        least = limit.min_rows if isinstance(limit, ReadMinRows) else self.options.offsets_per_trigger_min
        if least is not None and self.frozen is None and self.must_wait(least, begin, latest):
            return begin
        if isinstance(limit, ReadMaxRows):
            latest = rate_limit(limit.max_rows, begin, latest, self.offsets.earliest)
        return latest

    def commit_to_group(self, done: Offsets) -> None:
        """Commit the batch's start offsets to the configured group, so that its lag is visible. All records before them
        are done: Spark starts a batch only after the previous one. (Spark commits a batch only when the next one
        starts.)"""
        if self.options.commit_group is not None and done != self.told:
            self.offsets.commit_to_group(self.options.commit_group, done)
            self.told = done

    def must_wait(self, least: int, begin: Offsets, latest: Offsets) -> bool:
        """Whether this trigger is skipped: there are fewer than `least` new offsets, and the longest delay has not
        passed. The first trigger is never skipped."""
        now = time.monotonic()
        overdue = self.last_trigger_s is None or (now - self.last_trigger_s) * 1000 >= self.options.trigger_delay_ms_max
        if not overdue and sum(end - begin.get(partition, 0) for partition, end in latest.items()) < least:
            return True
        self.last_trigger_s = now
        return False

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return offsets_to_json(self.known_latest) if self.known_latest else None

    @hide_traceback()
    def prepareForTriggerAvailableNow(self) -> None:
        self.frozen = self.offsets.latest()

    @hide_traceback()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        refuse_share_offset(end)
        begin, until = offsets_of_json(start), offsets_of_json(end)
        if start != end and (beginning := beginning_of(end)) is not None:
            # When a restarted query tries its first batch again, Spark has asked for another start.
            begin = beginning
        if self.frozen is not None:
            self.check_frozen(self.frozen, until)
        ranges = self.offsets.resolved_ranges(begin, until)
        return [InputPartition(each) for each in self.tasks(ranges)]

    def tasks(self, ranges: list[OffsetRange]) -> list[tuple[OffsetRange, ...]]:
        """Return the ranges of each task. Small ranges share a task, unless the options set how work is split."""
        least, most = self.options.partitions_min, self.options.records_per_partition_max
        split = split_ranges(ranges, least, most)
        return group_ranges(split) if least is None and most is None else [(each,) for each in split]

    def check_frozen(self, frozen: Offsets, until: Offsets) -> None:
        """Check that under Trigger.AvailableNow no partition was removed or truncated since the end was fixed. A
        resumed query may have new partitions since its batch was planned."""
        if not until.keys() <= frozen.keys():
            self.report(
                "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED",
                "Kafka data source in Trigger.AvailableNow should provide the same topic partitions in "
                "pre-fetched offset to end offset for each "
                f"microbatch. {RESTART} topic-partitions for pre-fetched offset: {show_partitions(frozen)}, "
                f"topic-partitions for end offset: {show_partitions(until)}.",
            )
        elif any(end > frozen[partition] for partition, end in until.items()):
            self.report(
                "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_PREFETCHED",
                "For Kafka data source with Trigger.AvailableNow, end offset should have lower or equal "
                "offset per each topic partition than pre-fetched "
                f"offset. {RESTART} pre-fetched offset: {show_offsets(frozen)}, end offset: {show_offsets(until)}.",
            )
        latest = self.offsets.latest(until)
        if not until.keys() <= latest.keys():
            self.report(
                "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW",
                "Some of partitions in Kafka topic(s) have been lost during running query with "
                f"Trigger.AvailableNow. {RESTART} "
                f"topic-partitions for latest offset: {show_partitions(latest)}, topic-partitions for end "
                f"offset: {show_partitions(until)}.",
            )
        elif any(end > latest[partition] for partition, end in until.items()):
            self.report(
                "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW",
                "Some of partitions in Kafka topic(s) report available offset which is less than end offset "
                "during running query with Trigger.AvailableNow. "
                f"{RESTART} latest offset: {show_offsets(latest)}, end offset: {show_offsets(until)}.",
            )

    def report(self, condition: str, message: str) -> None:
        """Raise an error with failOnDataLoss, otherwise log a warning. The task that reads a missing offset range
        reports it again."""
        if self.options.fail_on_data_loss:
            raise SourceError(condition, f"{message} {CONTINUE}")
        log.warning("[%s] %s", condition, message)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return fetch(self.options, self.config, partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the offsets are in Spark's checkpoint."""

    def stop(self) -> None:
        if self._offsets is not None:
            self._offsets.close()


class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of a query whose options were rejected. Each method that Spark may call first raises the reason."""

    def __init__(self, problem: ValueError) -> None:
        self.problem = problem

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    @hide_traceback()
    def refuse(self) -> NoReturn:
        raise self.problem

    def initialOffset(self) -> dict[str, Any]:
        self.refuse()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        self.refuse()

    def prepareForTriggerAvailableNow(self) -> None:
        self.refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        self.refuse()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        self.refuse()
