"""Nodes that need not agree on who leads partition 0 of topic t, behind fake connections and a fake clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchRequest
from kraft.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kraft.protocol.messages.list_offsets_response import ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse
from kraft.protocol.messages.metadata_request import MetadataRequest
from kraft.protocol.messages.metadata_response import MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic
from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.record import Record
from kraft.protocol.records.record_batch import HEADER_SIZE, with_offset_and_epoch
from kraft.spark.leadership import Leader
from kraft.spark.wire import WireCluster

BATCH = 100


@dataclass
class Node:
    """What one node believes, and its log `[low, high)`. It lists all nodes unless told otherwise."""

    leader: Leader | None
    low: int = 0
    high: int = 1000
    topic_id: bytes = bytes(16)
    reachable: bool = True
    listed: tuple[int, ...] = ()
    asked: list[str] = field(default_factory=list)


class ManyNodes:
    """`nodes` by id, each at ("n<id>", 1). Time passes only where somebody waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **nodes: Node) -> None:
        self.nodes = {int(name[1:]): node for name, node in nodes.items()}
        for node in nodes.values():
            node.listed = node.listed or tuple(self.nodes)
        self.now = 1000.0
        self.opened: list[FakeConnection] = []
        monkeypatch.setattr("kraft.spark.wire.WireConnection", self.connect)
        clock = SimpleNamespace(monotonic=lambda: self.now, sleep=self.sleep)
        for module in ("wire", "direct_fetcher"):
            monkeypatch.setattr(f"kraft.spark.{module}.time", clock)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def connect(self, address: tuple[str, int], *_: Any) -> FakeConnection:
        number = int(address[0][1:])
        if not self.nodes[number].reachable:
            raise ConnectionRefusedError(f"{address[0]} is down")
        self.opened.append(FakeConnection(self, number))
        return self.opened[-1]

    def cluster(self) -> WireCluster:
        return WireCluster(",".join(f"n{number}:1" for number in self.nodes))

    def answer(self, number: int, request: Any) -> Any:
        node = self.nodes[number]
        node.asked.append(type(request).__name__)
        if isinstance(request, MetadataRequest):
            return metadata(node)
        if isinstance(request, FetchRequest):
            wanted = request.topics[0].partitions[0]
            data = PartitionData(error_code=self.refusal(number, wanted.current_leader_epoch), high_watermark=node.high)
            if not data.error_code:
                fetched(node, wanted.fetch_offset, data)
            return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])
        asked = request.topics[0].partitions[0]
        offset = node.low if asked.timestamp == -2 else node.high
        found = ListOffsetsPartitionResponse(error_code=self.refusal(number, asked.current_leader_epoch), offset=offset)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[found])])

    def refusal(self, number: int, epoch: int) -> int:
        leader = self.nodes[number].leader
        if leader is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if leader.node != number:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if epoch in (-1, leader.epoch):
            return ErrorCode.NONE
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < leader.epoch else ErrorCode.UNKNOWN_LEADER_EPOCH


def metadata(node: Node) -> Any:
    brokers = [MetadataResponseBroker(node_id=each, host=f"n{each}", port=1) for each in node.listed]
    if node.leader is None:
        return MetadataResponse(brokers=brokers, topics=[MetadataResponseTopic(name="t", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)])
    partition = MetadataResponsePartition(partition_index=0, leader_id=node.leader.node, leader_epoch=node.leader.epoch)
    return MetadataResponse(brokers=brokers, topics=[MetadataResponseTopic(name="t", topic_id=node.topic_id, partitions=[partition])])


def fetched(node: Node, offset: int, data: Any) -> None:
    """One batch of records, up to the log's end."""
    if not node.low <= offset <= node.high:
        data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
    elif offset < node.high:
        whole = build_batch([Record(delta, 0, None, b"v") for delta in range(min(BATCH, node.high - offset))])
        data.records = bytes(with_offset_and_epoch(whole, offset, 0) + whole[HEADER_SIZE:])


class FakeConnection:
    """`dead` breaks on use; `refuses_sends` breaks only when something is sent."""

    def __init__(self, nodes: ManyNodes, number: int) -> None:
        self.nodes = nodes
        self.number = number
        self.answers: list[Any] = []
        self.dead = False
        self.sends_left = 1 << 30

    def close(self) -> None:
        self.dead = True

    def send(self, request: Any) -> None:
        if self.dead or not self.nodes.nodes[self.number].reachable or self.sends_left <= 0:
            raise ConnectionResetError(f"n{self.number} is gone")
        self.sends_left -= 1
        self.answers.append(self.nodes.answer(self.number, request))

    def receive(self) -> Any:
        if self.dead:
            raise ConnectionResetError(f"n{self.number} is gone")
        return self.answers.pop(0)

    def call(self, request: Any) -> Any:
        self.send(request)
        return self.receive()
