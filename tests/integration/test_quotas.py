"""Quotas with unmodified clients: nobody gets more than theirs, and nobody is lost for it. That a client gets as much
as its quota is a matter of the machine, and not tested here."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer

from jepsen.java.kafka import tool
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.framing import decode_response, encode_request
from kraft.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.push_telemetry_request import PushTelemetryRequest
from kraft.protocol.records.builder import Record, build_batch
from kraft.testing.node_process import NodeProcess
from tests.capabilities import require_capability
from tests.unit.telemetry.pushes import gauge, point, push

SECONDS_MAX = 60
LIMIT = 800_000
SPAN = 2.0
"""Seconds: two samples of one second. A rate is taken over at most this much, so a client that was known before may
send the quota of a whole span at once."""
SIZE, COUNT = 10_000, 320
ON_THE_WAY = 40
"""Records that a client has on the way at most: the last of them are answered before their wait."""
EXPECTED = SIZE * (COUNT - ON_THE_WAY) / LIMIT - SPAN
"""Seconds that a client takes at least, wherever in a sample it begins."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    settings = ("group.initial.rebalance.delay.ms=0", "quota.window.num=2", "controller.quota.window.num=3")
    arguments = [word for setting in settings for word in ("--set", setting)]
    with NodeProcess(tmp_path_factory.mktemp("node"), *arguments, admin=True) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
        for future in admin.create_topics([NewTopic("t", 1, 1)]).values():
            future.result(SECONDS_MAX)
        yield node


class Wire:
    """One connection that sends requests as they are given."""

    def __init__(self, node: NodeProcess) -> None:
        host, _, port = node.bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), SECONDS_MAX)

    def close(self) -> None:
        self.socket.close()

    def send(self, request: Any, version: int, client_id: str) -> None:
        self.socket.sendall(encode_request(request.API_KEY, version, 1, client_id, request))

    def receive(self, key: int, version: int) -> Any:
        (size,) = struct.unpack(">i", self._exactly(4))
        return decode_response(key, version, self._exactly(size))[1]

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise ConnectionError("the node closed the connection")
            data += more
        return data


def limit(node: NodeProcess, key: str, value: float | None, **parts: str | None) -> None:
    entity = [EntityData(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in parts.items()]
    ops = [OpData(key=key, value=value or 0.0, remove=value is None)]
    with closing(Wire(node)) as wire:
        entry = EntryData(entity=entity, ops=ops)
        wire.send(AlterClientQuotasRequest(entries=[entry]), 1, "admin")
        answer = wire.receive(AlterClientQuotasRequest.API_KEY, 1)
    assert [each.error_message for each in answer.entries] == [None]


def confluent(bootstrap: str) -> None:
    settings = {"bootstrap.servers": bootstrap, "client.id": "confluent", "batch.size": 4 * SIZE, "log_level": 0}
    producer = Producer(settings)
    for _ in range(COUNT):
        producer.produce("t", bytes(SIZE))
        producer.poll(0)
    assert producer.flush(SECONDS_MAX) == 0


def kafka_python(bootstrap: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, client_id="kafka-python")
    sent = [producer.send("t", bytes(SIZE)) for _ in range(COUNT)]
    for each in sent:
        each.get(SECONDS_MAX)
    producer.close()


def aiokafka(bootstrap: str) -> None:
    async def run() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, client_id="aiokafka") as producer:
            for each in [await producer.send("t", bytes(SIZE)) for _ in range(COUNT)]:
                await asyncio.wait_for(each, SECONDS_MAX)

    asyncio.run(run())


def brokers(statistics: str) -> list[dict[str, Any]]:
    """What librdkafka tells of each broker."""
    told: list[dict[str, Any]] = list(json.loads(statistics)["brokers"].values())
    return told


@pytest.mark.parametrize("client", [confluent, kafka_python, aiokafka], ids=lambda client: client.__name__)
def test_a_producer_is_limited_to_its_quota(node: NodeProcess, client: Callable[[str], None]) -> None:
    name = client.__name__.replace("_", "-")
    limit(node, "producer_byte_rate", LIMIT, client_id=name)
    began = time.monotonic()
    client(node.bootstrap)
    assert time.monotonic() - began > 0.9 * EXPECTED


def test_a_throttled_producer_is_reported_once_and_each_throttling_counted(node: NodeProcess) -> None:
    def page(path: str) -> str:
        with urllib.request.urlopen(f"{node.admin_url}{path}", timeout=SECONDS_MAX) as answer:
            return answer.read().decode()

    def counter(name: str) -> float:
        series = f'{name}{{listener="PLAINTEXT",quota="producer_byte_rate"}} '
        return sum(
            float(line.removeprefix(series)) for line in page("/metrics").splitlines() if line.startswith(series)
        )

    before = counter("kraft_throttles_total"), counter("kraft_throttle_seconds_total")
    limit(node, "producer_byte_rate", LIMIT, client_id="watched")
    told = list[int]()
    producer = Producer(
        {
            "bootstrap.servers": node.bootstrap,
            "client.id": "watched",
            "batch.size": SIZE,
            "statistics.interval.ms": 100,
            "stats_cb": lambda text: told.append(max(each["throttle"]["max"] for each in brokers(text))),
            "log_level": 0,
        }
    )
    for _ in range(COUNT):
        producer.produce("t", bytes(SIZE))
        producer.poll(0)
    assert producer.flush(SECONDS_MAX) == 0
    events = [
        event["fields"] for event in json.loads(page("/v1/events"))["data"] if event["kind"] == "client.throttled"
    ]
    [fields] = [each for each in events if each["client_id"] == "watched"]
    assert (fields["quota"], fields["principal"]) == ("producer_byte_rate", "User:ANONYMOUS")
    assert fields["wait_ms"] > 0
    assert counter("kraft_throttles_total") > before[0] + 1
    assert counter("kraft_throttle_seconds_total") - before[1] >= max(told) / 1000 > 0


def test_a_client_that_ignores_its_throttle_time_is_limited_to_its_quota(node: NodeProcess) -> None:
    limit(node, "producer_byte_rate", LIMIT, client_id="rude")
    data = PartitionProduceData(index=0, records=build_batch([Record(0, 0, None, bytes(SIZE), ())]))
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=[data])])
    began, told = time.monotonic(), 0
    with closing(Wire(node)) as wire:
        for _ in range(COUNT // ON_THE_WAY):
            for _ in range(ON_THE_WAY):
                wire.send(request, 9, "rude")
            for _ in range(ON_THE_WAY):
                told = max(told, wire.receive(ProduceRequest.API_KEY, 9).throttle_time_ms)
    assert time.monotonic() - began > 0.9 * EXPECTED
    assert told > 0


def test_a_client_that_reconnects_for_each_request_is_limited_to_its_quota(node: NodeProcess) -> None:
    limit(node, "producer_byte_rate", LIMIT, client_id="anew")
    data = PartitionProduceData(index=0, records=build_batch([Record(0, 0, None, bytes(4 * SIZE), ())]))
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=[data])])
    began = time.monotonic()
    for _ in range(COUNT // 4):
        with closing(Wire(node)) as wire:
            wire.send(request, 9, "anew")
            assert not wire.receive(ProduceRequest.API_KEY, 9).responses[0].partition_responses[0].error_code
    assert time.monotonic() - began > 0.9 * (SIZE * COUNT / LIMIT - SPAN)
    with closing(Wire(node)) as wire:
        wire.send(request, 9, "another")
        assert wire.receive(ProduceRequest.API_KEY, 9).throttle_time_ms == 0, "who owes nothing does not wait"


def test_a_consumer_is_limited_to_its_quota_and_receives_every_record(node: NodeProcess) -> None:
    limit(node, "consumer_byte_rate", LIMIT, user="ANONYMOUS", client_id="reader")
    producer = Producer({"bootstrap.servers": node.bootstrap, "log_level": 0})
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic("read", 1, 1)]).values():
        future.result(SECONDS_MAX)
    for index in range(COUNT):
        producer.produce("read", b"%06d" % index + bytes(SIZE))
    assert producer.flush(SECONDS_MAX) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "client.id": "reader",
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "fetch.message.max.bytes": ON_THE_WAY * SIZE,
            "log_level": 0,
        }
    )
    consumer.subscribe(["read"])
    began, seen = time.monotonic(), list[int]()
    while len(seen) < COUNT:
        message = consumer.poll(SECONDS_MAX)
        assert message is not None
        assert message.error() is None
        seen.append(int(message.value()[:6]))
    assert seen == list(range(COUNT))
    assert time.monotonic() - began > 0.9 * EXPECTED
    consumer.close()


def test_topic_creations_over_the_mutation_quota_are_rejected_with_its_error_code(node: NodeProcess) -> None:
    limit(node, "controller_mutation_rate", 0.1, client_id="maker")

    def create(name: str, client_id: str) -> CreateTopicsResponse:
        topics = [CreatableTopic(name=name, num_partitions=5, replication_factor=1)]
        with closing(Wire(node)) as wire:
            wire.send(CreateTopicsRequest(topics=topics, timeout_ms=30_000), 7, client_id)
            return wire.receive(CreateTopicsRequest.API_KEY, 7)

    first, second = create("first", "maker"), create("second", "maker")
    assert (first.topics[0].error_code, first.throttle_time_ms) == (ErrorCode.NONE, 0)
    assert second.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert 30_000 < second.throttle_time_ms <= 50_000
    assert create("second", "other").topics[0].error_code == ErrorCode.NONE


def test_an_address_that_connects_too_often_is_delayed_and_accepted_later(node: NodeProcess) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
    assert admin.list_topics(timeout=SECONDS_MAX).topics  # Connected before there is a quota.
    limit(node, "connection_creation_rate", 4, ip="127.0.0.1")
    refused, waiting = 0, [Wire(node) for _ in range(20)]
    for wire in waiting:
        wire.socket.settimeout(0.2)
        try:
            refused += wire.socket.recv(1) == b""
        except TimeoutError:
            continue
        finally:
            wire.close()
    assert refused >= 5
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        assert time.monotonic() < deadline, "nobody is let in any more"
        try:
            limit(node, "connection_creation_rate", None, ip="127.0.0.1")
            break
        except OSError:
            time.sleep(0.3)


@pytest.mark.java
def test_kafkas_tool_sets_shows_and_removes_quotas(node: NodeProcess) -> None:
    require_capability("java17")
    require_capability("mvn")

    def configs(*arguments: str) -> str:
        return tool("configs", "--bootstrap-server", node.bootstrap, *arguments).stdout

    configs("--alter", "--add-config", "producer_byte_rate=1000,request_percentage=50", "--entity-type", "users",
            "--entity-name", "ann")  # fmt: skip
    configs("--alter", "--add-config", "consumer_byte_rate=2000", "--entity-type", "clients", "--entity-default")
    shown = configs("--describe", "--entity-type", "users", "--entity-name", "ann")
    assert "producer_byte_rate=1000.0" in shown
    assert "request_percentage=50.0" in shown
    assert "consumer_byte_rate=2000.0" in configs("--describe", "--entity-type", "clients", "--entity-default")
    configs("--alter", "--delete-config", "consumer_byte_rate", "--entity-type", "clients", "--entity-default")
    assert "consumer_byte_rate" not in configs("--describe", "--entity-type", "clients", "--entity-default")


def test_a_user_whose_pushes_of_metrics_cost_more_than_its_request_quota_waits(node: NodeProcess) -> None:
    """A push of 1,000 numbers takes a broker some milliseconds. The quota is two in two seconds."""
    metrics = push(*(gauge(f"m.{number}", point(1.5, {"topic": "t"})) for number in range(1000)))

    def pushed() -> Any:
        with closing(Wire(node)) as wire:
            wire.send(GetTelemetrySubscriptionsRequest(), 0, "measured")
            told = wire.receive(GetTelemetrySubscriptionsRequest.API_KEY, 0)
            request = PushTelemetryRequest(
                client_instance_id=told.client_instance_id, subscription_id=told.subscription_id, metrics=metrics
            )
            wire.send(request, 0, "measured")
            answer = wire.receive(PushTelemetryRequest.API_KEY, 0)
        assert answer.error_code == ErrorCode.NONE
        return answer.throttle_time_ms

    assert pushed() == 0
    limit(node, "request_percentage", 0.1, user="ANONYMOUS")
    try:
        assert pushed() > 0
    finally:
        limit(node, "request_percentage", None, user="ANONYMOUS")
