"""Reading and writing records through brokers that are a test's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from kraft_http.node_transport import NodeTransport
from kraft_http.records import consuming
from kraft_http.records import partition_records as records
from kraft_http.records.consuming import Consumption, consume
from kraft_http.records.partition_records import fetch
from kraft_http.records.producing import Producer
from kraft_http.requests.deps import ClusterContext
from kraft_http.requests.links import Links
from starlette.datastructures import URL

from kraft.admin.delete_records import delete_records
from kraft.admin.errors import Refused
from kraft.common.ids import TopicPartition
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kraft.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kraft.protocol.messages.metadata_request import MetadataRequest
from kraft.protocol.messages.metadata_response import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from kraft.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.compression import ZSTD
from kraft.protocol.records.record import Record

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"


class Port:
    """Answers by API key; what was asked is kept."""

    def __init__(self, answers: dict[int, Callable[[Any, int | None], Any]]) -> None:
        self.answers = answers
        self.asked: list[tuple[int, int | None]] = []

    def now_ms(self) -> int:
        return 0

    async def call(self, api_key: int, version: int, request: Any, *, node_id: int | None = None) -> Any:
        self.asked.append((api_key, node_id))
        return self.answers[api_key](request, node_id)


def cluster(port: Any) -> ClusterContext:
    return ClusterContext(CLUSTER, NodeTransport(port), Links("http://node", CLUSTER), URL("http://node"))


def batch(base_offset: int, values: list[bytes], codec: int = 0) -> bytes:
    return bytes(
        build_batch(
            [Record(base_offset + index, 0, None, value, ()) for index, value in enumerate(values)], codec=codec
        )
    )


def damaged(base_offset: int) -> bytes:
    """A batch of which a bit of a value has changed on the disk."""
    data = bytearray(batch(base_offset, [b"value"]))
    data[-2] ^= 1
    return bytes(data)


def fetched(data: bytes, high_watermark: int = 100) -> Callable[[Any, int | None], Any]:
    partition = PartitionData(high_watermark=high_watermark, records=memoryview(data))
    return lambda request, node_id: FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])


def read(data: bytes, offset: int = 0, count: int = 1000) -> Any:
    port: Any = Port({ApiKey.FETCH: fetched(data)})
    return asyncio.run(
        fetch(NodeTransport(port), "t", 0, 1, offset, count=count, max_bytes=1 << 20, max_wait_ms=0, committed=False)
    )


def test_no_more_records_are_decoded_than_requested() -> None:
    data = batch(0, [b"a", b"b"]) + damaged(2)
    found = read(data, count=2)
    assert ([each.record.value for each in found.records], found.next_offset) == ([b"a", b"b"], 2)
    found = read(data, offset=1, count=1)
    assert ([each.record.value for each in found.records], found.next_offset) == ([b"b"], 2)


def test_batches_that_decompress_beyond_the_limit_are_left_for_the_next_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(records, "DECODED_BYTES_MAX", 3000)
    bomb = [bytes(1000), bytes(1000)]
    found = read(batch(0, bomb, ZSTD) + batch(2, bomb, ZSTD) + batch(4, bomb, ZSTD))
    assert ([each.record.offset for each in found.records], found.next_offset) == ([0, 1], 2)


def test_a_batch_that_alone_decompresses_beyond_the_limit_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "DECODED_BYTES_MAX", 3000)
    small, bomb = batch(0, [b"a"]), batch(1, [bytes(5000)], ZSTD)
    assert read(small + bomb).next_offset == 1
    with pytest.raises(Refused, match=r"t-0 at offset 1: .* more than 3000 bytes") as told:
        read(bomb, offset=1)
    assert told.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_damaged_records_are_reported_with_their_offset_after_the_records_before_them() -> None:
    found = read(batch(0, [b"a"]) + damaged(1))
    assert ([each.record.value for each in found.records], found.next_offset) == ([b"a"], 1)
    with pytest.raises(Refused, match="t-0 at offset 1: CRC") as told:
        read(damaged(1), offset=1)
    assert told.value.code == ErrorCode.CORRUPT_MESSAGE


def metadata(*leaders: int) -> Any:
    partitions = [
        MetadataResponsePartition(partition_index=index, leader_id=leader) for index, leader in enumerate(leaders)
    ]
    return MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=partitions)])


def offsets(value_of: Callable[[int], int]) -> Callable[[Any, int | None], Any]:
    def answer(request: Any, node_id: int | None) -> Any:
        asked = request.topics[0].partitions
        told = [
            ListOffsetsPartitionResponse(partition_index=each.partition_index, offset=value_of(each.timestamp))
            for each in asked
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=told)])

    return answer


def test_the_bytes_of_one_response_are_limited_over_all_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consuming, "ANSWER_BYTES_MAX", 2500)
    port = Port(
        {
            ApiKey.METADATA: lambda request, node_id: metadata(1, 1, 1, 1),
            ApiKey.LIST_OFFSETS: offsets(lambda timestamp: 1 if timestamp == -1 else 0),
            ApiKey.FETCH: fetched(batch(0, [bytes(1000)])),
        }
    )
    wanted = Consumption(
        partition=None,
        offset=None,
        positions=None,
        timestamp=None,
        tail=None,
        limit=10,
        max_bytes=1 << 20,
        timeout_ms=0,
        data_format=None,
        committed=False,
    )
    answer = asyncio.run(consume(cluster(port), "t", wanted))
    assert len(answer.data) == 3
    assert answer.next_offsets == {"0": 1, "1": 1, "2": 1, "3": 0}
    assert answer.end_offsets == {"0": 1, "1": 1, "2": 1, "3": 1}


def refused_by_the_first(request: Any, node_id: int | None) -> Any:
    code = ErrorCode.NONE if node_id == 2 else ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name="t", partition_responses=[PartitionProduceResponse(index=0, error_code=code, base_offset=5)]
            )
        ]
    )


def test_a_stream_of_records_follows_its_partition_to_a_new_leader() -> None:
    leaders = [1, 2]
    port = Port(
        {ApiKey.METADATA: lambda request, node_id: metadata(leaders.pop(0)), ApiKey.PRODUCE: refused_by_the_first}
    )

    async def main() -> list[int]:
        producer = await Producer.open(cluster(port), "t")
        reports = await producer.append([{"value": {"data": 1}}]) + await producer.append([{"value": {"data": 2}}])
        return [report.error_code for report in reports]

    assert asyncio.run(main()) == [50003, 200]
    assert [node_id for key, node_id in port.asked if key == ApiKey.PRODUCE] == [1, 2], (
        "what failed may be there: it is not sent again"
    )


def test_a_partition_without_a_leader_is_reported_as_leaderless() -> None:
    port: Any = Port({ApiKey.METADATA: lambda request, node_id: metadata(-1)})
    with pytest.raises(Refused) as told:
        asyncio.run(delete_records(NodeTransport(port), {TopicPartition("t", 0): 5})).require()
    assert told.value.code == ErrorCode.LEADER_NOT_AVAILABLE
    assert port.asked == [(ApiKey.METADATA, None)]


def test_the_reason_why_no_broker_can_be_queried_is_reported() -> None:
    class Lonely(Port):
        async def call(self, api_key: int, version: int, request: Any, *, node_id: int | None = None) -> Any:
            raise ConnectionError("no live broker is known" if node_id is None else "refused")

    port: Any = Lonely({})
    for node_id, sentence in ((None, "no live broker is known"), (3, "broker 3 cannot be reached: refused")):
        with pytest.raises(Refused) as told:
            asyncio.run(NodeTransport(port).ask(MetadataRequest(), MetadataResponse, node_id=node_id))
        assert told.value.sentence == sentence
