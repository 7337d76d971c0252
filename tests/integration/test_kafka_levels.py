"""Apache Kafka and nodes of ours in one cluster, at the metadata.version of each release that Kafka 4.4 supports."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from jepsen.java.kafka import CLUSTER_ID, ApacheKafka, tool
from kraft.cli.admin.app import main
from kraft.cli.admin.disks.file_dump import batches_of, plain
from kraft.common.metadata_versions import metadata_version_of
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.record_serde import MetadataRecordSerde
from kraft.metadata.records.access_control_entry_record import AccessControlEntryRecord
from kraft.metadata.records.serde import decode_record
from kraft.testing.node_process import NodeProcess
from kraft.testing.ports import free_ports
from tests.capabilities import require_capability

SECONDS_MAX = 60.0
RELEASES = {
    "3.3": 7,
    "3.4": 8,
    "3.5": 11,
    "3.6": 14,
    "3.7": 19,
    "3.8": 20,
    "3.9": 21,
    "4.0": 25,
    "4.1": 27,
    "4.2": 29,
    "4.3": 30,
    "4.4": 33,
}
ALWAYS_JOINED = ("3.3", "4.0")
ALWAYS_LED = ("3.9",)
"""The releases of `make test`; the others are run by `make soak`."""
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}
PROTOCOLS = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, f"no {what} within {SECONDS_MAX} s"
        time.sleep(0.1)


@contextmanager
def kafka_of(release: str, directory: Path) -> Iterator[ApacheKafka]:
    """A combined node of Apache Kafka 4.4.0 that is formatted as that release is, with share and streams groups off.
    It writes a snapshot of each batch."""
    external = free_ports(1)[0]
    settings = {
        "metadata.log.max.record.bytes.between.snapshots": "1",
        "delegation.token.secret.key": "secret",
        **AUTHORIZER,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,EXTERNAL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.external.plain.sasl.jaas.config": (
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice";'
        ),
    }
    features = {"streams.version": 0, "share.version": 0}
    kafka = ApacheKafka(directory, settings=settings, features=features, release_version=release)
    kafka.settings["listeners"] = f"{kafka.properties()['listeners']},EXTERNAL://127.0.0.1:{external}"
    kafka.settings["advertised.listeners"] = f"PLAINTEXT://127.0.0.1:{kafka.port},EXTERNAL://127.0.0.1:{external}"
    with kafka:
        yield kafka


def our_broker(kafka: ApacheKafka, directory: Path) -> NodeProcess:
    """Broker 2, not started."""
    directory.mkdir(parents=True)
    properties = directory / "broker.properties"
    properties.write_text(
        "process.roles=broker\nnode.id=2\ncontroller.listener.names=CONTROLLER\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:{kafka.controller_port}\n" + PROTOCOLS,
        encoding="utf-8",
    )
    return NodeProcess(directory, "--config", str(properties), "--cluster-id", CLUSTER_ID, controller_listen=None)


class Life:
    """What an operator and clients do in a cluster of the brokers 1 and 2."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def kraft(self, *arguments: str) -> None:
        assert main([*arguments, "--bootstrap-server", self.bootstrap]) == 0, arguments

    def partition(self, topic: str) -> tuple[int, list[int], list[int]]:
        """Leader, replicas and in-sync replicas of partition 0."""
        found = self.admin.list_topics(topic, timeout=SECONDS_MAX).topics[topic].partitions
        return (found[0].leader, found[0].replicas, sorted(found[0].isrs)) if found else (-1, [], [])

    def create(self, topic: str, assignment: list[list[int]]) -> None:
        made = NewTopic(topic, len(assignment), replica_assignment=assignment, config={"min.insync.replicas": "1"})
        for future in self.admin.create_topics([made]).values():
            future.result(SECONDS_MAX)
        until(lambda: self.partition(topic)[2] == sorted(assignment[0]), f"replicas of {topic} in sync")

    def write(self, topic: str, count: int) -> None:
        failures: list[Any] = []
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all", "enable.idempotence": True})
        for number in range(count):
            producer.produce(
                topic, b"%d" % number, partition=0, callback=lambda problem, _: problem and failures.append(problem)
            )
        assert producer.flush(SECONDS_MAX) == 0
        assert failures == []

    def read(self, topic: str, count: int) -> list[bytes]:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            found: list[bytes] = []
            until(lambda: _collect(consumer, found) >= count, f"{count} records of {topic}")
            return found
        finally:
            consumer.close()

    def move(self, directory: Path, topic: str, replicas: list[int]) -> None:
        """Give partition 0 these replicas, and the first of them the leadership."""
        plan = directory / "plan.json"
        plan.write_text(
            f'{{"version":1,"partitions":[{{"topic":"{topic}","partition":0,"replicas":{replicas}}}]}}',
            encoding="utf-8",
        )
        self.kraft("reassignments", "start", str(plan))
        until(lambda: self.partition(topic)[1:] == (replicas, sorted(replicas)), f"{replicas} for {topic}")
        self.kraft("elections", "preferred", f"{topic}-0")
        until(lambda: self.partition(topic)[0] == replicas[0], f"leader {replicas[0]} of {topic}")

    def create_token(self, directory: Path, external: str) -> None:
        """Create a delegation token over a listener on which alice has to log in."""
        login = directory / "alice.properties"
        login.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="alice" password="alice";\n',
            encoding="utf-8",
        )
        address = ("--bootstrap-server", external, "--command-config", str(login))
        tool("delegation-tokens", *address, "--create", "--max-life-time-period", "-1")

    def configure(self, level: int) -> None:
        """Configs, quotas, permissions and, where the level knows them, SCRAM credentials and tokens."""
        entry = ConfigEntry("retention.ms", "1000000", incremental_operation=AlterConfigOpType.SET)
        for kind, name, change in (
            (ResourceType.TOPIC, "t", entry),
            (
                ResourceType.BROKER,
                "1",
                ConfigEntry("log.cleaner.threads", "2", incremental_operation=AlterConfigOpType.SET),
            ),
        ):
            for future in self.admin.incremental_alter_configs(
                [ConfigResource(kind, name, incremental_configs=[change])]
            ).values():
                future.result(SECONDS_MAX)
        rule = AclBinding(
            ResourceType.TOPIC,
            "t",
            ResourcePatternType.PREFIXED,
            "User:alice",
            "*",
            AclOperation.READ,
            AclPermissionType.ALLOW,
        )
        for future in self.admin.create_acls([rule]).values():
            future.result(SECONDS_MAX)
        self.kraft("quotas", "set", "producer_byte_rate=1000000", "--user", "alice")
        if metadata_version_of(level).serves_scram:
            user = UserScramCredentialUpsertion(
                "alice", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"password"
            )
            for future in self.admin.alter_user_scram_credentials([user]).values():
                future.result(SECONDS_MAX)


def _collect(consumer: Consumer, found: list[bytes]) -> int:
    message = consumer.poll(0.5)
    if message is not None:
        assert message.error() is None, message.error()
        found.append(message.value())
    return len(found)


def records_of(path: Path, end: int | None = None) -> list[tuple[Any, int]]:
    """The metadata records of a file, below offset `end`, each with the version in which it is written."""
    return [
        decode_record(bytes(record.value or b""))
        for batch, _ in batches_of(str(path))
        if not batch.is_control and (end is None or batch.last_offset < end)
        for record in batch.iterate_records()
    ]


def described(records: list[tuple[Any, int]]) -> list[tuple[str, int, str]]:
    """Records in an order that does not depend on hash maps, with the lists that Kafka keeps in such."""
    lines = []
    for record, version in records:
        fields = plain(record)
        for name in {"features", "end_points"} & set(fields):
            fields[name] = sorted(fields[name], key=str)
        lines.append((type(record).__name__, version, repr(sorted(fields.items()))))
    return sorted(lines)


def compare_snapshots(directory: Path) -> MetadataImage:
    """Replay Kafka's metadata log up to its newest snapshot, and compare the snapshot with ours, record by record."""
    newest = max(path for path in directory.glob("*.checkpoint") if not path.name.startswith("0" * 20))
    end = int(newest.name.partition("-")[0])
    records = [record for path in sorted(directory.glob("*.log")) for record, _ in records_of(path, end)]
    image, _ = MetadataImage().replay_batch(records)
    level, serde = image.features.metadata_version, MetadataRecordSerde()
    ours = [decode_record(serde.encode(record, level)) for record in image.write()]
    assert described(ours) == described(records_of(newest))
    return image


def some_always(releases: Iterable[str], always: tuple[str, ...]) -> list[Any]:
    return [pytest.param(each, marks=() if each in always else pytest.mark.soak) for each in releases]


@pytest.mark.parametrize("release", some_always(RELEASES, ALWAYS_JOINED))
def test_a_broker_joins_kafka_at_the_level_of_a_release_and_writes_equal_snapshots(
    release: str, tmp_path: Path
) -> None:
    require_capability("java17")
    require_capability("mvn")
    level = RELEASES[release]
    with kafka_of(release, tmp_path / "kafka") as kafka:
        broker = our_broker(kafka, tmp_path / "ours")
        with broker:
            life = Life(kafka.bootstrap)
            life.create("t", [[1, 2]])
            life.write("t", 100)
            life.move(tmp_path, "t", [2, 1])
            life.write("t", 100)
            assert life.read("t", 200) == [b"%d" % number for number in range(100)] * 2
            life.move(tmp_path, "t", [1, 2])
            life.create("moved", [[1]])
            life.write("moved", 50)
            life.move(tmp_path, "moved", [2])
            assert len(life.read("moved", 50)) == 50
            life.configure(level)
            if metadata_version_of(level).serves_delegation_tokens:
                life.create_token(tmp_path, kafka.settings["advertised.listeners"].rpartition("//")[2])
            assert broker.stop() == 0
            until(lambda: life.partition("t")[2] == [1], "shrunk in-sync set")
            broker.start()
            until(lambda: life.partition("t")[2] == [1, 2], "returned replica")
            time.sleep(1)  # Of the last records there is a snapshot, too.
        kafka.kill()
        image = compare_snapshots(kafka.data_directory / "__cluster_metadata-0")
    assert image.features.metadata_version == level
    assert set(image.cluster.brokers) == {1, 2}
    assert image.topics.id_by_name.get("moved") is not None
    assert bool(image.scram.credentials) is metadata_version_of(level).serves_scram
    assert bool(image.delegation_tokens.by_id) is metadata_version_of(level).serves_delegation_tokens
    assert sum(type(record) is AccessControlEntryRecord for record in image.write()) == 1


@pytest.mark.parametrize("release", some_always(("3.3", "3.6", "3.9", "4.0", "4.4"), ALWAYS_LED))
def test_kafka_reads_what_our_active_controller_writes_at_the_level_of_a_release(release: str, tmp_path: Path) -> None:
    require_capability("java17")
    require_capability("mvn")
    level = RELEASES[release]
    ours = NodeProcess(
        tmp_path / "ours", "--config", str(tmp_path / "node.properties"), listen=None, controller_listen=None
    )
    ours.directory.mkdir()
    kafka = ApacheKafka(tmp_path / "kafka", node_id=2)
    (tmp_path / "node.properties").write_text(
        f"process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        f"log.dirs={ours.data_directories}\ncontroller.quorum.bootstrap.servers=127.0.0.1:{kafka.controller_port}\n"
        f"listeners=PLAINTEXT://127.0.0.1:{free_ports(1)[0]},CONTROLLER://127.0.0.1:{kafka.controller_port}\n"
        + PROTOCOLS
        + "".join(f"{key}={value}\n" for key, value in AUTHORIZER.items()),
        encoding="utf-8",
    )
    options = ("--standalone", "--release-version", release, "--feature", "share.version=0")
    storage = ("storage", "format", "--cluster-id", CLUSTER_ID, "--config", str(tmp_path / "node.properties"))
    assert main([*storage, *options]) == 0
    del storage, options
    with ours:
        kafka.settings |= {**AUTHORIZER, "process.roles": "broker", "listeners": f"PLAINTEXT://127.0.0.1:{kafka.port}"}
        kafka.directory.mkdir()
        properties = kafka.directory / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in kafka.properties().items()))
        tool("storage", "format", "-t", CLUSTER_ID, "-c", str(properties), "--release-version", release)
        kafka.launch()
        try:
            kafka.wait_until_listening()
            life = Life(ours.bootstrap)
            life.create("t", [[1, 2]])
            life.write("t", 100)
            life.move(tmp_path, "t", [2, 1])
            life.write("t", 100)
            assert life.read("t", 200) == [b"%d" % number for number in range(100)] * 2
            life.create("moved", [[2]])
            life.move(tmp_path, "moved", [1])
            life.configure(level)
            kafka.stop()
            until(lambda: life.partition("t")[2] == [1], "shrunk in-sync set")
            kafka.launch()
            kafka.wait_until_listening()
            until(lambda: life.partition("t")[2] == [1, 2], "returned replica")
        finally:
            kafka.kill()
