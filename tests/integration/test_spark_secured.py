"""Spark over a cluster where everything is encrypted, both ends show certificates, everybody logs in for two seconds
at a time, and rights are given one by one: both sources and all ways to read, the sinks and the jobs, in one session.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from pyspark.sql import SparkSession

from kraft.cli.admin.app import main
from kraft.testing.process_cluster import ProcessCluster
from tests.certificates import certificates
from tests.integration.spark_commands import kraft_in

pytestmark = [
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
SECONDS_MAX = 60
QUICK_SECONDS_MAX = 20
ROWS = 2000
MODULES = "org.apache.kafka.common.security"
PLAIN = f"{MODULES}.plain.PlainLoginModule"
SCRAM = f"{MODULES}.scram.ScramLoginModule"
SCRAM_IDS = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
USERS = ("node", "admin", "alice", "nobody", "half")
NODE = f"""\
listeners=CLIENTS://127.0.0.1:0,CONTROLLER://127.0.0.1:0
listener.security.protocol.map=CLIENTS:SASL_SSL,CONTROLLER:SASL_SSL
listener.name.clients.ssl.client.auth=required
inter.broker.listener.name=CLIENTS
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.mechanism.controller.protocol=PLAIN
listener.name.clients.plain.sasl.jaas.config={PLAIN} required username="node" password="p-node" \\
  {" ".join(f'user_{name}="p-{name}"' for name in USERS)};
listener.name.controller.plain.sasl.jaas.config={PLAIN} required username="node" password="p-node" user_node="p-node";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:node;User:admin
connections.max.reauth.ms=2000
offsets.topic.num.partitions=1
ssl.keystore.type=PEM
ssl.keystore.location={{0}}/node.pem
ssl.truststore.type=PEM
ssl.truststore.location={{0}}/ca.pem
"""


class Secured(NamedTuple):
    cluster: ProcessCluster
    directory: Path

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    def keys(self, user: str = "alice", mechanism: str = "PLAIN") -> dict[str, str]:
        """As Java's clients have them."""
        module = PLAIN if mechanism == "PLAIN" else SCRAM
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} required username="{user}" password="p-{user}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": f"{self.directory}/ca.pem",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": f"{self.directory}/client.pem",
        }

    def librdkafka(self, user: str = "alice") -> dict[str, str]:
        """The same by librdkafka's names."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": user,
            "sasl.password": f"p-{user}",
            "ssl.ca.location": f"{self.directory}/ca.pem",
            "ssl.certificate.location": f"{self.directory}/client.pem",
            "ssl.key.location": f"{self.directory}/client.pem",
        }

    def options(self, keys: dict[str, str], **options: str) -> dict[str, str]:
        """Of a source or a sink."""
        given = {f"kafka.{name}": value for name, value in keys.items()}
        return {"kafka.bootstrap.servers": self.bootstrap, **given, **options}

    def command_config(self, user: str = "alice") -> str:
        path = self.directory / f"{user}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in self.keys(user).items()))
        return str(path)

    def allow(self, *arguments: str, user: str = "alice") -> None:
        at = ("--bootstrap-server", self.bootstrap, "--command-config", self.command_config("admin"))
        assert main(["acls", "add", "--allow-principal", f"User:{user}", *arguments, *at]) == 0


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """`numbers` has rows that alice may read; she may write what begins with `out`, and by transactions."""
    directory = certificates().write(tmp_path_factory.mktemp("secured"))
    (directory / "node.properties").write_text(NODE.format(directory))
    arguments = ("--config", str(directory / "node.properties"))
    with ProcessCluster(directory / "nodes", *arguments, nodes=1) as cluster:
        found = Secured(cluster, directory)
        config: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap, "log_level": 0, **found.librdkafka("admin")}
        admin = AdminClient(config)
        for future in admin.create_topics([NewTopic(name, 2, 1) for name in ("numbers", "out", "hidden")]).values():
            future.result(SECONDS_MAX)
        upserts = [
            UserScramCredentialUpsertion("alice", ScramCredentialInfo(each, 4096), b"p-alice")
            for each in SCRAM_IDS.values()
        ]
        for each in upserts:
            for future in admin.alter_user_scram_credentials([each]).values():
                future.result(SECONDS_MAX)
        producer = Producer(config)
        for number in range(ROWS):
            producer.produce("numbers", b"%d" % number, b"k%d" % number, number % 2)
        assert producer.flush(SECONDS_MAX) == 0
        prefixed = ("--resource-pattern-type", "prefixed")
        found.allow("--operation", "Read", "--topic", "numbers")
        found.allow("--operation", "DescribeConfigs", "--topic", "numbers")
        for operation in ("Create", "Write", "Read", "DescribeConfigs"):
            found.allow("--operation", operation, "--topic", "out", *prefixed)
        for operation in ("Create", "Write", "Read", "Delete"):
            found.allow("--operation", operation, "--topic", "__kraft_spark_", *prefixed)
        found.allow("--operation", "Write", "--transactional-id", "kraft-spark/", *prefixed)
        yield found


def rows(spark: SparkSession, source: str, options: dict[str, str]) -> list[tuple[Any, ...]]:
    frame = spark.read.format(source).options(**options).load()
    return sorted((row.partition, row.offset, bytes(row.key), bytes(row.value)) for row in frame.collect())


def values(found: list[tuple[Any, ...]]) -> list[int]:
    return sorted(int(row[3]) for row in found)


def test_every_read_and_login_method_returns_the_same_rows(spark: SparkSession, secured: Secured) -> None:
    official = rows(spark, "kafka", secured.options(secured.keys(), subscribe="numbers"))
    assert values(official) == list(range(ROWS))
    for fetcher in ("auto", "direct", "librdkafka"):
        for keys in (secured.keys(), secured.librdkafka()):
            assert rows(spark, "kraft", secured.options(keys, subscribe="numbers", fetcher=fetcher)) == official
    for mechanism in SCRAM_IDS:
        keys = secured.keys(mechanism=mechanism)
        assert rows(spark, "kraft", secured.options(keys, subscribe="numbers", fetcher="direct")) == official


def test_a_reader_continues_after_its_session_expired(spark: SparkSession, secured: Secured) -> None:
    """The worker's connections are those of the read before, which the node has closed since."""
    options = secured.options(secured.keys(), subscribe="numbers", fetcher="direct")
    first = rows(spark, "kraft", options)
    time.sleep(3)
    assert rows(spark, "kraft", options) == first


def test_a_secured_stream_writes_exactly_once_and_a_batch_at_least_once(
    spark: SparkSession, secured: Secured, tmp_path: Path
) -> None:
    for topic, once in (("out", "true"), ("out-again", "false")):
        frame = spark.readStream.format("kraft").options(
            **secured.options(secured.keys(), subscribe="numbers", startingOffsets="earliest")
        )
        writer = frame.load().select("key", "value").writeStream.format("kraft")
        writer = writer.options(**secured.options(secured.keys(), topic=topic, exactlyOnce=once))
        query = writer.option("checkpointLocation", str(tmp_path / topic)).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        committed = {"subscribe": topic, "kafka.isolation.level": "read_committed"}
        ours, official = (
            rows(spark, source, secured.options(secured.keys(), **committed)) for source in ("kraft", "kafka")
        )
        assert ours == official
        assert values(ours) == list(range(ROWS))


def test_jobs_read_client_properties_from_a_file(
    spark: SparkSession,
    secured: Secured,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    kraft = kraft_in(SimpleNamespace(bootstrap=secured.bootstrap), spark, monkeypatch, capfd, tmp_path)
    config = ("--command-config", secured.command_config())
    assert kraft("archive", "numbers", "kept", "-o", "json", *config).document["records"] == ROWS
    assert kraft("verify", "numbers", "--with-archive", "kept", "-o", "json", *config).document["agree"]
    to = ("--to", secured.bootstrap, "--to-command-config", secured.command_config(), "--target-topic", "out-mirrored")
    assert kraft("mirror", "numbers", *to, "-o", "json", *config).document["records"] == ROWS
    Path("lines.txt").write_text("1\n2\n")
    assert kraft("ingest", "lines.txt", "--topic", "out-lines", "-o", "json", *config).document["records"] == 2
    denied = kraft("archive", "numbers", "other", "--command-config", secured.command_config("nobody"))
    assert denied.code == 1
    assert "User:nobody lacks the permission Read on topic numbers" in denied.err
    assert "p-nobody" not in denied.err


def test_a_missing_permission_is_reported_immediately_and_no_secret_is_shown(
    spark: SparkSession, secured: Secured, tmp_path: Path
) -> None:
    begun = time.monotonic()
    told = []
    nobody = secured.keys("nobody")
    with pytest.raises(Exception, match="User:nobody lacks the permission Read on topic numbers") as problem:
        rows(spark, "kraft", secured.options(nobody, subscribe="numbers"))
    told.append(str(problem.value))
    assert "kraft acls add --allow-principal 'User:nobody' --operation read --topic numbers" in told[0]
    frame = spark.range(3).selectExpr("CAST(id AS STRING) AS value")
    with pytest.raises(Exception, match="User:alice lacks the permission Write on topic numbers") as problem:
        frame.write.format("kraft").options(**secured.options(secured.keys(), topic="numbers")).mode("append").save()
    told.append(str(problem.value))
    wrong = {**secured.librdkafka(), "sasl.password": "p-wrong"}
    with pytest.raises(Exception, match=r"login as alice: .*SASL_AUTHENTICATION_FAILED") as problem:
        rows(spark, "kraft", secured.options(wrong, subscribe="numbers"))
    told.append(str(problem.value))
    untrusted = {**secured.librdkafka(), "ssl.ca.location": f"{secured.directory}/client.pem"}
    with pytest.raises(Exception, match="do not agree on TLS") as problem:
        rows(spark, "kraft", secured.options(untrusted, subscribe="numbers"))
    told.append(str(problem.value))
    assert time.monotonic() - begun < 4 * QUICK_SECONDS_MAX
    explained = spark.read.format("kraft").options(**secured.options(secured.keys(), subscribe="numbers")).load()
    told.append(explained._jdf.queryExecution().toString())
    assert not [each for each in told if "p-" + "alice" in each or "p-nobody" in each or "p-wrong" in each]


def test_a_stream_without_transaction_permissions_fails_immediately_and_names_the_missing_one(
    spark: SparkSession, secured: Secured, tmp_path: Path
) -> None:
    secured.allow("--operation", "Read", "--topic", "numbers", user="half")
    secured.allow("--operation", "Write", "--topic", "out", user="half")
    half = secured.keys("half")
    lacks = ("__kraft_spark_commits.*AUTHORIZATION_FAILED", "transactional id kraft-spark/.*AUTHORIZATION_FAILED")
    for number, expected in enumerate(lacks):
        begun = time.monotonic()
        reader = spark.readStream.format("kraft").options(
            **secured.options(half, subscribe="numbers", startingOffsets="earliest")
        )
        writer = reader.load().select("key", "value").writeStream.format("kraft")
        writer = writer.options(**secured.options(half, topic="out")).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / str(number))).start()
        with pytest.raises(Exception, match=expected) as problem:
            query.awaitTermination(120)
        assert "`kraft acls add` grants permissions" in str(problem.value)
        assert time.monotonic() - begun < QUICK_SECONDS_MAX
        for operation in ("Create", "Write", "Read", "Delete"):
            secured.allow(
                *("--operation", operation, "--topic", "__kraft_spark_", "--resource-pattern-type", "prefixed"),
                user="half",
            )
