"""A cluster whose answers a test gives: metadata and producer ids as it says, everything else from a function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchRequest
from kraft.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kraft.protocol.messages.list_offsets_request import ListOffsetsRequest
from kraft.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kraft.protocol.messages.metadata_request import MetadataRequest
from kraft.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kraft.protocol.messages.produce_request import ProduceRequest
from kraft.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.pending_call import PendingCall
from kraft.world.simulated import Universe

Answer = Callable[[Any, int | None], Awaitable[Any]]


class ScriptedCall(PendingCall):
    """Asks for the answer, of the same request, as often as somebody waits."""

    def __init__(self, answer: Callable[[], Awaitable[Any]]) -> None:
        self._answer = answer

    async def wait(self) -> Any:
        return await self._answer()

    def abandon(self) -> None: ...


class ScriptedCluster(Cluster):
    """`leaders` are those of each topic's partitions, -1 nobody; a topic that is not there does not exist. Either
    may change at any time."""

    def __init__(self, universe: Universe, leaders: dict[str, list[int]], answer: Answer) -> None:
        super().__init__(universe.world_for("client"), [("nowhere", 1)])
        self.leaders = leaders
        self.answer = answer
        self.ids: dict[str, bytes] = {}
        """Of topics that were recreated; the others have ids that are made of their names."""
        self.metadata_asked = 0
        self.producer_ids = 0

    def apart(self) -> Cluster:
        return self

    async def _call(self, request: Any, *, node_id: int | None, version: int | None, seconds: float | None) -> Any:
        await trio.lowlevel.checkpoint()
        if isinstance(request, InitProducerIdRequest):
            self.producer_ids += 1
            return InitProducerIdResponse(producer_id=self.producer_ids, producer_epoch=0)
        if isinstance(request, MetadataRequest):
            self.metadata_asked += 1
            names = list(self.leaders) if request.topics is None else [topic.name or "" for topic in request.topics]
            brokers = [MetadataResponseBroker(node_id=node_id) for node_id in (1, 2)]
            return MetadataResponse(brokers=brokers, topics=[self._topic(name) for name in names])
        return await self.answer(request, node_id)

    async def begin(self, request: Any, *, node_id: int, seconds: float, lane: object) -> PendingCall:
        return ScriptedCall(lambda: self.call(request, node_id=node_id))

    def topic_id(self, name: str) -> bytes:
        return self.ids.get(name, name.encode().ljust(16, b"-"))

    def _topic(self, name: str) -> MetadataResponseTopic:
        if name not in self.leaders:
            return MetadataResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partitions = [
            MetadataResponsePartition(partition_index=index, leader_id=leader)
            for index, leader in enumerate(self.leaders[name])
        ]
        return MetadataResponseTopic(name=name, topic_id=self.topic_id(name), partitions=partitions)


def sent(request: ProduceRequest) -> dict[TopicPartition, bytes]:
    """The batch for each partition."""
    return {
        TopicPartition(topic.name, each.index): bytes(each.records or b"")
        for topic in request.topic_data
        for each in topic.partition_data
    }


def stored(outcomes: dict[TopicPartition, tuple[int, int]]) -> ProduceResponse:
    """Error code and first offset for each partition."""
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic,
                partition_responses=[PartitionProduceResponse(index=index, error_code=code, base_offset=offset)],
            )
            for (topic, index), (code, offset) in outcomes.items()
        ]
    )


def wanted(request: FetchRequest) -> dict[TopicPartition, int]:
    """The offset of each partition that is asked for."""
    return {
        TopicPartition(topic.topic, each.partition): each.fetch_offset
        for topic in request.topics
        for each in topic.partitions
    }


def fetched(answers: dict[TopicPartition, tuple[int, bytes]]) -> FetchResponse:
    """Error code and records of each partition."""
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic, partitions=[PartitionData(partition_index=index, error_code=code, records=records)]
            )
            for (topic, index), (code, records) in answers.items()
        ]
    )


def begins(request: ListOffsetsRequest, offset: int = 0) -> ListOffsetsResponse:
    """All that is asked for begins there."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(partition_index=each.partition_index, offset=offset)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
