"""Three processes of which several die at once, or stop for a while without dying: whatever was acknowledged stays,
nothing is acknowledged falsely."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest
import trio

from jepsen.three_nodes import NODES, ThreeNodes, assert_nothing_lost, until
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.record import Record
from kraft.rpc_client.connection import Disconnected, connect
from kraft.testing.steady_writer import SteadyWriter
from kraft.world.real import RealWorld

ROUNDS = 10 if os.environ.get("KRAFT_SOAK") == "1" else 1
# Kafka's defaults are 9 s, 30 s: how long a silent broker is believed in, and a follower that does not fetch.
SETTINGS = {
    "broker.session.timeout.ms": 2000,
    "broker.heartbeat.interval.ms": 500,
    "replica.lag.time.max.ms": 2000,
    "offsets.topic.num.partitions": 2,
}
PATIENCE = {"socket_timeout_ms": 3000, "request_timeout_ms": 3000}
"""Of clients, for a node that does not answer: librdkafka waits a minute otherwise before it asks another."""
PINNED = b"pinned"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeNodes]:
    settings = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
    with ThreeNodes(tmp_path_factory.mktemp("faults"), *settings) as cluster:
        yield cluster


@pytest.mark.parametrize("round_", range(ROUNDS))
def test_two_nodes_die_together_and_then_all(cluster: ThreeNodes, round_: int) -> None:
    topic = cluster.create(f"die-at-once-{round_}")
    with SteadyWriter(cluster.bootstrap, topic) as writer:
        writer.more(100)
        leader = cluster.leader(topic)
        both = [leader, NODES[leader % 3]]
        cluster.kill(both)
        cluster.start(both)
        writer.more(100)
        cluster.until_in_sync(topic)
        writer.more(100)
        cluster.kill(NODES)
        cluster.start(NODES)
        writer.more(100)
    assert_nothing_lost(cluster, topic, writer)


class Pinned:
    """Acks=all writes without a producer id that go to one node, leader or not, over a connection that was there
    before it was paused."""

    def __init__(self, cluster: ThreeNodes, node: int, topic: str) -> None:
        self._address = cluster.nodes[node].bootstrap.rpartition(":")
        self._topic = topic
        self.connected = threading.Event()
        self._go = threading.Event()
        self._thread = threading.Thread(target=lambda: trio.run(self._write))
        self.answer: tuple[int, int] | None = None
        """(error code, offset); None when the connection broke."""
        self._thread.start()
        assert self.connected.wait(30)

    async def _write(self) -> None:
        host, _, port = self._address
        records = build_batch([Record(offset=0, timestamp=1_700_000_000_000, key=None, value=PINNED)])
        data = [TopicProduceData(name=self._topic, partition_data=[PartitionProduceData(index=0, records=records)])]
        async with connect(RealWorld(log_sink=lambda event: None), host, int(port)) as connection:
            self.connected.set()
            await trio.to_thread.run_sync(self._go.wait)
            try:
                response = await connection.call(
                    ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=data), version=12, timeout=60
                )
            except Disconnected:
                return
            told = response.responses[0].partition_responses[0]
            self.answer = (told.error_code, told.base_offset)

    def send(self) -> None:
        self._go.set()

    def join(self) -> tuple[int, int] | None:
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.answer


def test_a_paused_leader_acknowledges_no_record_that_is_lost(cluster: ThreeNodes) -> None:
    topic = cluster.create("leader-paused")
    victim = cluster.leader(topic)
    other = next(node for node in NODES if node != victim)
    with SteadyWriter(cluster.bootstrap, topic, **PATIENCE) as writer:
        writer.more(100)
        pinned = Pinned(cluster, victim, topic)
        cluster.nodes[victim].pause()
        pinned.send()
        until(lambda: cluster.told_by(other, topic)[0].leader_id not in (victim, -1), "a silent leader stays")
        writer.more(100)
        assert victim not in cluster.told_by(other, topic)[0].isr_nodes
        cluster.nodes[victim].resume()
        answer = pinned.join()
        writer.more(100)
    cluster.until_in_sync(topic)
    cluster.until_identical(topic)
    assert answer is None or answer[0] in (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ), answer
    assert_nothing_lost(cluster, topic, writer)


def test_a_paused_follower_leaves_the_in_sync_set_and_rejoins(cluster: ThreeNodes) -> None:
    topic = cluster.create("follower-paused")
    leader = cluster.leader(topic)
    active = cluster.quorum(leader).leader_id
    victim = next(node for node in NODES if node not in (leader, active))
    with SteadyWriter(cluster.bootstrap, topic, **PATIENCE) as writer:
        writer.more(100)
        cluster.nodes[victim].pause()
        until(lambda: victim not in cluster.told_by(leader, topic)[0].isr_nodes, "a silent follower stays in sync")
        assert cluster.told_by(leader, topic)[0].leader_id == leader
        writer.more(100)
        cluster.nodes[victim].resume()
        cluster.until_in_sync(topic)
        writer.more(50)
    assert_nothing_lost(cluster, topic, writer)


def test_a_paused_active_controller_is_replaced_and_becomes_a_follower(cluster: ThreeNodes) -> None:
    topic = cluster.create("controller-paused")
    victim = cluster.quorum(1).leader_id
    others = [node for node in NODES if node != victim]
    with SteadyWriter(cluster.bootstrap, topic, **PATIENCE) as writer:
        writer.more(100)
        cluster.nodes[victim].pause()

        def replaced() -> bool:
            return cluster.quorum(others[0]).leader_id in others

        until(replaced, "nobody takes the place of a silent controller")
        until(
            lambda: cluster.told_by(others[1], topic)[0].leader_id in others,
            "the silent controller's broker still leads",
        )
        writer.more(100)
        cluster.nodes[victim].resume()
        until(lambda: cluster.quorum(victim).leader_id in others, "the former controller does not follow")
        cluster.until_in_sync(topic)
        writer.more(50)
        assert cluster.create("controller-paused-after")
    assert_nothing_lost(cluster, topic, writer)
    until(lambda: _caught_up(cluster), "a voter lags")


def _caught_up(cluster: ThreeNodes) -> bool:
    found = cluster.quorum(1)
    return sorted(
        voter.replica_id for voter in found.current_voters if voter.log_end_offset >= found.high_watermark
    ) == list(NODES)
