"""The first and end offsets of partitions, and offsets by timestamp (ListOffsets)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kraft.admin.errors import UNKNOWN_TOPIC, Refused, check
from kraft.admin.transport import AdminTransport
from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.common.listed_offsets import is_offset_answer
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.protocol.messages.list_offsets_response import ListOffsetsResponse

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
"""Sentinels for a timestamp: the log end, the log start, the record with the largest timestamp (KIP-734)."""

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
TIMEOUT_MS = 30_000


class OffsetAtTime(NamedTuple):
    """`offset` is -1 if all records are older than the requested time; `timestamp` is the record's, -1 for start and
    end."""

    offset: int
    timestamp: int
    leader_epoch: int


async def list_offsets(
    port: AdminTransport, times: Mapping[TopicPartition, int], *, isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, OffsetAtTime]:
    """For each partition the first record at or after a time (ms since 1970), or the offset of one of the constants
    above. Raises ApiError."""

    async def attempt() -> dict[TopicPartition, OffsetAtTime]:
        return await _ask(port, await port.by_leader(times), times, isolation)

    return await port.retrying(attempt, final=UNKNOWN_TOPIC)


async def _ask(
    port: AdminTransport,
    by_leader: Mapping[int, Sequence[TopicPartition]],
    times: Mapping[TopicPartition, int],
    isolation: int,
) -> dict[TopicPartition, OffsetAtTime]:
    """List offsets without retries. Raises Refused for the first partition that fails."""

    async def ask(leader: int) -> ListOffsetsResponse:
        request = _request({each: times[each] for each in by_leader[leader]}, isolation)
        return await port.ask(request, ListOffsetsResponse, node_id=leader)

    found: dict[TopicPartition, OffsetAtTime] = {}
    for response in await port.of_each(ask, by_leader):
        for topic in response.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                check(each.error_code, str(partition))
                if not is_offset_answer(each.offset, times[partition]):
                    raise Refused(ErrorCode.OFFSET_NOT_AVAILABLE, f"{partition}: {each.offset} is no offset")
                found[partition] = OffsetAtTime(each.offset, each.timestamp, each.leader_epoch)
    for partition in times:
        if partition not in found:
            raise Refused(ErrorCode.OFFSET_NOT_AVAILABLE, f"{partition}: its leader's answer lacks it")
    return {partition: found[partition] for partition in times}


async def offsets_at(
    port: AdminTransport, partitions: Iterable[TopicPartition], time: int, *, isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, int]:
    """The offset of each partition at the same time."""
    found = await list_offsets(port, dict.fromkeys(partitions, time), isolation=isolation)
    return {partition: at.offset for partition, at in found.items()}


async def offsets_at_leaders(
    port: AdminTransport, leaders: Mapping[TopicPartition, int], time: int, *, isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, int]:
    """The offsets of `offsets_at`, for partitions with known leaders, without retries. Raises Refused for the first
    partition that fails or has no leader (-1)."""
    by_leader: dict[int, list[TopicPartition]] = {}
    for partition, leader in leaders.items():
        if leader < 0:
            raise Refused(ErrorCode.LEADER_NOT_AVAILABLE, str(partition))
        by_leader.setdefault(leader, []).append(partition)
    found = await _ask(port, dict(sorted(by_leader.items())), dict.fromkeys(leaders, time), isolation)
    return {partition: at.offset for partition, at in found.items()}


async def list_offsets_once(
    port: AdminTransport,
    by_leader: Mapping[int, Sequence[TopicPartition]],
    time: int,
    *,
    isolation: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, int | ApiError]:
    """The offset of each partition at `time`, or its error, without retries: a partition that fails does not affect
    others. Partitions whose leader does not answer are left out."""

    async def ask(leader: int) -> ListOffsetsResponse:
        request = _request(dict.fromkeys(by_leader[leader], time), isolation)
        return await port.ask(request, ListOffsetsResponse, node_id=leader)

    found: dict[TopicPartition, int | ApiError] = {}
    for response in await port.ask_brokers(ask, by_leader):
        for topic in response.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                if each.error_code != ErrorCode.NONE:
                    found[partition] = Refused(each.error_code, str(partition))
                elif is_offset_answer(each.offset, time):
                    found[partition] = each.offset
    return found


def _request(times: Mapping[TopicPartition, int], isolation: int) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for (topic, index), time in times.items():
        topics.setdefault(topic, []).append(ListOffsetsPartition(partition_index=index, timestamp=time))
    entries = [ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()]
    return ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=entries, timeout_ms=TIMEOUT_MS)
