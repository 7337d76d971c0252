"""Reads records for one request: start positions, number of records, and the offsets at which to continue. The server
keeps no state between requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from kraft.admin.metadata import Topic
from kraft.admin.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, offsets_at_leaders
from kraft.admin.topics import describe_topic
from kraft.common.ids import TopicPartition, uuid_to_text
from kraft.protocol.records.record import Record
from kraft_http.models.common import CollectionMetadata
from kraft_http.models.records import ConsumedRecord, ConsumedRecords, DataType, UnreadPartition
from kraft_http.records.partition_records import Fetched, FetchedRecord, fetch, size_of
from kraft_http.records.record_codec import show_record
from kraft_http.requests.deps import ClusterContext
from kraft_http.requests.outcomes import Outcome

ANSWER_BYTES_MAX: Final = 64 << 20
"""The records of all partitions in one response, which is built in memory. Partitions that do not fit are read by the
next request."""


GONE: Final = "The topic was deleted and recreated, and has no such partition now."
FETCHES_MAX: Final = 64
"""Fetches of one partition to find its newest records before markers, aborted records and compacted offsets."""
READ_AT_ONCE_MAX: Final = 10_000
FIRST_WINDOW: Final = 16
"""Offsets before the end in the first search for the newest records. The window doubles each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumption:
    """The parameters of a request for records."""

    partition: int | None
    offset: int | None
    positions: Mapping[int, int] | None
    """Start offset of each partition. Partitions are read in this order."""
    topic_id: bytes | None = None
    """Topic id of `positions`; None: the current topic of that name."""
    timestamp: int | None
    tail: int | None
    limit: int
    max_bytes: int
    timeout_ms: int
    data_format: DataType | None
    committed: bool
    from_begin: bool = False
    """Read the partitions of `positions` from their start instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bounds:
    """The start and end offset of each partition, and the reason why a partition is not read."""

    starts: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]
    unread: dict[TopicPartition, str] = field(default_factory=dict)


async def consume(cluster: ClusterContext, topic_name: str, wanted: Consumption) -> ConsumedRecords:
    """Read records in order of partition and offset. Raises Refused, also if a single partition was requested and does
    not have the offset."""
    topic = await describe_topic(cluster.kafka, topic_name)
    is_recreated = wanted.topic_id not in (None, topic.topic_id)
    missing = {}
    if is_recreated and wanted.positions is not None:
        kept = {index: 0 for index in wanted.positions if index < len(topic.partitions)}
        missing = {TopicPartition(topic_name, index): GONE for index in wanted.positions if index not in kept}
        wanted = replace(wanted, positions=kept, from_begin=True)
    leaders = _chosen(topic, wanted)
    alive = {partition: leader for partition, leader in leaders.items() if leader >= 0 or len(leaders) == 1}
    bounds = await _bounds(cluster, alive or leaders, wanted)
    starts, ends = bounds.starts, bounds.ends
    unread = {partition: "It has no leader." for partition in leaders if partition not in alive} | bounds.unread
    readable = [partition for partition in leaders if partition not in unread]
    waiting_ms = wanted.timeout_ms if all(starts[partition] >= ends[partition] for partition in readable) else 0
    if waiting_ms == 0 and (wanted.offset is None or wanted.partition is None):
        readable = [partition for partition in readable if starts[partition] < ends[partition]]
    records: list[ConsumedRecord] = []
    positions = dict(starts)
    if wanted.tail is not None:
        positions = {partition: max(start, ends[partition] - wanted.tail) for partition, start in starts.items()}
    room = ANSWER_BYTES_MAX
    for index, partition in enumerate(readable):
        # What is left, divided among the partitions that are left.
        share = -(-(wanted.limit - len(records)) // (len(readable) - index))
        source = _Source(cluster, partition, leaders[partition], wanted)
        if wanted.tail is None:
            found = await source.read(starts[partition], ends[partition], share, waiting_ms)
        else:
            found = await source.newest(starts[partition], ends[partition], min(share, wanted.tail))
        records += found.records
        positions[partition] = found.next_offset
        waiting_ms = 0
        room -= found.size
        if room <= 0:
            break
    return ConsumedRecords(
        kind="KafkaRecordList",
        metadata=CollectionMetadata(self=str(cluster.url)),
        cluster_id=cluster.cluster_id,
        topic_name=topic_name,
        topic_id=uuid_to_text(topic.topic_id),
        topic_recreated=is_recreated,
        data=records,
        next_offsets={str(partition[1]): position for partition, position in positions.items()},
        end_offsets={str(partition[1]): end for partition, end in ends.items()},
        unread_partitions=[
            UnreadPartition(partition_id=partition, detail=detail)
            for (_, partition), detail in sorted({**unread, **missing}.items())
        ],
    )


def _chosen(topic: Topic, wanted: Consumption) -> dict[TopicPartition, int]:
    """The requested partitions with their leaders. Raises Refused."""
    leaders = topic.leaders()
    if wanted.partition is None and wanted.positions is None:
        return leaders
    indexes = wanted.positions if wanted.partition is None else [wanted.partition]
    chosen = [TopicPartition(topic.name, topic.partition(index).index) for index in indexes or ()]
    return {partition: leaders[partition] for partition in chosen}


async def _bounds(cluster: ClusterContext, leaders: Mapping[TopicPartition, int], wanted: Consumption) -> _Bounds:
    """The start and end offset of each partition. Raises Refused."""
    isolation = READ_COMMITTED if wanted.committed else READ_UNCOMMITTED
    ends = await offsets_at_leaders(cluster.kafka, leaders, LATEST, isolation=isolation)
    if wanted.offset is not None and wanted.partition is not None:
        return _Bounds(starts=dict.fromkeys(leaders, wanted.offset), ends=ends)
    if wanted.timestamp is not None:
        young = await offsets_at_leaders(cluster.kafka, leaders, wanted.timestamp)
        starts = {partition: offset if offset >= 0 else ends[partition] for partition, offset in young.items()}
        return _Bounds(starts=starts, ends=ends)
    earliest = await offsets_at_leaders(cluster.kafka, leaders, EARLIEST)
    if wanted.from_begin or (wanted.offset is None and wanted.positions is None):
        return _Bounds(starts={partition: earliest[partition] for partition in leaders}, ends=ends)
    latest = await offsets_at_leaders(cluster.kafka, leaders, LATEST) if wanted.committed else ends
    asked = {partition: _asked(partition[1], wanted) for partition in leaders}
    starts = {partition: min(max(asked[partition], earliest[partition]), latest[partition]) for partition in leaders}
    unread = {
        partition: f"No record has offset {asked[partition]}: the first is {earliest[partition]}, "
        f"the next will be {latest[partition]}."
        for partition in leaders
        if starts[partition] != asked[partition] or (wanted.positions is None and asked[partition] == latest[partition])
    }
    return _Bounds(starts=starts, ends=ends, unread=unread)


def _asked(index: int, wanted: Consumption) -> int:
    if wanted.positions is not None:
        return wanted.positions[index]
    assert wanted.offset is not None
    return wanted.offset


class _Read(NamedTuple):
    """The records of one read, the offset at which to continue, and the records' size in bytes."""

    records: list[ConsumedRecord]
    next_offset: int
    size: int = 0


class _Source:
    """One partition that is read."""

    def __init__(self, cluster: ClusterContext, partition: TopicPartition, leader: int, wanted: Consumption) -> None:
        self._cluster = cluster
        self._partition = partition
        self._leader = leader
        self._wanted = wanted

    async def read(self, position: int, end: int, count: int, wait_ms: int) -> _Read:
        """Read at most `count` records from `position` on. Markers and compacted offsets are skipped. Raises
        Refused."""
        while count > 0:
            fetched = await self._fetch(position, count, wait_ms)
            if fetched.records:
                shown = [self._show(record, outcome) for record, outcome in fetched.records]
                return _Read(shown, fetched.next_offset, fetched.size)
            if fetched.next_offset >= end or fetched.next_offset == position:
                return _Read([], fetched.next_offset)
            position = fetched.next_offset
        return _Read([], position)

    async def newest(self, start: int, end: int, count: int) -> _Read:
        """Read the last `count` records before `end`, about `max_bytes` at most, but at least one if there is any.
        Raises Refused."""
        found: list[FetchedRecord] = []
        upper, width, room, fetches = end, FIRST_WINDOW, self._wanted.max_bytes, FETCHES_MAX
        is_cut = False
        while upper > start and len(found) < count and not is_cut:
            lower = max(start, upper - width)
            window: deque[FetchedRecord] = deque(maxlen=count - len(found))
            position = lower
            while position < upper and fetches > 0:
                fetches -= 1
                fetched = await self._fetch(position, min(upper - position, READ_AT_ONCE_MAX), 0)
                window.extend(each for each in fetched.records if each.record.offset < upper)
                is_cut |= _drop_oldest(window, room, least=0 if found else 1)
                if fetched.next_offset == position:
                    break
                position = fetched.next_offset
            if position < upper:
                break  # What lies between its records and those that were found is not known.
            room -= sum(size_of(record) for record, _ in window)
            found[:0] = window
            upper, width = lower, 2 * width
        shown = [self._show(record, outcome) for record, outcome in found]
        return _Read(shown, end, self._wanted.max_bytes - room)

    async def _fetch(self, position: int, count: int, wait_ms: int) -> Fetched:
        topic_name, index = self._partition
        return await fetch(
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

    def _show(self, record: Record, outcome: Outcome | None) -> ConsumedRecord:
        return show_record(record, self._partition[1], self._wanted.data_format, outcome)


def _drop_oldest(window: deque[FetchedRecord], room: int, least: int) -> bool:
    """Remove the oldest records until the rest has at most `room` bytes or `least` records. Returns whether any was
    removed."""
    total_bytes = sum(size_of(record) for record, _ in window)
    count = len(window)
    while total_bytes > room and len(window) > least:
        total_bytes -= size_of(window.popleft().record)
    return len(window) < count
