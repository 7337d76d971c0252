"""`spark.read`: offsets are resolved once, on the driver, when the query is planned."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kraft.spark.client_config import consumer_config
from kraft.spark.errors import show_partitions, start_after_end
from kraft.spark.options import SourceOptions
from kraft.spark.ranges import OffsetRange, split_ranges

if TYPE_CHECKING:
    import pyarrow as pa


class KafkaBatchReader(DataSourceReader):
    """Reads `[start, end)` of every selected partition. Pickled to the workers: holds values only."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.config = consumer_config(options.kafka, f"{options.group_id_prefix}-{uuid.uuid4()}")

    def partitions(self) -> list[InputPartition]:
        from kraft.spark.offset_reader import KafkaOffsetReader

        options, offsets = self.options, KafkaOffsetReader(self.options)
        assert options.ending is not None
        starts, ends = offsets.resolve(options.starting, starting=True), offsets.resolve(options.ending, starting=False)
        if starts.keys() != ends.keys():
            raise RuntimeError(f"different topic partitions for starting offsets [{show_partitions(starts)}] and ending offsets [{show_partitions(ends)}]")
        ranges = [OffsetRange(each.topic, each.partition, starts[each], ends[each]) for each in sorted(ends)]
        for each in ranges:
            if each.start > each.end:
                raise start_after_end(each.topic_partition, each.start, each.end)
        return [InputPartition(each) for each in split_ranges(ranges, options.partitions_min, options.records_per_partition_max)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return fetch(self.options, self.config, partition.value)


def fetch(options: SourceOptions, config: dict[str, str], offsets: OffsetRange | None) -> Iterator[pa.RecordBatch]:
    """The rows of one range. Spark makes up an empty partition (None) when there is none."""
    from kraft.spark.partition_fetcher import PartitionFetcher

    if offsets is None:
        return iter(())
    return iter(
        PartitionFetcher(
            offsets,
            config,
            include_headers=options.include_headers,
            fail_on_data_loss=options.fail_on_data_loss,
            poll_timeout_ms=options.poll_timeout_ms,
        )
    )
