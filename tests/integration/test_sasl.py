"""Three nodes where everybody logs in: clients by PLAIN and SCRAM, nodes by SCRAM among brokers and by PLAIN at
controllers, over SASL_SSL; and one node over SASL_PLAINTEXT."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.helpers import create_ssl_context
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from jepsen.java.kafka import tool
from kraft.cli.admin.app import main
from kraft.testing.process_cluster import CLUSTER_ID, ProcessCluster
from tests.capabilities import require_capability
from tests.certificates import certificates

SECONDS_MAX = 60
TRY_SECONDS = 3
"""How long a client that may be refused tries."""
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SCRAM_IDS = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
MECHANISMS = ("PLAIN", *SCRAM_IDS)
NODE = f"""\
listeners=CLIENTS://127.0.0.1:0,CONTROLLER://127.0.0.1:0
listener.security.protocol.map=CLIENTS:{{protocol}},CONTROLLER:{{protocol}}
inter.broker.listener.name=CLIENTS
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.mechanism.controller.protocol=PLAIN
listener.name.clients.plain.sasl.jaas.config={PLAIN} required \\
  username="node" password="n-secret" user_node="n-secret" user_alice="a;secret";
listener.name.controller.plain.sasl.jaas.config={PLAIN} required \\
  username="node" password="n-secret" user_node="n-secret";
connections.max.reauth.ms=3000
config.providers=secrets
config.providers.secrets.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider
offsets.topic.num.partitions=3
"""
STORES = """\
ssl.keystore.type=PEM
ssl.keystore.location={0}/node.pem
ssl.truststore.type=PEM
ssl.truststore.location={0}/ca.pem
"""


class Secured(NamedTuple):
    cluster: ProcessCluster
    directory: Path
    protocol: str

    def librdkafka(self, mechanism: str = "PLAIN", password: str = "a;secret") -> dict[str, Any]:
        return {
            "bootstrap.servers": self.cluster.bootstrap,
            "log_level": 0,
            "security.protocol": self.protocol,
            "ssl.ca.location": str(self.directory / "ca.pem"),
            "sasl.mechanism": mechanism,
            "sasl.username": "alice",
            "sasl.password": password,
        }

    def command_config(self, mechanism: str = "PLAIN", password: str = "a;secret") -> str:
        path = self.directory / f"{mechanism}-{len(password)}.properties"
        module = PLAIN if mechanism == "PLAIN" else SCRAM
        stores = f"ssl.truststore.type=PEM\nssl.truststore.location={self.directory}/ca.pem\n"
        path.write_text(
            f"security.protocol={self.protocol}\nsasl.mechanism={mechanism}\n"
            f'sasl.jaas.config={module} required username="alice" password="{password}";\n'
            + (stores if self.protocol == "SASL_SSL" else "")
        )
        return str(path)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = certificates().write(tmp_path_factory.mktemp("sasl"))
    text = NODE.format(protocol="SASL_SSL") + STORES.format(directory)
    (directory / "node.properties").write_text(text)
    with ProcessCluster(directory / "nodes", "--config", str(directory / "node.properties")) as cluster:
        found = Secured(cluster, directory, "SASL_SSL")
        admin = AdminClient(found.librdkafka())
        for future in admin.create_topics([NewTopic("mixed", 1, 3, config={"min.insync.replicas": "2"})]).values():
            future.result(SECONDS_MAX)
        yield found


def test_nodes_and_clients_log_in_by_plain(secured: Secured) -> None:
    failures: list[Any] = []
    producer = Producer({**secured.librdkafka(), "acks": "all"})
    values = [b"%d" % n for n in range(10)]
    for value in values:
        producer.produce("mixed", value, partition=0, callback=lambda problem, _: problem and failures.append(problem))
    assert producer.flush(SECONDS_MAX) == 0
    assert failures == []

    async def read() -> list[bytes]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=secured.cluster.bootstrap,
            security_protocol="SASL_SSL",
            ssl_context=create_ssl_context(cafile=str(secured.directory / "ca.pem")),
            sasl_mechanism="PLAIN",
            sasl_plain_username="alice",
            sasl_plain_password="a;secret",
        )
        async with asyncio.timeout(SECONDS_MAX), consumer:
            consumer.assign([AioTopicPartition("mixed", 0)])
            await consumer.seek_to_beginning()
            return [(await consumer.getone()).value for _ in values]

    assert asyncio.run(read()) == values


def test_a_wrong_password_or_missing_login_is_refused(secured: Secured) -> None:
    wrong = secured.librdkafka(password="guess")
    nobody = {**secured.librdkafka(), "security.protocol": "SSL"}
    scram = secured.librdkafka("SCRAM-SHA-256")
    for settings in (wrong, nobody, scram):
        with pytest.raises(KafkaException):
            AdminClient(settings).list_topics(timeout=2)


def test_the_kraft_cli_logs_in_with_kafkas_client_properties(
    secured: Secured, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["topics", "list", "--bootstrap-server", secured.cluster.bootstrap]
    assert main([*arguments, "--command-config", secured.command_config()]) == 0
    assert "mixed" in capsys.readouterr().out
    assert main([*arguments, "--timeout", "5", "--command-config", secured.command_config(password="guess")]) == 1
    said = capsys.readouterr().err
    assert "Invalid username or password" in said
    assert "guess" not in said


def put_plain_users(secured: Secured, value: str | None) -> None:
    """On each of the three nodes, or take back what was put."""
    kind = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    key = "listener.name.clients.plain.sasl.jaas.config"
    admin = AdminClient(secured.librdkafka())
    for node in ("1", "2", "3"):  # librdkafka takes one broker a call.
        change = ConfigEntry(key, value, incremental_operation=kind)
        for future in admin.incremental_alter_configs(
            [ConfigResource("broker", node, incremental_configs=[change])]
        ).values():
            future.result(SECONDS_MAX)
        for future in admin.describe_configs([ConfigResource("broker", node)]).values():
            entry = future.result(SECONDS_MAX)[key]
            assert (entry.is_sensitive, entry.value) == (True, None)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline


def get_in(
    secured: Secured, user: str, password: str, mechanism: str = "PLAIN", *, seconds: float = TRY_SECONDS
) -> int:
    """How many of the three nodes let this user in, each asked by itself: they learn of users one after the other."""
    client = {**secured.librdkafka(mechanism, password), "sasl.username": user}

    def is_let_in(address: str) -> bool:
        try:
            return bool(AdminClient({**client, "bootstrap.servers": address}).list_topics(timeout=seconds).brokers)
        except KafkaException:
            return False

    with ThreadPoolExecutor(3) as askers:
        return sum(askers.map(is_let_in, secured.cluster.bootstrap.split(",")))


def test_plain_users_are_added_and_removed_at_run_time_and_open_sessions_stay(secured: Secured) -> None:
    failures: list[Any] = []
    producer = Producer({**secured.librdkafka(), "acks": "all"})
    (secured.directory / "bob").write_text("b-secret")
    nodes = 'username="node" password="n-secret" user_node="n-secret"'
    variable = f"${{secrets:{secured.directory}:bob}}"
    put_plain_users(secured, f'{PLAIN} required {nodes} user_alice="a;secret" user_bob="{variable}";')
    wait_until(lambda: get_in(secured, "bob", "b-secret") == 3)
    assert get_in(secured, "bob", "guess") == 0
    for number in range(10):
        producer.produce("mixed", b"%d" % number, callback=lambda problem, _: problem and failures.append(problem))
        assert producer.flush(SECONDS_MAX) == 0
    with pytest.raises(KafkaException, match="cannot be used: it is not of the form"):
        put_plain_users(secured, "nonsense")
    assert get_in(secured, "bob", "b-secret", seconds=SECONDS_MAX) == 3
    put_plain_users(secured, None)
    wait_until(lambda: get_in(secured, "bob", "b-secret") == 0)
    assert get_in(secured, "alice", "a;secret", seconds=SECONDS_MAX) == 3
    assert failures == []


def put_scram(secured: Secured, mechanism: str, user: str = "alice") -> None:
    change = UserScramCredentialUpsertion(user, ScramCredentialInfo(SCRAM_IDS[mechanism], 4096), b"a;secret")
    admin = AdminClient(secured.librdkafka())
    for future in admin.alter_user_scram_credentials([change]).values():
        future.result(SECONDS_MAX)


def test_a_quorum_of_several_starts_with_the_credentials_given_at_formatting(tmp_path: Path) -> None:
    """By kraft-node --format on two nodes, by kraft storage format on the third: none has to be the first leader."""
    (tmp_path / "node.properties").write_text(NODE.format(protocol="SASL_PLAINTEXT"))
    scram = ("--add-scram", "SCRAM-SHA-512=[name=carol,password=c-secret]")
    cluster = ProcessCluster(tmp_path, "--config", str(tmp_path / "node.properties"), *scram)
    own = ("--node-id", "3", "--data-dir", str(tmp_path / "3/data"), "--voters", cluster.quorum_options()[1])
    config = str(tmp_path / "node.properties")
    assert main(["storage", "format", "--cluster-id", CLUSTER_ID, "--config", config, *own, *scram]) == 0
    with cluster:
        client = {
            "bootstrap.servers": cluster.bootstrap,
            "log_level": 0,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "carol",
        }
        carol = AdminClient({**client, "sasl.password": "c-secret"})
        wait_until(lambda: len(carol.list_topics(timeout=SECONDS_MAX).brokers) == 3)
        with pytest.raises(KafkaException):
            AdminClient({**client, "sasl.password": "guess"}).list_topics(timeout=3)


@pytest.mark.parametrize("mechanism", MECHANISMS[1:])
def test_a_user_with_a_scram_password_logs_in(
    secured: Secured, mechanism: str, capsys: pytest.CaptureFixture[str]
) -> None:
    put_scram(secured, mechanism)
    wait_until(lambda: get_in(secured, "alice", "a;secret", mechanism) == 3)
    assert "mixed" in AdminClient(secured.librdkafka(mechanism)).list_topics(timeout=SECONDS_MAX).topics

    async def write() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=secured.cluster.bootstrap,
            security_protocol="SASL_SSL",
            ssl_context=create_ssl_context(cafile=str(secured.directory / "ca.pem")),
            sasl_mechanism=mechanism,
            sasl_plain_username="alice",
            sasl_plain_password="a;secret",
        )
        async with asyncio.timeout(SECONDS_MAX), producer:
            await producer.send_and_wait("mixed", b"more")

    asyncio.run(write())
    arguments = ["topics", "list", "--bootstrap-server", secured.cluster.bootstrap, "--command-config"]
    assert main([*arguments, secured.command_config(mechanism)]) == 0
    assert "mixed" in capsys.readouterr().out
    assert main([*arguments, secured.command_config(mechanism, "guess"), "--timeout", "5"]) == 1
    assert "invalid credentials" in capsys.readouterr().err


def test_the_kraft_cli_adds_lists_and_removes_users_without_passwords_in_options(
    secured: Secured, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def kraft(*arguments: str) -> tuple[int, str]:
        admin = ("--bootstrap-server", secured.cluster.bootstrap, "--command-config", secured.command_config())
        code = main(["users", *arguments, *admin])
        return code, "".join(capsys.readouterr())

    def dora(password: str, mechanism: str) -> int:
        return get_in(secured, "dora", password, mechanism)

    monkeypatch.setattr("sys.stdin", io.StringIO("d;secret\n"))
    code, said = kraft("add", "dora")
    assert (code, said) == (0, "user dora can now log in with SCRAM-SHA-512\n")
    wait_until(lambda: dora("d;secret", "SCRAM-SHA-512") == 3)
    monkeypatch.setenv("DORAS", "e;secret")
    both = ("--mechanism", "SCRAM-SHA-256", "--mechanism", "scram-sha-512", "--iterations", "8192")
    assert kraft("add", "dora", *both, "--password-variable", "DORAS")[0] == 0
    wait_until(lambda: dora("e;secret", "SCRAM-SHA-256") == 3 and dora("d;secret", "SCRAM-SHA-512") == 0)
    assert json.loads(kraft("list", "dora", "-o", "json")[1]) == {
        "users": [{"user": "dora", "iterations": {"SCRAM-SHA-256": 8192, "SCRAM-SHA-512": 8192}}]
    }
    assert kraft("remove", "dora", "--yes", "--mechanism", "SCRAM-SHA-256")[0] == 0
    assert kraft("remove", "dora", "--yes")[1] == "user dora can no longer log in with SCRAM-SHA-512\n"
    wait_until(lambda: dora("e;secret", "SCRAM-SHA-512") == 0)
    code, said = kraft("remove", "dora", "--yes")
    assert (code, "there is no such user of SCRAM" in said) == (3, True)


@pytest.mark.java
def test_kafkas_tools_set_a_scram_password_and_log_in_with_it(secured: Secured) -> None:
    require_capability("java17")
    require_capability("mvn")
    address = ("--bootstrap-server", secured.cluster.bootstrap)
    altered = tool(
        "configs", *address, "--command-config", secured.command_config(), "--alter", "--entity-type", "users",
        "--entity-name", "alice", "--add-config", "SCRAM-SHA-512=[iterations=8192,password=a;secret]",
    )  # fmt: skip
    assert "Completed updating config for user alice" in altered.stdout, altered
    scram = secured.command_config("SCRAM-SHA-512")
    produced = tool("console-producer", *address, "--command-config", scram, "--topic", "mixed", stdin="java\n")
    assert "ERROR" not in produced.stderr, produced.stderr


def test_sessions_are_reauthenticated(secured: Secured) -> None:
    """connections.max.reauth.ms is three seconds: nodes and clients have logged in again by the end."""
    producer = Producer({**secured.librdkafka(), "acks": "all"})
    failures: list[Any] = []
    deadline = time.monotonic() + 7
    while time.monotonic() < deadline:
        producer.produce("mixed", b"x", callback=lambda problem, _: problem and failures.append(problem))
        assert producer.flush(SECONDS_MAX) == 0
        time.sleep(0.5)
    assert failures == []


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_the_spark_sink_logs_in_and_creates_its_topic(secured: Secured, mechanism: str) -> None:
    from kraft.spark.client.wire import WireCluster, WireError
    from kraft.spark.client.wire_security import security_of
    from kraft.spark.sink.batch_commit import BatchContent, BatchOrigin, CommitRules, SinkIdentity, commit_batch
    from kraft.spark.sink.exactly_once_writer import OnceWriter
    from kraft.spark.sink.staging import Staging
    from tests.unit.spark.sink_rows import incoming_rows

    user, topic = ("alice" if mechanism == "PLAIN" else "spark"), f"made-for-{mechanism}"
    if mechanism != "PLAIN":
        put_scram(secured, mechanism, user)
        wait_until(lambda: get_in(secured, user, "a;secret", mechanism) == 3)

    def cluster(password: str) -> WireCluster:
        module = PLAIN if mechanism == "PLAIN" else SCRAM
        kafka = {
            "security.protocol": secured.protocol,
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
            "ssl.truststore.location": str(secured.directory / "ca.pem"),
        }
        return WireCluster(secured.cluster.bootstrap, security=security_of(kafka))

    def is_written(password: str) -> bool:
        wires, sink = cluster(password), SinkIdentity("query", topic, "")
        try:
            writer = OnceWriter(wires, 0, 0, 0, Staging(wires, sink.staging_topic), lambda: None)
            writer.write(incoming_rows([(topic, None, b"%d" % number, 0, None, None) for number in range(10)]))
            rules = CommitRules(60_000, "fail", once_a_run=False)
            return commit_batch(wires, sink, BatchOrigin("query", 0, ""), BatchContent(10, writer.finish()), rules)
        finally:
            wires.close()

    assert is_written("a;secret")
    assert not is_written("a;secret"), "it was there already"
    with pytest.raises(WireError, match=f"login as {user}: .*SASL_AUTHENTICATION_FAILED"):
        is_written("guess")
