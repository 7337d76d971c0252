"""Offsets of partitions, asked of their leaders."""

from __future__ import annotations

from collections.abc import Mapping

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.protocol.messages.list_offsets_response import ListOffsetsResponse
from kraft.protocol.messages.metadata_response import MetadataResponseTopic
from kraft_http.kafka.client import Kafka, KafkaProblem, of_each, raise_for

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3

Partition = tuple[str, int]


async def list_offsets(
    kafka: Kafka, leaders: Mapping[Partition, int], timestamp: int | Mapping[Partition, int], *, committed: bool = False
) -> dict[Partition, int]:
    """The offset of each partition at a timestamp or one of the sentinels; -1 where no record is that young.
    `leaders` names the broker to ask for each.

    With `committed`, the latest offset is the last stable one. Raises KafkaProblem for the first partition that has
    no leader or fails.
    """
    by_leader: dict[int, dict[str, list[ListOffsetsPartition]]] = {}
    for (topic, partition), leader in leaders.items():
        if leader < 0:
            raise KafkaProblem(ErrorCode.LEADER_NOT_AVAILABLE, subject=f"{topic}-{partition}")
        asked = timestamp if isinstance(timestamp, int) else timestamp[topic, partition]
        by_leader.setdefault(leader, {}).setdefault(topic, []).append(
            ListOffsetsPartition(partition_index=partition, timestamp=asked)
        )

    async def ask(leader: int) -> ListOffsetsResponse:
        topics = [ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in by_leader[leader].items()]
        request = ListOffsetsRequest(replica_id=-1, isolation_level=int(committed), topics=topics)
        return await kafka.ask(ApiKey.LIST_OFFSETS, 7, request, ListOffsetsResponse, leader)

    offsets: dict[Partition, int] = {}
    for response in await of_each(ask, sorted(by_leader)):
        for topic_response in response.topics:
            for found in topic_response.partitions:
                raise_for(found.error_code, subject=f"{topic_response.name}-{found.partition_index}")
                offsets[topic_response.name, found.partition_index] = found.offset
    return offsets


def leaders_of(topic: MetadataResponseTopic) -> dict[Partition, int]:
    return {(topic.name or "", partition.partition_index): partition.leader_id for partition in topic.partitions}
