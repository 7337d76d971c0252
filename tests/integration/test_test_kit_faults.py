"""Faults of the test kit that are about time and answers: errors that nodes are told to give, lost packets, slow
disks, and clocks that jump."""

from __future__ import annotations

import asyncio
import time

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer

from kraft.testing.cluster_thread import ClusterThread
from kraft.testing.pytest_plugin import StartCluster

TOPIC = "orders"


@pytest.fixture(scope="module")
def cluster(module_kraft_cluster: StartCluster) -> ClusterThread:
    return module_kraft_cluster(1)


@pytest.fixture
def topic(cluster: ClusterThread, request: pytest.FixtureRequest) -> str:
    name = request.node.name.replace("[", "-").replace("]", "-")
    cluster.heal()
    cluster.create_topic(name)
    return str(name)


def texts(cluster: ClusterThread, topic: str) -> list[str]:
    return [record.text for record in cluster.consume(topic)]


def outcome_of(cluster: ClusterThread, topic: str, value: str, **settings: object) -> int | None:
    """The code of the error that a producer is told; None: it is acknowledged."""
    outcomes: list[int | None] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0, "log_level": 0, **settings})
    producer.produce(topic, value, on_delivery=lambda error, _: outcomes.append(error and error.code()))
    assert producer.flush(30) == 0
    return outcomes[0]


def test_an_injected_error_is_returned_once_and_the_request_is_not_executed(cluster: ClusterThread, topic: str) -> None:
    cluster.fail("Produce", "TOPIC_AUTHORIZATION_FAILED")
    assert outcome_of(cluster, topic, "refused") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert outcome_of(cluster, topic, "taken") is None
    assert texts(cluster, topic) == ["taken"]


@pytest.mark.parametrize(("is_idempotent", "stored"), [(True, ["x"]), (False, ["x", "x"])])
def test_an_executed_request_answered_with_an_error_is_retried(
    cluster: ClusterThread, topic: str, is_idempotent: bool, stored: list[str]
) -> None:
    """Exactly what `enable.idempotence` is for."""
    cluster.fail("Produce", "REQUEST_TIMED_OUT", carried_out=True)
    settings = {"enable.idempotence": is_idempotent, "retries": 5, "retry.backoff.ms": 10}
    assert outcome_of(cluster, topic, "x", **settings) is None
    assert texts(cluster, topic) == stored


def test_injected_errors_occur_the_given_number_of_times_or_until_healing(cluster: ClusterThread, topic: str) -> None:
    settings = {"retries": 0, "enable.idempotence": False}
    cluster.fail("Produce", "NOT_ENOUGH_REPLICAS", 1, times=2)
    assert [outcome_of(cluster, topic, "a", **settings) for _ in range(3)] == [KafkaError.NOT_ENOUGH_REPLICAS] * 2 + [
        None
    ]
    cluster.fail("Produce", "NOT_ENOUGH_REPLICAS", times=None)
    assert [outcome_of(cluster, topic, "b", **settings) for _ in range(3)] == [KafkaError.NOT_ENOUGH_REPLICAS] * 3
    cluster.heal()
    assert outcome_of(cluster, topic, "c", **settings) is None


def test_other_requests_and_requests_of_nodes_get_normal_responses(kraft_cluster: StartCluster) -> None:
    three = kraft_cluster(3)
    three.create_topic(TOPIC, min_insync_replicas=3)
    three.fail("Fetch", "UNKNOWN_SERVER_ERROR", times=None)
    assert outcome_of(three, TOPIC, "replicated", acks="all") is None
    three.heal()
    consumer = Consumer({"bootstrap.servers": three.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    three.fail("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS", times=3)
    while (record := consumer.poll(30)) is None or record.error():
        pass
    assert record.value() == b"replicated"
    consumer.close()


@pytest.mark.parametrize(
    ("api", "error", "said"),
    [
        ("Prodce", "NOT_CONTROLLER", r"there is no API of Kafka named 'Prodce'; did you mean Produce\?"),
        ("Produce", "NONE", "there is no error of Kafka named 'NONE'"),
        ("Produce", "NOT_LEADER", r"named 'NOT_LEADER'; did you mean NOT_LEADER_OR_FOLLOWER\?"),
    ],
)
def test_unknown_api_and_error_names_are_reported(cluster: ClusterThread, api: str, error: str, said: str) -> None:
    with pytest.raises(LookupError, match=said):
        cluster.fail(api, error)


def test_invalid_fault_sizes_are_reported(cluster: ClusterThread) -> None:
    with pytest.raises(ValueError, match="1 is no share of packets"):
        cluster.lose(1)
    with pytest.raises(ValueError, match="0 times is never"):
        cluster.fail("Produce", "NOT_ENOUGH_REPLICAS", times=0)
    with pytest.raises(ValueError, match="no disk is 1 s faster"):
        cluster.slow_disk(1, -1)
    with pytest.raises(LookupError, match="there is no node 7"):
        cluster.move_clock(7, 1)


def test_lost_packets_are_delivered_later(cluster: ClusterThread, topic: str) -> None:
    cluster.lose(0.6)
    begun = time.monotonic()
    assert [outcome_of(cluster, topic, str(number)) for number in range(3)] == [None] * 3
    assert time.monotonic() - begun >= 0.2
    cluster.heal()
    assert texts(cluster, topic) == ["0", "1", "2"]


def test_a_slow_disk_delays_only_requests_that_wait_for_it(kraft_cluster: StartCluster) -> None:
    slow = kraft_cluster(1)
    slow.create_topic("synced", flush_messages=1)
    slow.create_topic("cached")
    slow.slow_disk(1, 0.5)
    begun = time.monotonic()
    slow.produce("synced", "x")
    assert time.monotonic() - begun >= 0.5
    slow.mend_disk(1)
    slow.produce("cached", "x")
    assert texts(slow, "synced") == texts(slow, "cached") == ["x"]


def test_a_clock_jump_is_visible_in_record_timestamps(kraft_cluster: StartCluster) -> None:
    jumping = kraft_cluster(1)
    jumping.create_topic(TOPIC, message_timestamp_type="LogAppendTime")

    async def stamp() -> float:
        async with AIOKafkaProducer(bootstrap_servers=jumping.bootstrap) as producer:
            told = await producer.send_and_wait(TOPIC, b"x")
            return float(told.timestamp) / 1000 - time.time()

    assert abs(asyncio.run(stamp())) < 60
    jumping.move_clock(1, 3600)
    assert abs(asyncio.run(stamp()) - 3600) < 60
    jumping.stop(1)
    jumping.start(1)
    jumping.move_clock(1, -7200)
    assert abs(asyncio.run(stamp()) + 3600) < 60


def test_fault_methods_are_the_same_for_coroutines(cluster: ClusterThread, topic: str) -> None:
    async def body() -> None:
        ours = cluster.asyncio
        await ours.fail("Produce", "TOPIC_AUTHORIZATION_FAILED")
        await ours.lose(0.0)
        await ours.slow_disk(1, 0)
        await ours.move_clock(1, 0)

    asyncio.run(body())
    assert outcome_of(cluster, topic, "refused") == KafkaError.TOPIC_AUTHORIZATION_FAILED
