"""The cluster in one process that users' own tests start: librdkafka writes and reads while nodes are killed,
stopped and come back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic

from kraft.common.errors import ConfigurationError
from kraft.protocol.messages.metadata_request import MetadataRequest
from kraft.rpc_client.connection import connect
from kraft.testing.cluster_thread import ClusterThread
from kraft.testing.foreign.librdkafka import AdminClient, Consumer, Producer
from kraft.testing.local_cluster import LocalCluster
from kraft.world.real import RealWorld

TOPIC = "events"
RECORDS = 100


def test_records_acknowledged_before_and_after_a_kill_are_read(kraft_cluster: Callable[..., ClusterThread]) -> None:
    cluster = kraft_cluster(nodes=3)
    create(cluster.bootstrap, **{"min.insync.replicas": "2"})
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True, "log_level": 0}
    )
    write(producer, 0)
    for round_, node in enumerate(cluster.node_ids, 1):
        cluster.kill(node)
        write(producer, round_)
        cluster.start(node)
    cluster.stop(2)
    assert sorted(read(cluster.bootstrap, 4 * RECORDS)) == sorted(
        value(round_, number) for round_ in range(4) for number in range(RECORDS)
    )


def test_a_local_cluster_keeps_its_records_in_a_given_directory(tmp_path: Path) -> None:
    with ClusterThread(2, tmp_path) as cluster:
        create(cluster.bootstrap, replicas=2)
        write(Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0}), 0)
    with ClusterThread(2, tmp_path) as again:
        assert len(read(again.bootstrap, RECORDS)) == RECORDS


def test_a_local_cluster_runs_in_the_trio_loop_of_the_caller() -> None:
    async def main() -> None:
        async with LocalCluster(1) as cluster:
            host, _, port = cluster.bootstrap.rpartition(":")
            async with connect(RealWorld(log_sink=lambda event: None), host, int(port)) as connection:
                answer = await connection.call(MetadataRequest(topics=[]))
            assert [broker.node_id for broker in answer.brokers] == [1]
            await cluster.kill(1)
            with pytest.raises(LookupError, match="node 1 does not serve"):
                cluster.node(1)

    trio.run(main)


def test_invalid_settings_are_reported_immediately() -> None:
    with pytest.raises(ConfigurationError, match=r"num\.partition"), ClusterThread(1, settings={"num.partition": "3"}):
        raise AssertionError("it must not start")


def test_an_error_in_the_block_stops_every_node(tmp_path: Path) -> None:
    async def main() -> None:
        async with LocalCluster(2, tmp_path) as cluster:
            del cluster
            raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as caught:
        trio.run(main)
    assert caught.group_contains(ZeroDivisionError)


def create(bootstrap: str, replicas: int = 3, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, 1, replicas, config=config)])[TOPIC].result(30)


def value(round_: int, number: int) -> bytes:
    return f"{round_}-{number}".encode()


def write(producer: Producer, round_: int) -> None:
    refused: list[object] = []
    for number in range(RECORDS):
        producer.produce(
            TOPIC, value(round_, number), on_delivery=lambda error, message: refused.append(error) if error else None
        )
    assert producer.flush(30) == 0
    assert not refused


def read(bootstrap: str, expected: int) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False, "log_level": 0}
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[bytes] = []
    try:
        silent_polls = 0
        while len(found) < expected and silent_polls < 120:
            messages = consumer.consume(expected, 0.5)
            silent_polls += not messages
            found += [bytes(message.value() or b"") for message in messages if not message.error()]
    finally:
        consumer.close()
    return found


@pytest.mark.parametrize("nodes", [1, 2])
def test_transactions_work_on_a_small_cluster(kraft_cluster: Callable[..., ClusterThread], nodes: int) -> None:
    """No internal topic is to have more copies than there are brokers."""
    cluster = kraft_cluster(nodes=nodes)
    create(cluster.bootstrap, replicas=1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "orders", "log_level": 0})
    producer.init_transactions(20)
    producer.begin_transaction()
    write(producer, 0)
    producer.commit_transaction(20)
    assert len(read(cluster.bootstrap, RECORDS)) == RECORDS
