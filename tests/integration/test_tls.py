"""Three nodes that speak nothing but TLS, every one with its certificate, and real clients of theirs."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonTopicPartition

from jepsen.java.kafka import tool
from kraft.cli.admin.app import main
from kraft.testing.process_cluster import ProcessCluster
from tests.capabilities import require_capability
from tests.certificates import certificates

SECONDS_MAX = 60
NODE = """\
listeners=SSL://127.0.0.1:0,CONTROLLER://127.0.0.1:0
listener.security.protocol.map=SSL:SSL,CONTROLLER:SSL
ssl.client.auth=required
ssl.keystore.type=PEM
ssl.keystore.location={0}/node.pem
ssl.truststore.type=PEM
ssl.truststore.location={0}/ca.pem
offsets.topic.num.partitions=3
"""
CLIENT = """\
security.protocol=SSL
ssl.keystore.type=PEM
ssl.keystore.location={0}/client.pem
ssl.truststore.type=PEM
ssl.truststore.location={0}/ca.pem
"""


class Secured(NamedTuple):
    cluster: ProcessCluster
    directory: Path

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    @property
    def command_config(self) -> str:
        return str(self.directory / "client.properties")

    @property
    def librdkafka(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap,
            "log_level": 0,
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.directory / "ca.pem"),
            "ssl.certificate.location": str(self.directory / "client.pem"),
            "ssl.key.location": str(self.directory / "client.pem"),
        }

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.directory / "ca.pem"))
        context.load_cert_chain(self.directory / "client.pem")
        return context


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = certificates().write(tmp_path_factory.mktemp("tls"))
    (directory / "node.properties").write_text(NODE.format(directory))
    (directory / "client.properties").write_text(CLIENT.format(directory))
    with ProcessCluster(directory / "nodes", "--config", str(directory / "node.properties")) as cluster:
        found = Secured(cluster, directory)
        topics = [NewTopic(name, 1, 3, config={"min.insync.replicas": "2"}) for name in ("mixed", "large", "tools")]
        admin = AdminClient(found.librdkafka)
        for future in admin.create_topics(topics).values():
            future.result(SECONDS_MAX)
        yield found


def write_librdkafka(secured: Secured, topic: str, values: list[bytes]) -> None:
    failures: list[Any] = []
    producer = Producer({**secured.librdkafka, "acks": "all"})
    for value in values:
        producer.produce(topic, value, partition=0, callback=lambda problem, _: problem and failures.append(problem))
    assert producer.flush(SECONDS_MAX) == 0
    assert failures == []


def write_aiokafka(secured: Secured, topic: str, values: list[bytes]) -> None:
    async def write() -> None:
        security = {"security_protocol": "SSL", "ssl_context": secured.context()}
        async with AIOKafkaProducer(bootstrap_servers=secured.bootstrap, acks="all", **security) as producer:
            for value in values:
                await producer.send_and_wait(topic, value, partition=0)

    asyncio.run(write())


def write_kafka_python(secured: Secured, topic: str, values: list[bytes]) -> None:
    producer = KafkaProducer(
        bootstrap_servers=secured.bootstrap, acks="all", security_protocol="SSL", ssl_context=secured.context()
    )
    try:
        for value in values:
            producer.send(topic, value, partition=0).get(SECONDS_MAX)
    finally:
        producer.close()


def read_librdkafka(secured: Secured, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({**secured.librdkafka, "group.id": "librdkafka", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(values) < count and time.monotonic() < deadline:
        for message in consumer.consume(count - len(values), 1.0):
            assert message.error() is None
            values.append(message.value() or b"")
    consumer.close()
    return values


def read_aiokafka(secured: Secured, topic: str, count: int) -> list[bytes]:
    async def read() -> list[bytes]:
        security = {"security_protocol": "SSL", "ssl_context": secured.context()}
        consumer = AIOKafkaConsumer(bootstrap_servers=secured.bootstrap, **security)
        async with asyncio.timeout(SECONDS_MAX), consumer:
            consumer.assign([AioTopicPartition(topic, 0)])
            await consumer.seek_to_beginning()
            return [(await consumer.getone()).value for _ in range(count)]

    return asyncio.run(read())


def read_kafka_python(secured: Secured, topic: str, count: int) -> list[bytes]:
    consumer = KafkaConsumer(
        bootstrap_servers=secured.bootstrap,
        security_protocol="SSL",
        ssl_context=secured.context(),
        consumer_timeout_ms=SECONDS_MAX * 1000,
    )
    try:
        consumer.assign([PythonTopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        return [next(consumer).value for _ in range(count)]
    finally:
        consumer.close()


WRITERS: tuple[Callable[[Secured, str, list[bytes]], None], ...] = (
    write_librdkafka,
    write_aiokafka,
    write_kafka_python,
)
READERS: tuple[Callable[[Secured, str, int], list[bytes]], ...] = (read_librdkafka, read_aiokafka, read_kafka_python)


def test_every_client_reads_over_tls_what_every_client_wrote_to_three_nodes(secured: Secured) -> None:
    values = [b"%s %d" % (write.__name__.encode(), n) for write in WRITERS for n in range(5)]
    for write in WRITERS:
        write(secured, "mixed", [value for value in values if value.startswith(write.__name__.encode())])
    for read in READERS:
        assert read(secured, "mixed", len(values)) == values


def test_large_records_pass_tls_unchanged(secured: Secured) -> None:
    values = [bytes([n]) * 900_000 for n in range(20)]
    write_librdkafka(secured, "large", values)
    assert read_librdkafka(secured, "large", len(values)) == values


def test_a_client_without_a_certificate_or_without_tls_is_refused(secured: Secured) -> None:
    plain = {"bootstrap.servers": secured.bootstrap, "log_level": 0}
    nameless = {name: value for name, value in secured.librdkafka.items() if not name.startswith(("ssl.c", "ssl.k"))}
    unproven = {**nameless, "ssl.ca.location": secured.librdkafka["ssl.ca.location"]}
    for settings in (plain, unproven):
        with pytest.raises(KafkaException):
            AdminClient(settings).list_topics(timeout=2)


def test_the_kraft_cli_connects_over_tls_with_kafkas_client_properties(
    secured: Secured, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["topics", "list", "--bootstrap-server", secured.bootstrap]
    assert main([*arguments, "--command-config", secured.command_config]) == 0
    assert "mixed" in capsys.readouterr().out
    assert main([*arguments, "--timeout", "2"]) == 1
    assert "--command-config" in capsys.readouterr().err
    wrong = secured.directory / "wrong.properties"
    wrong.write_text("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.kerberos.service.name=x\nssl.nonsense=1\n")
    assert main([*arguments, "--command-config", str(wrong)]) == 1
    said = capsys.readouterr().err
    assert "sasl.jaas.config is missing" in said
    assert "sasl.kerberos.service.name is not served yet" in said
    assert "ssl.nonsense" in said


@pytest.mark.java
def test_kafkas_own_tools_connect_over_tls(secured: Secured) -> None:
    require_capability("java17")
    require_capability("mvn")
    address = ("--bootstrap-server", secured.bootstrap)
    listed = tool("topics", *address, "--command-config", secured.command_config, "--describe", "--topic", "tools")
    assert "ReplicationFactor: 3" in listed.stdout, listed
    lines = "".join(f"line {n}\n" for n in range(10))
    produced = tool(
        "console-producer",
        *address,
        "--command-config",
        secured.command_config,
        "--topic",
        "tools",
        stdin=lines,
    )
    assert "ERROR" not in produced.stderr, produced.stderr
    consumed = tool(
        "console-consumer",
        *address,
        "--command-config",
        secured.command_config,
        "--topic",
        "tools",
        "--from-beginning",
        "--max-messages",
        "10",
        "--timeout-ms",
        str(SECONDS_MAX * 1000),
    )
    assert consumed.stdout == lines, consumed


def test_renewed_certificate_files_are_used_without_a_restart(secured: Secured) -> None:
    """Last, since it leaves other keys behind."""
    key, chain = certificates().renewed()
    host, _, port = secured.cluster.addresses[1].kafka.rpartition(":")

    def shown() -> str:
        with secured.context().wrap_socket(
            socket.create_connection((host, int(port)), 30), server_hostname=host
        ) as tls:
            certificate = tls.getpeercert(True)
            assert certificate is not None
            return ssl.DER_cert_to_PEM_cert(certificate)

    (secured.directory / "node.pem").write_text(key + chain)
    deadline = time.monotonic() + SECONDS_MAX
    while shown() != chain and time.monotonic() < deadline:
        time.sleep(0.2)
    assert shown() == chain
    write_librdkafka(secured, "mixed", [b"after"])
