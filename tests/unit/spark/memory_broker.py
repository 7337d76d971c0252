"""A broker in memory: the logs that it has, who it believes leads them, and how it answers. It numbers producers'
records as a leader does, and refuses as one does who is asked for what it does not lead, or in another epoch.
`fake_cluster.py` leads to it through sockets, `many_nodes.py` through connections.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from kraft.common.ids import DEBUGGING_REPLICA
from kraft.protocol import api_keys
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from kraft.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from kraft.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kraft.protocol.messages.end_txn_response import EndTxnResponse
from kraft.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kraft.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from kraft.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kraft.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kraft.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kraft.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.record import Record
from kraft.protocol.records.record_batch import HEADER_SIZE, RecordBatch, batches, with_offset_and_epoch
from kraft.spark.source.leadership import Leader

SERVED = (0, 1, 2, 3, 8, 10, 18, 19, 22, 24, 26)
BATCH = 100
EARLIEST = -2
LEADER = Leader(0, 0)


@dataclass
class FakePartition:
    """`state` is by producer id: (epoch, last sequence). `low` is the log start; followers lag behind the end by
    `uncommitted` records."""

    log: list[bytes] = field(default_factory=list)
    end: int = 0
    low: int = 0
    uncommitted: int = 0
    leader: Leader = LEADER
    state: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def high(self) -> int:
        return self.end - self.uncommitted

    def append(self, batch: RecordBatch) -> int:
        """An error code."""
        # A producer that is not known may begin with any sequence.
        epoch, last = self.state.get(batch.producer_id, (batch.producer_epoch, batch.base_sequence - 1))
        if batch.producer_epoch < epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if batch.base_sequence != (last + 1 if batch.producer_epoch == epoch else 0):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        self.state[batch.producer_id] = (batch.producer_epoch, batch.last_sequence)
        whole = bytes(batch.buffer[batch.position : batch.position + batch.size])
        self.log.append(bytes(with_offset_and_epoch(whole, self.end, 0)) + whole[HEADER_SIZE:])
        self.end += batch.count
        return ErrorCode.NONE

    def read(self, offset: int) -> bytes:
        """What is committed, from the batch on that holds `offset`."""
        return b"".join(chunk for chunk in self.log if offset < next(iter(batches(chunk))).next_offset <= self.high)

    def values(self) -> list[bytes | None]:
        return [record.value for chunk in self.log for batch in batches(chunk) for record in batch.records()]


class MadeUpPartition(FakePartition):
    """Its records are made when they are asked for: one batch, up to the log's end."""

    def read(self, offset: int) -> bytes:
        if offset == self.high:
            return b""
        whole = build_batch([Record(delta, 0, None, b"v") for delta in range(min(BATCH, self.high - offset))])
        return bytes(with_offset_and_epoch(whole, offset, 0) + whole[HEADER_SIZE:])


class MemoryBroker:
    """`topics` are those that it knows, `listed` the nodes (id and host) that it tells of; `asked` is what it was
    asked, by the requests' names. `refuse[topic, n]` answers the n-th Produce of a topic with that error; a batch of
    more than `message_bytes_max` is refused."""

    def __init__(self, number: int, listed: dict[int, str], topics: dict[str, list[FakePartition]]) -> None:
        self.number = number
        self.listed = listed
        self.topics = topics
        self.topic_id = bytes(16)
        self.asked: list[str] = []
        self.refuse: dict[tuple[str, int], int] = {}
        self.message_bytes_max = 1 << 20
        self.makes_topics = False
        self.produced: Counter[str] = Counter()
        self.coordinator_codes: list[int] = [0] * 20  # Of answers as a transactions' coordinator, the last one first.
        self.idempotent_producers = 0  # How many ids it has given out.
        self.created: list[Any] = []
        self.create_code = 0
        self.ended: list[bool] = []

    def answer(self, request: Any) -> Any:
        self.asked.append(type(request).__name__)
        return getattr(self, f"on_{api_keys.name_of(request.API_KEY).lower()}")(request)

    def refusal(self, topic: str, index: int, epoch: int) -> int:
        """Of a request for one partition that names a leader epoch, or -1."""
        if topic not in self.topics:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        leader = self.topics[topic][index].leader
        if leader.node != self.number:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if epoch in (-1, leader.epoch):
            return ErrorCode.NONE
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < leader.epoch else ErrorCode.UNKNOWN_LEADER_EPOCH

    def on_apiversions(self, _: Any) -> Any:
        ranges = {key: api_keys.request_class(key).VALID_VERSIONS for key in SERVED}
        return ApiVersionsResponse(
            api_keys=[ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in ranges.items()]
        )

    def on_metadata(self, request: Any) -> Any:
        if self.makes_topics and request.allow_auto_topic_creation:
            for each in request.topics:
                self.topics.setdefault(each.name, [FakePartition()])
        brokers = [MetadataResponseBroker(node_id=number, host=host, port=1) for number, host in self.listed.items()]
        names = sorted(self.topics) if request.topics is None else [each.name for each in request.topics]
        return MetadataResponse(brokers=brokers, topics=[self.described(each) for each in names])

    def described(self, name: str) -> Any:
        if name not in self.topics:
            return MetadataResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        leaders = [each.leader for each in self.topics[name]]
        found = [
            MetadataResponsePartition(partition_index=index, leader_id=node, leader_epoch=epoch)
            for index, (node, epoch) in enumerate(leaders)
        ]
        return MetadataResponseTopic(name=name, topic_id=self.topic_id, partitions=found)

    def on_findcoordinator(self, _: Any) -> Any:
        return FindCoordinatorResponse(node_id=self.number, host=self.listed[self.number], port=1)

    def on_createtopics(self, request: Any) -> Any:
        wanted = request.topics[0]
        if request.validate_only:
            return CreateTopicsResponse(topics=[CreatableTopicResult(name=wanted.name, error_code=self.create_code)])
        self.topics.setdefault(wanted.name, [FakePartition() for _ in range(wanted.num_partitions)])
        self.created.append(wanted)
        return CreateTopicsResponse(topics=[CreatableTopicResult(name=wanted.name, error_code=self.create_code)])

    def on_initproducerid(self, request: Any) -> Any:
        if request.transactional_id is None:
            self.idempotent_producers += 1
            return InitProducerIdResponse(producer_id=100 + self.idempotent_producers, producer_epoch=0)
        return InitProducerIdResponse(error_code=self.coordinator_codes.pop(), producer_id=7, producer_epoch=1)

    def on_addpartitionstotxn(self, request: Any) -> Any:
        code = self.coordinator_codes.pop()
        found = [
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=each, partition_error_code=code)
                    for each in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=found)

    def on_endtxn(self, request: Any) -> Any:
        self.ended.append(request.committed)
        return EndTxnResponse(error_code=self.coordinator_codes.pop())

    def on_produce(self, request: Any) -> Any:
        topic = request.topic_data[0]
        self.produced[topic.name] += 1
        refused = self.refuse.get((topic.name, self.produced[topic.name]), ErrorCode.NONE)
        answers = []
        for each in topic.partition_data:
            partition = self.topics[topic.name][each.index]
            base = partition.end
            assert [one.index for one in topic.partition_data].count(each.index) == 1, (
                "one batch a partition and request"
            )
            codes = [refused or self.appended(partition, batch) for batch in batches(bytes(each.records))]
            answers.append(PartitionProduceResponse(index=each.index, error_code=max(codes), base_offset=base))
        return ProduceResponse(responses=[TopicProduceResponse(name=topic.name, partition_responses=answers)])

    def appended(self, partition: FakePartition, batch: RecordBatch) -> int:
        return ErrorCode.MESSAGE_TOO_LARGE if batch.size > self.message_bytes_max else partition.append(batch)

    def on_listoffsets(self, request: Any) -> Any:
        topics = [
            ListOffsetsTopicResponse(
                name=topic.name, partitions=[self.listed_offset(request, topic.name, each) for each in topic.partitions]
            )
            for topic in request.topics
        ]
        return ListOffsetsResponse(topics=topics)

    def listed_offset(self, request: Any, name: str, wanted: Any) -> Any:
        refused = self.refusal(name, wanted.partition_index, wanted.current_leader_epoch)
        found = ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=refused)
        if not found.error_code:
            partition = self.topics[name][wanted.partition_index]
            end = partition.end if request.replica_id == DEBUGGING_REPLICA else partition.high
            found.offset, found.leader_epoch = (
                partition.low if wanted.timestamp == EARLIEST else end,
                partition.leader.epoch,
            )
        return found

    def on_fetch(self, request: Any) -> Any:
        topic, wanted = request.topics[0], request.topics[0].partitions[0]
        by_id = any(topic.topic_id)
        name = next(iter(self.topics), "") if by_id and topic.topic_id == self.topic_id else topic.topic
        data = PartitionData(
            partition_index=wanted.partition,
            error_code=self.refusal(name, wanted.partition, wanted.current_leader_epoch)
            if name or not by_id
            else ErrorCode.UNKNOWN_TOPIC_ID,
        )
        if not data.error_code:
            partition = self.topics[name][wanted.partition]
            data.high_watermark, data.log_start_offset = partition.high, partition.low
            if partition.low <= wanted.fetch_offset <= partition.end:
                data.records = partition.read(wanted.fetch_offset)
            else:
                data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        return FetchResponse(responses=[FetchableTopicResponse(topic=name, partitions=[data])])


class FakeClock:
    """The time of the modules that are named: it passes only where somebody waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
        self.now = 1000.0
        self.pause: Callable[[float], None] = self.sleep
        """What waiting does; a test may have more happen."""
        clock = SimpleNamespace(
            monotonic=lambda: self.now, time_ns=lambda: int(self.now * 1e9), sleep=lambda seconds: self.pause(seconds)
        )
        for module in modules:
            monkeypatch.setattr(f"kraft.spark.{module}.time", clock)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
