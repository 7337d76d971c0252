"""The high watermarks of partitions of all brokers, for the lag of share groups (KIP-1226)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

import trio

from kraft.common.errors import KraftError
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.protocol.messages.list_offsets_response import ListOffsetsResponse
from kraft.replication.replica_manager import ReplicaManager
from kraft.rpc_client.connection import Disconnected, UnsupportedApi
from kraft.server.broker_channel import BrokerChannel

LATEST: Final = -1
CONSUMER_ID: Final = -1
ASK_SECONDS_MAX: Final = 5.0


class EndOffsets:
    """Requests high watermarks from the leaders of partitions. Owned by the broker's loop. `leader_of` returns the
    leader of a partition: -1 if there is none, None if the partition does not exist."""

    def __init__(
        self,
        node_id: int,
        replicas: ReplicaManager,
        leader_of: Callable[[TopicPartition], int | None],
        channel: BrokerChannel,
    ) -> None:
        self._node_id = node_id
        self._replicas = replicas
        self._leader_of = leader_of
        self._channel = channel

    async def __call__(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the high watermarks of the partitions. Partitions whose leader does not respond are left out."""
        found: dict[TopicPartition, int] = {}
        by_leader: dict[int, list[TopicPartition]] = {}
        for place in sorted(partitions):
            leader = self._leader_of(place)
            if leader == self._node_id:
                partition = self._replicas.find(*place)
                if partition is not None and partition.is_leader:
                    found[place] = partition.log.high_watermark
            elif leader is not None and leader >= 0:
                by_leader.setdefault(leader, []).append(place)
        async with trio.open_nursery() as asking_nursery:
            for leader, places in by_leader.items():
                asking_nursery.start_soon(self._ask, leader, places, found)
        return found

    async def _ask(self, leader: int, places: list[TopicPartition], found: dict[TopicPartition, int]) -> None:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for topic, index in places:
            topics.setdefault(topic, []).append(ListOffsetsPartition(partition_index=index, timestamp=LATEST))
        request = ListOffsetsRequest(
            replica_id=CONSUMER_ID,
            topics=[ListOffsetsTopic(name=topic, partitions=wanted) for topic, wanted in topics.items()],
        )
        try:
            response: ListOffsetsResponse = await self._channel.send(leader, request, timeout_s=ASK_SECONDS_MAX)
        except (Disconnected, TimeoutError, UnsupportedApi, KraftError):
            return  # Their lag is not known now.
        for topic_response in response.topics:
            for each in topic_response.partitions:
                if each.error_code == ErrorCode.NONE:
                    found[TopicPartition(topic_response.name, each.partition_index)] = each.offset
