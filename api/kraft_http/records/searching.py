"""Searches a topic for records that match a condition, partition by partition, within limits.

A search runs in short slices and waits in proportion to what it has read. All searches of a node share one rate, so
that any number of them leaves the node to its clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final

from kraft.admin.errors import Refused
from kraft.admin.metadata import Topic
from kraft.admin.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, offsets_at_leaders
from kraft.admin.topics import describe_topic
from kraft.common.errors import ApiError, ProtocolError
from kraft.common.ids import TopicPartition
from kraft.rpc_client.partitioner import partition_for_key
from kraft_http.models.records import DataType, UnreadPartition
from kraft_http.models.searches import EndReason, SearchEnd, SearchHit, SearchProgress, SearchStart
from kraft_http.records.partition_records import Chunk, Place, size_of
from kraft_http.records.record_codec import show_record
from kraft_http.records.search_conditions import Condition, TooLarge
from kraft_http.requests.deps import ClusterContext
from kraft_http.requests.errors import ApiProblem

SEARCHES_MAX: Final = 4
"""Limit of concurrent searches of a node."""
RECORDS_PER_SECOND: Final = 50_000
BYTES_PER_SECOND: Final = 16 << 20
"""Limits of all searches of a node together. The one that is reached first applies."""
CHUNK_BYTES: Final = 256 * 1024
SLICE_SECONDS: Final = 0.004
"""Time of searching between two yields."""
PROGRESS_SECONDS: Final = 0.5
HITS_BYTES_MAX: Final = 16 << 20


class Searches:
    """The running searches of a node, and the rate that they share."""

    def __init__(self) -> None:
        self.running = 0
        self._free_at = 0.0

    def enter(self) -> None:
        """Count a new search. Raises ApiProblem if too many are running."""
        if self.running >= SEARCHES_MAX:
            raise ApiProblem(
                429,
                f"{SEARCHES_MAX} searches run on this node already.",
                hint="Stop one of them, use another node, or try again later.",
            )
        self.running += 1

    def leave(self) -> None:
        self.running -= 1

    def debt(self, records: int, size: int, since: float, now: float) -> float:
        """The seconds to wait after reading `records` of `size` bytes between `since` and `now`."""
        cost = max(records / RECORDS_PER_SECOND, size / BYTES_PER_SECOND)
        self._free_at = max(since, self._free_at) + cost
        return max(0.0, self._free_at - now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The parameters of a search."""

    condition: Condition
    partitions: tuple[int, ...] | None
    """None means all partitions, or the partition of the key."""
    everywhere: bool
    from_offset: int | None
    to_offset: int | None
    committed: bool
    limit: int
    seconds: float
    data_format: DataType | None


def chosen(topic: Topic, wanted: Wanted) -> tuple[tuple[int, ...], str | None]:
    """The partitions to read, and the reason if they are not all. Raises Refused for a partition that does not
    exist."""
    count = len(topic.partitions)
    if wanted.partitions is not None:
        return tuple(topic.partition(index).index for index in sorted(dict.fromkeys(wanted.partitions))), None
    if wanted.condition.key is None or wanted.everywhere or count < 2:
        return tuple(range(count)), None
    owner = partition_for_key(wanted.condition.key, count)
    return (owner,), (
        f"Only partition {owner} is read, where the default partitioner puts this key. Records of other partitioners, "
        "or from before partitions were added, may be elsewhere: everywhere=true reads all."
    )


@dataclass(slots=True)
class _Tally:
    total: int
    begun_at: float
    offsets: int = 0
    records: int = 0
    size: int = 0
    hits: int = 0
    hits_size: int = 0
    too_large: int = 0

    def counts(self, now: float) -> dict[str, int]:
        return {
            "offsets_read": self.offsets,
            "offsets_total": self.total,
            "records_read": self.records,
            "bytes_read": self.size,
            "hits": self.hits,
            "elapsed_ms": round((now - self.begun_at) * 1000),
        }


@dataclass(slots=True, kw_only=True)
class Search:
    """One search, from `open` to its last line."""

    wanted: Wanted
    searches: Searches
    places: Mapping[int, Place]
    positions: dict[int, int]
    """First offset of each partition that was not searched."""
    ends: Mapping[int, int]
    note: str | None
    unread: dict[int, str]
    tally: _Tally
    told_at: float
    reason: EndReason | None = None

    @classmethod
    async def open(cls, cluster: ClusterContext, topic_name: str, wanted: Wanted, searches: Searches) -> Search:
        """Prepare a search. Raises Refused, also if the caller may not read the topic."""
        topic = await describe_topic(cluster.kafka, topic_name)
        indexes, note = chosen(topic, wanted)
        places = {
            index: Place(cluster.kafka, topic_name, index, topic.partitions[index].leader)
            for index in indexes
            if topic.partitions[index].leader >= 0
        }
        starts, ends = await _bounds(cluster, places, wanted)
        for index, place in places.items():
            # A caller without permission gets the error before the response begins. The records are read again.
            await place.read(starts[index], 1, 0, committed=wanted.committed)
            break
        now = _now()
        return cls(
            wanted=wanted,
            searches=searches,
            places=places,
            positions=starts,
            ends=ends,
            note=note,
            unread={index: "It has no leader." for index in indexes if index not in places},
            tally=_Tally(sum(max(0, ends[index] - starts[index]) for index in places), now),
            told_at=now,
        )

    async def lines(self) -> AsyncIterator[SearchStart | SearchHit | SearchProgress | SearchEnd]:
        yield SearchStart(kind="start", partitions=list(self.places), note=self.note, offsets_total=self.tally.total)
        detail = None
        try:
            for index in self.places:
                async for line in self._partition(index):
                    yield line
                if self.reason is not None:
                    break
        except (ConnectionError, ApiError) as problem:
            self.reason, detail = EndReason.FAILED, str(problem)
        yield SearchEnd(
            kind="end",
            reason=self.reason or EndReason.ALL_READ,
            detail=detail,
            too_large=self.tally.too_large,
            next_offsets={str(index): position for index, position in self.positions.items()},
            unread_partitions=[
                UnreadPartition(partition_id=index, detail=why) for index, why in sorted(self.unread.items())
            ],
            **self.tally.counts(_now()),
        )

    async def _partition(self, index: int) -> AsyncIterator[SearchHit | SearchProgress]:
        """Search one partition until its end, or until there is a reason to end the search. An error of this partition
        ends only its part. Raises ApiError, ConnectionError."""
        try:
            while self.reason is None and (position := self.positions[index]) < self.ends[index]:
                began = _now()
                chunk = await Chunk.read(self.places[index], position, CHUNK_BYTES, committed=self.wanted.committed)
                self.tally.size += chunk.size
                await asyncio.sleep(self.searches.debt(0, chunk.size, began, _now()))
                async for line in self._chunk(index, chunk):
                    yield line
                if self.positions[index] == position:
                    return  # Its log ends sooner than it did: nothing more is there.
        except (Refused, ProtocolError) as problem:
            told = problem.sentence if isinstance(problem, Refused) else str(problem)
            self.unread[index] = f"From offset {self.positions[index]} on: {told}"

    async def _chunk(self, index: int, chunk: Chunk) -> AsyncIterator[SearchHit | SearchProgress]:
        """Search one chunk. Raises Refused, ProtocolError."""
        slice_began, looked_at = _now(), 0
        end, condition, tally = self.ends[index], self.wanted.condition, self.tally
        for record, origin in chunk.records():
            if record.offset >= end:
                break
            tally.records += 1
            looked_at += 1
            try:
                fits = condition.fits(record)
            except TooLarge:
                tally.too_large += 1
                fits = False
            if fits:
                shown = show_record(record, index, self.wanted.data_format, await chunk.outcome(origin))
                tally.hits += 1
                tally.hits_size += size_of(record)
                self._read_to(index, record.offset + 1)
                yield SearchHit(kind="hit", record=shown)
            if tally.hits >= self.wanted.limit or tally.hits_size >= HITS_BYTES_MAX:
                self.reason = EndReason.HITS
                return
            if _now() - slice_began >= SLICE_SECONDS:
                self._read_to(index, record.offset + 1)
                await asyncio.sleep(self.searches.debt(looked_at, 0, slice_began, _now()))
                slice_began, looked_at = _now(), 0
                self._end_if_late()
                if self.reason is not None:
                    return
                if slice_began - self.told_at >= PROGRESS_SECONDS:
                    self.told_at = slice_began
                    yield SearchProgress(kind="progress", **tally.counts(slice_began))
        self._read_to(index, min(chunk.next_offset, end))
        await asyncio.sleep(self.searches.debt(looked_at, 0, slice_began, _now()))
        self._end_if_late()

    def _read_to(self, index: int, position: int) -> None:
        self.tally.offsets += position - self.positions[index]
        self.positions[index] = position

    def _end_if_late(self) -> None:
        if _now() - self.tally.begun_at >= self.wanted.seconds:
            self.reason = EndReason.TIME


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _bounds(
    cluster: ClusterContext, places: Mapping[int, Place], wanted: Wanted
) -> tuple[dict[int, int], dict[int, int]]:
    """The start and end offset of each partition. Raises Refused."""
    leaders = {TopicPartition(place.topic, index): place.leader for index, place in places.items()}
    isolation = READ_COMMITTED if wanted.committed else READ_UNCOMMITTED
    earliest = await offsets_at_leaders(cluster.kafka, leaders, EARLIEST)
    latest = await offsets_at_leaders(cluster.kafka, leaders, LATEST, isolation=isolation)
    from_time = wanted.condition.from_time_ms
    young = earliest if from_time is None else await offsets_at_leaders(cluster.kafka, leaders, from_time)
    starts, ends = {}, {}
    for partition, first in earliest.items():
        end = latest[partition]
        start = young[partition] if young[partition] >= 0 else end
        starts[partition.partition] = min(max(first, start, wanted.from_offset or 0), end)
        ends[partition.partition] = end if wanted.to_offset is None else min(end, wanted.to_offset)
    return starts, ends
