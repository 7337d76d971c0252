"""Nodes that need not agree on who leads partition 0 of topic t, behind fake connections and a fake clock."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.spark.client.wire import WireCluster
from kraft.spark.source.leadership import Leader
from tests.unit.spark.memory_broker import BATCH, FakeClock, MadeUpPartition, MemoryBroker

__all__ = ["BATCH", "FakeConnection", "ManyNodes", "Node"]


class Node(MemoryBroker):
    """What one node believes, None that there is no such topic, and its log `[low, high)`. It lists all nodes."""

    def __init__(
        self,
        leader: Leader | None,
        low: int = 0,
        high: int = 1000,
        topic_id: bytes = bytes(16),
        *,
        reachable: bool = True,
    ) -> None:
        self.partition = MadeUpPartition(low=low, end=high)
        super().__init__(0, {}, {})
        self.leader = leader
        self.frozen = False
        self.topic_id = topic_id
        self.reachable = reachable

    @property
    def leader(self) -> Leader | None:
        return self.partition.leader if self.topics else None

    @leader.setter
    def leader(self, leader: Leader | None) -> None:
        self.topics = {} if leader is None else {"t": [self.partition]}
        self.partition.leader = leader or self.partition.leader


class ManyNodes(FakeClock):
    """`nodes` by id, each at ("n<id>", 1)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **nodes: Node) -> None:
        super().__init__(monkeypatch, "client.wire", "source.direct_fetcher", "source.wire_look_ups")
        self.nodes = {int(name[1:]): node for name, node in nodes.items()}
        for number, node in self.nodes.items():
            node.number, node.listed = number, {each: f"n{each}" for each in self.nodes}
        self.opened: list[FakeConnection] = []
        monkeypatch.setattr("kraft.spark.client.wire.WireConnection", self.connect)

    def connect(self, address: tuple[str, int], *_: Any) -> FakeConnection:
        node = self.nodes[int(address[0][1:])]
        if not node.reachable:
            raise ConnectionRefusedError(f"{address[0]} is down")
        self.opened.append(FakeConnection(node))
        return self.opened[-1]

    def cluster(self) -> WireCluster:
        return WireCluster(",".join(f"n{number}:1" for number in self.nodes))


class FakeConnection:
    """`dead` breaks on use; with no `sends_left` it breaks only when something is sent."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.answers: list[Any] = []
        self.dead = False
        self.sent = 0
        self.sends_left = 1 << 30
        self.is_over = False

    def close(self) -> None:
        self.dead = True

    fetches_by_id = True

    def send(self, request: Any, version: int | None = None) -> int:
        self.check(self.node.reachable and self.sends_left > 0)
        self.sends_left -= 1
        self.sent += 1
        if version is not None:  # It has ids alone.
            for topic in request.topics:
                topic.topic = ""
        if not self.node.frozen:
            self.answers.append(self.node.answer(request))
        return self.sent

    def receive(self, _number: int | None = None) -> Any:
        self.check()
        if not self.answers:
            raise TimeoutError("timed out")
        return self.answers.pop(0)

    def call(self, request: Any, version: int | None = None) -> Any:
        return self.receive(self.send(request))

    def check(self, is_well: bool = True) -> None:
        if self.dead or not is_well:
            raise ConnectionResetError(f"n{self.node.number} is gone")
