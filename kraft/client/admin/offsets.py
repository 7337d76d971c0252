"""Where partitions begin and end, and where a moment in time lies in them (ListOffsets)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kraft.client.cluster import UNKNOWN_TOPIC, Cluster
from kraft.client.errors import check
from kraft.common.ids import TopicPartition
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
"""Instead of a time: the end of the log, its begin, the record with the greatest timestamp (KIP-734)."""

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
TIMEOUT_MS = 30_000


class OffsetAtTime(NamedTuple):
    """`offset` is -1 when no record is as late as was asked; `timestamp` is the record's, -1 for begin and end."""

    offset: int
    timestamp: int
    leader_epoch: int


async def list_offsets(
    cluster: Cluster, times: Mapping[TopicPartition, int], *, isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, OffsetAtTime]:
    """For each partition the first record at or after a time (ms since 1970), or one of the constants above. Raises
    ApiError."""

    async def attempt() -> dict[TopicPartition, OffsetAtTime]:
        found: dict[TopicPartition, OffsetAtTime] = {}
        for leader, partitions in (await cluster.by_leader(times)).items():
            response = await cluster.call(
                _request({each: times[each] for each in partitions}, isolation), node_id=leader
            )
            for topic in response.topics:
                for each in topic.partitions:
                    partition = TopicPartition(topic.name, each.partition_index)
                    check(each.error_code, str(partition))
                    found[partition] = OffsetAtTime(each.offset, each.timestamp, each.leader_epoch)
        return {partition: found[partition] for partition in times}

    return await cluster.retrying(attempt, final=UNKNOWN_TOPIC)


async def offsets_at(
    cluster: Cluster, partitions: Iterable[TopicPartition], time: int, *, isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, int]:
    """The same time for all, and offsets only."""
    found = await list_offsets(cluster, dict.fromkeys(partitions, time), isolation=isolation)
    return {partition: at.offset for partition, at in found.items()}


def _request(times: Mapping[TopicPartition, int], isolation: int) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for (topic, index), time in times.items():
        topics.setdefault(topic, []).append(ListOffsetsPartition(partition_index=index, timestamp=time))
    entries = [ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()]
    return ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=entries, timeout_ms=TIMEOUT_MS)
