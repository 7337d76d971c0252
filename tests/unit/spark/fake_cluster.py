"""A cluster of one broker behind fake sockets: it decodes what is sent, numbers producers' records as a leader does, and answers in order, at once."""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from kraft.protocol import api_keys
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.framing import decode_request, encode_response
from kraft.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from kraft.protocol.messages.describe_producers_response import DescribeProducersResponse, PartitionResponse, ProducerState, TopicResponse
from kraft.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kraft.protocol.messages.list_offsets_response import ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse
from kraft.protocol.messages.metadata_response import MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic
from kraft.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from kraft.protocol.records.record_batch import HEADER_SIZE, RecordBatch, batches, with_offset_and_epoch

SERVED = (0, 1, 2, 3, 18, 61)


@dataclass
class FakePartition:
    """`state` is by producer id: (epoch, last sequence). `low` is the log start."""

    log: list[bytes] = field(default_factory=list)
    end: int = 0
    low: int = 0
    state: dict[int, tuple[int, int]] = field(default_factory=dict)

    def append(self, batch: RecordBatch) -> int:
        """An error code."""
        epoch, last = self.state.get(batch.producer_id, (batch.producer_epoch, -1))
        if batch.producer_epoch < epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if batch.base_sequence != (last + 1 if batch.producer_epoch == epoch else 0):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        self.state[batch.producer_id] = (batch.producer_epoch, batch.last_sequence)
        whole = bytes(batch.buffer[batch.position : batch.position + batch.size])
        self.log.append(bytes(with_offset_and_epoch(whole, self.end, 0)) + whole[HEADER_SIZE:])
        self.end += batch.count
        return ErrorCode.NONE

    def values(self) -> list[bytes | None]:
        return [record.value for chunk in self.log for batch in batches(chunk) for record in batch.records()]

    def delete(self) -> None:
        """As retention does: what producers wrote last stays known."""
        self.log, self.low = [], self.end


class FakeCluster:
    """`topics` holds each topic's partitions. `refuse[topic, n]` answers the n-th Produce of a topic with that error; `dead` breaks what is connected."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **topics: int) -> None:
        self.topics = {name: [FakePartition() for _ in range(count)] for name, count in topics.items()}
        self.refuse: dict[tuple[str, int], int] = {}
        self.produced: Counter[str] = Counter()
        self.opened: list[FakeSocket] = []
        monkeypatch.setattr("kraft.spark.wire.socket.create_connection", self.connect)

    def connect(self, *_: Any) -> FakeSocket:
        self.opened.append(FakeSocket(self))
        return self.opened[-1]

    def break_connections(self) -> None:
        for each in self.opened:
            each.broken = True

    def answer(self, key: int, request: Any) -> Any:
        return getattr(self, f"on_{api_keys.name_of(key).lower()}")(request)

    def on_apiversions(self, _: Any) -> Any:
        ranges = {key: api_keys.request_class(key).VALID_VERSIONS for key in SERVED}
        return ApiVersionsResponse(api_keys=[ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in ranges.items()])

    def on_metadata(self, request: Any) -> Any:
        broker = MetadataResponseBroker(node_id=0, host="h", port=1)
        found = [self.described(each.name) for each in request.topics]
        return MetadataResponse(brokers=[broker], topics=found)

    def described(self, name: str) -> Any:
        if name not in self.topics:
            return MetadataResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        found = [MetadataResponsePartition(partition_index=index, leader_id=0) for index in range(len(self.topics[name]))]
        return MetadataResponseTopic(name=name, partitions=found)

    def on_describeproducers(self, request: Any) -> Any:
        topic = request.topics[0]
        return DescribeProducersResponse(topics=[TopicResponse(name=topic.name, partitions=[self.producers(topic.name, p) for p in topic.partition_indexes])])

    def producers(self, topic: str, partition: int) -> Any:
        known = self.topics[topic][partition].state.items()
        active = [ProducerState(producer_id=each, producer_epoch=epoch, last_sequence=last) for each, (epoch, last) in known]
        return PartitionResponse(partition_index=partition, active_producers=active)

    def on_produce(self, request: Any) -> Any:
        topic = request.topic_data[0]
        self.produced[topic.name] += 1
        refused = self.refuse.get((topic.name, self.produced[topic.name]), ErrorCode.NONE)
        answers = []
        for each in topic.partition_data:
            partition = self.topics[topic.name][each.index]
            base = partition.end
            codes = [refused or partition.append(batch) for batch in batches(bytes(each.records))]
            answers.append(PartitionProduceResponse(index=each.index, error_code=max(codes), base_offset=base))
        return ProduceResponse(responses=[TopicProduceResponse(name=topic.name, partition_responses=answers)])

    def on_listoffsets(self, request: Any) -> Any:
        topic = request.topics[0]
        found = []
        for each in topic.partitions:
            partition = self.topics[topic.name][each.partition_index]
            found.append(ListOffsetsPartitionResponse(partition_index=each.partition_index, offset=partition.low if each.timestamp == -2 else partition.end))
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=topic.name, partitions=found)])

    def on_fetch(self, request: Any) -> Any:
        wanted = request.topics[0].partitions[0]
        partition = self.topics[request.topics[0].topic][wanted.partition]
        found = b"".join(chunk for chunk in partition.log if next(iter(batches(chunk))).next_offset > wanted.fetch_offset)
        data = PartitionData(partition_index=wanted.partition, high_watermark=partition.end, log_start_offset=partition.low, records=found)
        return FetchResponse(responses=[FetchableTopicResponse(topic=request.topics[0].topic, partitions=[data])])


class FakeSocket:
    """Whole frames in, whole frames out."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.answers = bytearray()
        self.broken = False

    def setsockopt(self, *_: Any) -> None: ...

    def settimeout(self, _: float) -> None: ...

    def close(self) -> None:
        self.broken = True

    def sendall(self, frame: bytes) -> None:
        self.check()
        (size,) = struct.unpack_from(">i", frame)
        header, request = decode_request(memoryview(frame)[4 : 4 + size])
        answer = self.cluster.answer(header.api_key, request)
        self.answers += encode_response(header.api_key, header.api_version, header.correlation_id, answer)

    def recv_into(self, view: memoryview, count: int) -> int:
        self.check()
        found = self.answers[:count]
        view[: len(found)] = found
        del self.answers[:count]
        return len(found)

    def check(self) -> None:
        if self.broken:
            raise ConnectionResetError("it is gone")
