"""An idempotent producer sends a batch again that a leader wrote before it was killed, and that is not the last of the
producer: ours knows it, Apache Kafka does not."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import trio
from confluent_kafka.admin import AdminClient, NewTopic

from jepsen.java.kafka import ApacheKafka
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.records.builder import build_values_batch
from kraft.rpc_client.connection import connect
from kraft.testing.node_process import NodeProcess
from kraft.world.real import RealWorld
from tests.capabilities import require_capability

SECONDS_MAX = 60.0
WITH_NAMES = 11
"""A version of Produce that names topics."""
BATCH = 4
PRODUCER_ID = 77


async def send(port: int, batches: list[int]) -> list[int]:
    """Produce the batches of four records with these numbers. Return the error code of each."""
    codes = []
    async with connect(RealWorld(log_sink=lambda event: None), "127.0.0.1", port) as connection:
        for number in batches:
            batch = build_values_batch(
                [b"%d" % (number * BATCH + each) for each in range(BATCH)],
                int(time.time() * 1000),
                producer_id=PRODUCER_ID,
                producer_epoch=0,
                base_sequence=number * BATCH,
            )
            data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])
            answer = await connection.call(
                ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data]), version=WITH_NAMES
            )
            codes.append(int(answer.responses[0].partition_responses[0].error_code))
    return codes


@pytest.mark.parametrize("ours", [True, False], ids=["ours", "kafka"])
def test_after_a_kill_only_our_node_recognizes_a_duplicate_of_an_earlier_batch(ours: bool, tmp_path: Path) -> None:
    """Kafka's snapshot of producers has the last batch of each. A broker that was killed loads one that it has just
    written, and has forgotten the batches before: it ends an idempotent producer which lost nothing."""
    if not ours:
        require_capability("java17")
        require_capability("mvn")
    node = NodeProcess(tmp_path) if ours else ApacheKafka(tmp_path)
    try:
        node.start()
        admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(SECONDS_MAX)
        port = int(node.bootstrap.rpartition(":")[2])
        assert trio.run(send, port, [0, 1, 0]) == [0, 0, 0], "the batch is known while the leader lives"
        node.kill()
        node.start()
        first = ErrorCode.NONE if ours else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert trio.run(send, port, [0, 1, 2]) == [first, ErrorCode.NONE, ErrorCode.NONE]
    finally:
        node.kill()
