"""Reading records for one request: from where, how many, and where to go on. Nothing is kept between requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kraft_http.deps import ClusterContext
from kraft_http.kafka.offsets import EARLIEST, LATEST, Partition, leaders_of, list_offsets
from kraft_http.kafka.records import fetch
from kraft_http.kafka.topics import describe_topic, partition_of
from kraft_http.models.common import CollectionMetadata
from kraft_http.models.records import ConsumedRecord, ConsumedRecords, DataType
from kraft_http.record_codec import show_record

ANSWER_BYTES_MAX: Final = 64 << 20
"""Of all partitions together: an answer is made in the node's memory. Partitions that have no part in it are read by
the next request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumption:
    """What a request asked for."""

    partition: int | None
    offset: int | None
    timestamp: int | None
    tail: int | None
    limit: int
    max_bytes: int
    timeout_ms: int
    data_format: DataType | None
    committed: bool


async def consume(cluster: ClusterContext, topic_name: str, wanted: Consumption) -> ConsumedRecords:
    """Records in order of partition and offset. Raises KafkaProblem, also for an offset outside the log."""
    topic = await describe_topic(cluster.kafka, topic_name)
    leaders = leaders_of(topic)
    if wanted.partition is not None:
        chosen = (topic_name, partition_of(topic, wanted.partition).partition_index)
        leaders = {chosen: leaders[chosen]}
    starts, ends = await _bounds(cluster, leaders, wanted)
    waiting_ms = wanted.timeout_ms if all(starts[partition] >= ends[partition] for partition in leaders) else 0
    records: list[ConsumedRecord] = []
    positions = dict(starts)
    room = ANSWER_BYTES_MAX
    for index, (partition, leader) in enumerate(leaders.items()):
        if starts[partition] >= ends[partition] and waiting_ms == 0 and wanted.offset is None:
            continue
        # What is left, divided among the partitions that are left.
        share = -(-(wanted.limit - len(records)) // (len(leaders) - index))
        source = _Source(cluster, partition, leader, wanted)
        found, positions[partition], size = await source.read(starts[partition], ends[partition], share, waiting_ms)
        records += found
        waiting_ms = 0
        room -= size
        if room <= 0:
            break
    return ConsumedRecords(
        kind="KafkaRecordList",
        metadata=CollectionMetadata(self=str(cluster.url)),
        cluster_id=cluster.cluster_id,
        topic_name=topic_name,
        data=records,
        next_offsets={str(partition[1]): position for partition, position in positions.items()},
        end_offsets={str(partition[1]): end for partition, end in ends.items()},
    )


async def _bounds(
    cluster: ClusterContext, leaders: dict[Partition, int], wanted: Consumption
) -> tuple[dict[Partition, int], dict[Partition, int]]:
    """Where to begin in each partition, and where each ends."""
    ends = await list_offsets(cluster.kafka, leaders, LATEST, committed=wanted.committed)
    if wanted.offset is not None:
        return dict.fromkeys(leaders, wanted.offset), ends
    if wanted.timestamp is not None:
        found = await list_offsets(cluster.kafka, leaders, wanted.timestamp)
        return {partition: offset if offset >= 0 else ends[partition] for partition, offset in found.items()}, ends
    earliest = await list_offsets(cluster.kafka, leaders, EARLIEST)
    if wanted.tail is None:
        return earliest, ends
    return {partition: max(earliest[partition], ends[partition] - wanted.tail) for partition in leaders}, ends


class _Source:
    """One partition to read from."""

    def __init__(self, cluster: ClusterContext, partition: Partition, leader: int, wanted: Consumption) -> None:
        self._cluster = cluster
        self._partition = partition
        self._leader = leader
        self._wanted = wanted

    async def read(self, position: int, end: int, count: int, wait_ms: int) -> tuple[list[ConsumedRecord], int, int]:
        """At most `count` records from `position` on, where to go on, and their bytes. What was compacted away or is
        a marker is skipped."""
        topic_name, index = self._partition
        while count > 0:
            fetched = await fetch(
                self._cluster.kafka,
                topic_name,
                index,
                self._leader,
                position,
                count=count,
                max_bytes=self._wanted.max_bytes,
                max_wait_ms=wait_ms,
                committed=self._wanted.committed,
            )
            if fetched.records:
                return (
                    [show_record(record, index, self._wanted.data_format) for record in fetched.records],
                    fetched.next_offset,
                    fetched.size,
                )
            if fetched.next_offset >= end or fetched.next_offset == position:
                return [], fetched.next_offset, 0
            position = fetched.next_offset
        return [], position, 0
