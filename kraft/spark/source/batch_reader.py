"""`spark.read`: offsets are resolved once, on the driver, when the query is planned."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from kraft.spark.client.client_config import consumer_config
from kraft.spark.client.worker_heap import freeze_imports
from kraft.spark.client.worker_socket import ForWorkers
from kraft.spark.source.options import SourceOptions
from kraft.spark.source.pushdown import Bounds, bounds_of
from kraft.spark.source.ranges import OffsetRange, split_ranges, whole_ranges
from kraft.spark.worker_traceback import hide_traceback

if TYPE_CHECKING:
    import pyarrow as pa

    from kraft.spark.decode.shape import Shape
    from kraft.spark.source.offset_reader import KafkaOffsetReader


class KafkaBatchReader(ForWorkers, DataSourceReader):
    """Reads `[start, end)` of every selected partition. Pickled to the workers: holds values only."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.config = consumer_config(options.kafka, f"{options.group_id_prefix}-{uuid.uuid4()}", options.security)
        self.bounds = Bounds()

    @hide_traceback()
    def partitions(self) -> list[InputPartition]:
        """Plan one input partition for each task. Raises SourceError, WireError."""
        from kraft.spark.source.offset_reader import KafkaOffsetReader

        with closing(KafkaOffsetReader(self.options)) as offsets:
            ranges = self.planned(offsets)
        least, most = self.options.partitions_min, self.options.records_per_partition_max
        return [InputPartition((each,)) for each in split_ranges(ranges, least, most)]

    def planned(self, offsets: KafkaOffsetReader) -> list[OffsetRange]:
        """Return the offset range to read of each partition. Raises SourceError, WireError."""
        options = self.options
        assert options.ending is not None
        assigned = offsets.with_retries(offsets.whole_selection)
        starts = offsets.resolve(options.starting, starting=True, assigned=assigned)
        ends = offsets.resolve(options.ending, starting=False, assigned=assigned)
        ranges = whole_ranges(assigned, starts, ends)
        return self.narrowed([each._replace(topic_id=offsets.topic_ids.get(each.topic)) for each in ranges], offsets)

    def narrowed(self, ranges: list[OffsetRange], offsets: KafkaOffsetReader) -> list[OffsetRange]:
        """Narrow the ranges by the query's filters."""
        bounds = self.bounds
        kept = [bounds.narrow(each) for each in ranges if bounds.allows(each)]
        if bounds.timestamp_ms_low is None or not kept:
            return kept
        times = dict.fromkeys((each.topic_partition for each in kept), bounds.timestamp_ms_low)
        first = offsets.with_retries(lambda: offsets.list_offsets(times))
        begins = [(each, first[each.topic_partition]) for each in kept]
        return [
            each._replace(start=max(each.start, min(each.end, begin if begin >= 0 else each.end)))
            for each, begin in begins
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return fetch(self.options, self.config, partition.value)


class KafkaFilteringBatchReader(KafkaBatchReader):
    """A KafkaBatchReader that accepts pushed filters (spark.sql.python.filterPushdown.enabled)."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Use the filters to narrow the ranges. Returns all of them, so that Spark applies each filter again."""
        shape = self.options.shape
        self.bounds = bounds_of(
            each for each in filters if shape is None or shape.keeps(getattr(each, "attribute", ("",)))
        )
        return filters


def fetch(
    options: SourceOptions, config: dict[str, str], ranges: Sequence[OffsetRange] | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one task's ranges, in order. `ranges` is None for the empty partition that Spark adds to an
    empty plan."""
    with hide_traceback():
        for each in ranges or ():
            yield from shaped(options.shape, fetcher(options, config, each))
    freeze_imports()


def shaped(shape: Shape | None, rows: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    """Convert the rows to the columns that the options ask for; unchanged without a shape."""
    if shape is None:
        return rows
    from kraft.spark.decode.shape import Shaper

    return map(Shaper(shape).shaped, rows)


def fetcher(options: SourceOptions, config: dict[str, str], offsets: OffsetRange) -> Iterable[pa.RecordBatch]:
    """Return the client that reads one range."""
    if options.direct:
        from kraft.spark.source.direct_fetcher import DirectFetcher

        return DirectFetcher(
            offsets,
            options.kafka["bootstrap.servers"],
            include_headers=options.include_headers,
            fail_on_data_loss=options.fail_on_data_loss,
            poll_timeout_ms=options.poll_timeout_ms,
            attempts_max=options.offset_fetch_attempts_max,
            retry_ms=options.offset_fetch_retry_ms,
            refuse_names=options.refuse_names,
            committed=options.committed,
            security=options.security,
        )
    from kraft.spark.source.partition_fetcher import PartitionFetcher

    return PartitionFetcher(
        offsets,
        config,
        include_headers=options.include_headers,
        fail_on_data_loss=options.fail_on_data_loss,
        poll_timeout_ms=options.poll_timeout_ms,
    )
