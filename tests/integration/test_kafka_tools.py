"""Apache Kafka's own command-line tools over a node of ours, and its dump-log over our files. Each start of a JVM is
dear: the tools run two at a time."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from jepsen.java.kafka import BEFORE, tool
from jepsen.three_nodes import until
from kraft.cli.admin.app import main
from kraft.testing.node_process import NodeProcess
from tests.capabilities import require_capability
from tests.integration.kafka_tools import Run, complaints, dump, printed
from tests.integration.plain_clients import CODECS, Record, write_confluent

pytestmark = pytest.mark.java
PERF_RECORDS = 20_000


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    require_capability("java17")
    require_capability("mvn")
    with NodeProcess(tmp_path_factory.mktemp("node"), "--set", "group.initial.rebalance.delay.ms=0") as node:
        yield node


@pytest.fixture(scope="module")
def topics(node: NodeProcess) -> None:
    """`plain` with 100 records in two partitions, and a group that has read some of them."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic("plain", 2, 1), NewTopic("perf", 2, 1)]).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": node.bootstrap, "log_level": 0})
    for index in range(100):
        producer.produce("plain", b"%d" % index, b"key", partition=index % 2)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "log_level": 0, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition("plain", 0, 10), TopicPartition("plain", 1, 50)], asynchronous=False)
    consumer.close()


def on(node: NodeProcess, name: str, *arguments: str, stdin: str | None = None) -> Run:
    return lambda: tool(name, "--bootstrap-server", node.bootstrap, *arguments, stdin=stdin)


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


def test_kafka_topics_creates_describes_alters_and_deletes(node: NodeProcess) -> None:
    created, refused = printed(
        on(node, "topics", "--create", "--topic", "tools", "--partitions", "3", "--config", "retention.ms=5000"),
        lambda: tool(
            "topics",
            "--bootstrap-server",
            node.bootstrap,
            "--create",
            "--topic",
            "tools-2",
            "--replication-factor",
            "2",
            check=False,
        ),
    )
    assert "Created topic tools." in created
    assert "The target replication factor of 2 cannot be reached" in refused
    (altered, listed) = printed(
        on(node, "topics", "--alter", "--topic", "tools", "--partitions", "4"), on(node, "topics", "--list")
    )
    assert not altered.strip()
    assert "tools" in listed.split()
    described, unavailable = printed(
        on(node, "topics", "--describe", "--topic", "tools"),
        on(node, "topics", "--describe", "--under-replicated-partitions", "--unavailable-partitions"),
    )
    assert "PartitionCount: 4\tReplicationFactor: 1\tConfigs: min.insync.replicas=1,retention.ms=5000" in described
    assert described.count("Leader: 1\tReplicas: 1\tIsr: 1") == 4
    assert not unavailable.strip()
    printed(on(node, "topics", "--delete", "--topic", "tools"))
    assert (
        "tools" not in AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0}).list_topics(timeout=30).topics
    )


def test_the_console_clients_and_perf_tools_of_kafka_work(node: NodeProcess, topics: None) -> None:
    lines = "".join(f"k{index}\tvalue {index}\n" for index in range(50))
    consume = (
        "--from-beginning",
        "--timeout-ms",
        "20000",
        "--formatter-property",
        "print.key=true",
        "--formatter-property",
        "print.offset=true",
    )
    _, performed = printed(
        on(
            node,
            "console-producer",
            "--topic",
            "console",
            "--reader-property",
            "parse.key=true",
            "--compression-codec",
            "zstd",
            stdin=lines,
        ),
        on(
            node,
            "producer-perf",
            "--topic",
            "perf",
            "--num-records",
            str(PERF_RECORDS),
            "--record-size",
            "200",
            "--throughput",
            "-1",
            "--command-property",
            "compression.type=lz4",
            "--command-property",
            "batch.size=8192",
        ),
    )
    assert f"{PERF_RECORDS} records sent" in performed
    read, counted = printed(
        on(node, "console-consumer", "--topic", "console", "--max-messages", "50", "--group", "console", *consume),
        on(node, "consumer-perf", "--topic", "perf", "--num-records", str(PERF_RECORDS), "--timeout", "20000"),
    )
    assert sorted(read.splitlines()) == sorted(f"Offset:{index}\tk{index}\tvalue {index}" for index in range(50))
    assert str(PERF_RECORDS) in counted.splitlines()[-1]


def test_kafka_consumer_groups_describes_groups_and_resets_offsets(node: NodeProcess, topics: None) -> None:
    described, listed = printed(
        on(node, "consumer-groups", "--describe", "--group", "readers"),
        on(node, "consumer-groups", "--list", "--state"),
    )
    rows = {(row[1], row[2]): row[3:6] for row in words(described) if row[0] == "readers"}
    assert rows == {("plain", "0"): ["10", "50", "40"], ("plain", "1"): ["50", "50", "0"]}
    assert any({"readers", "Empty"} <= set(row) for row in words(listed))
    tried, reset = printed(
        on(
            node,
            "consumer-groups",
            "--reset-offsets",
            "--group",
            "readers",
            "--topic",
            "plain",
            "--to-earliest",
            "--dry-run",
        ),
        on(
            node,
            "consumer-groups",
            "--reset-offsets",
            "--group",
            "others",
            "--topic",
            "plain:1",
            "--to-offset",
            "7",
            "--execute",
        ),
    )
    assert sorted(row[2:] for row in words(tried) if row[0] == "readers") == [["0", "0"], ["1", "0"]]
    assert [row[2:] for row in words(reset) if row[0] == "others"] == [["1", "7"]]
    _, by_time = printed(
        on(
            node,
            "consumer-groups",
            "--reset-offsets",
            "--group",
            "readers",
            "--topic",
            "plain:0",
            "--shift-by",
            "15",
            "--execute",
        ),
        on(
            node,
            "consumer-groups",
            "--reset-offsets",
            "--group",
            "by-time",
            "--topic",
            "plain",
            "--to-datetime",
            "2020-01-01T00:00:00.000",
            "--execute",
        ),
    )
    assert sorted(row[2:] for row in words(by_time) if row[0] == "by-time") == [["0", "0"], ["1", "0"]]
    described, deleted = printed(
        on(node, "consumer-groups", "--describe", "--group", "readers", "--offsets"),
        on(node, "consumer-groups", "--delete", "--group", "others"),
    )
    assert {row[2]: row[3] for row in words(described) if row[0] == "readers"} == {"0": "25", "1": "50"}
    assert "'others'" in deleted
    assert "successful" in deleted


def test_kafka_configs_and_kafka_features_work(node: NodeProcess, topics: None) -> None:
    altered, dynamic, features = printed(
        on(
            node,
            "configs",
            "--alter",
            "--entity-type",
            "topics",
            "--entity-name",
            "plain",
            "--add-config",
            "retention.ms=123456,segment.bytes=2000000",
        ),
        on(
            node,
            "configs",
            "--alter",
            "--entity-type",
            "brokers",
            "--entity-name",
            "1",
            "--add-config",
            "log.cleaner.threads=1",
        ),
        on(node, "features", "describe"),
    )
    assert "Completed updating config for topic plain." in altered
    assert "Completed updating config for broker 1." in dynamic
    assert re.search(r"Feature: metadata.version\s.*FinalizedVersionLevel: 4.4-IV2", features)
    assert re.search(r"Feature: kraft.version\s.*FinalizedVersionLevel: 1", features)
    topic, broker = printed(
        on(node, "configs", "--describe", "--entity-type", "topics", "--entity-name", "plain"),
        on(node, "configs", "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all"),
    )
    assert "retention.ms=123456 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=123456" in topic
    assert "log.cleaner.threads=1 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.cleaner.threads=1" in broker
    assert "node.id=1 " in broker


def test_kafka_get_offsets_and_kafka_delete_records_work(node: NodeProcess, topics: None, tmp_path: Path) -> None:
    wanted = tmp_path / "delete.json"
    wanted.write_text('{"partitions": [{"topic": "plain", "partition": 1, "offset": 30}], "version": 1}')
    before, deleted = printed(
        on(node, "get-offsets", "--topic", "plain"), on(node, "delete-records", "--offset-json-file", str(wanted))
    )
    assert sorted(before.split()) == ["plain:0:50", "plain:1:50"]
    assert re.search(r"partition: plain-1\s+low_watermark: 30", deleted)
    earliest, by_time = printed(
        on(node, "get-offsets", "--topic-partitions", "plain:0-2", "--time", "-2"),
        on(node, "get-offsets", "--topic-partitions", "plain:1", "--time", "1600000000000"),
    )
    assert sorted(earliest.split()) == ["plain:0:0", "plain:1:30"]
    assert by_time.split() == ["plain:1:30"]


def test_kafka_tools_describe_the_quorum_log_directories_and_api_versions(node: NodeProcess, topics: None) -> None:
    status, replication, directories, versions, by_controller, cluster = printed(
        on(node, "metadata-quorum", "describe", "--status"),
        on(node, "metadata-quorum", "describe", "--replication", "--human-readable"),
        on(node, "log-dirs", "--describe", "--topic-list", "plain"),
        on(node, "broker-api-versions"),
        lambda: tool("metadata-quorum", "--bootstrap-controller", node.ready["controller"], "describe", "--status"),
        lambda: tool("cluster", "list-endpoints", "--bootstrap-server", node.bootstrap),
    )
    assert re.search(r"LeaderId:\s+1\n", status)
    assert f"ClusterId:              {node.ready['cluster']}" in status
    assert re.search(r"^1\s.*Leader", replication, re.MULTILINE)
    assert '"error":null' in directories
    assert directories.count('"partition":"plain-') == 2
    assert f"{node.bootstrap} (id: 1 rack: null isFenced: false)" in versions
    assert "UNKNOWN(" not in versions
    assert "Produce(0): 0 to 13" in versions or "Produce(0): 3 to 13" in versions
    assert re.search(r"LeaderId:\s+1\n", by_controller)
    assert "127.0.0.1" in cluster


def test_kafka_dump_log_finds_no_fault_in_our_files(tmp_path: Path) -> None:
    """Every codec, several segments with their indexes and producer snapshots, commits of groups, the metadata log
    and its snapshot; across a crash."""
    require_capability("java17")
    require_capability("mvn")
    small = (
        "--set",
        "log.segment.bytes=1048576",
        "--set",
        "metadata.log.max.record.bytes.between.snapshots=2000",
        "--set",
        "log.index.interval.bytes=1024",
    )
    with NodeProcess(tmp_path, *small) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
        for future in admin.create_topics([NewTopic(f"dumped-{codec}", 1, 1) for codec in CODECS]).values():
            future.result(30)
        noise = random.Random(0)
        for codec in CODECS:
            config = {
                "bootstrap.servers": node.bootstrap,
                "log_level": 0,
                "compression.type": codec,
                "enable.idempotence": True,
            }
            producer = Producer(config)
            for number in range(800):
                producer.produce(
                    f"dumped-{codec}",
                    noise.randbytes(1800) + bytes(400),
                    b"k%d" % number,
                    0,
                    headers=[("h", b"x"), ("null", None)],
                )
                if number % 100 == 99:
                    assert producer.flush(30) == 0
        for index in range(60):
            admin.create_topics([NewTopic(f"many-{index}", 1, 1)])[f"many-{index}"].result(30)
        consumer = Consumer({"bootstrap.servers": node.bootstrap, "log_level": 0, "group.id": "g"})
        consumer.commit(offsets=[TopicPartition("dumped-none", 0, 10)], asynchronous=False)
        consumer.close()
        node.kill()
        node.start()
        write_confluent(node.bootstrap, "dumped-none", [Record(b"k", b"after the crash")], "none")
        node.stop()
    data = tmp_path / "data"
    logs = sorted(data.glob("dumped-*/*.log"))
    assert len(logs) > len(CODECS), "several segments"
    others = [
        path
        for kind in ("index", "timeindex", "txnindex", "snapshot")
        for path in sorted(data.glob(f"dumped-*/*.{kind}"))
        if path.stat().st_size
    ]
    assert {path.suffix for path in others} >= {".index", ".timeindex", ".snapshot"}
    offsets = [path for path in sorted(data.glob("__consumer_offsets-*/*.log")) if path.stat().st_size]
    metadata = sorted((data / "__cluster_metadata-0").glob("*.log"))
    snapshots = sorted((data / "__cluster_metadata-0").glob("*.checkpoint"))
    assert len(snapshots) > 1, "a snapshot beside the one of formatting"
    dumped, indexes, committed, cluster = printed(
        dump(logs, "--deep-iteration", "--print-data-log"),
        dump(others),
        dump(offsets, "--offsets-decoder", "--deep-iteration"),
        dump([*metadata, *snapshots], "--cluster-metadata-decoder", "--deep-iteration"),
    )
    for text in (dumped, indexes, committed, cluster):
        assert not complaints(text), complaints(text)[:5]
    assert dumped.count("| offset:") == 800 * len(CODECS) + 1
    assert {match.lower() for match in re.findall(r"compresscodec: (\w+)", dumped)} == set(CODECS)
    assert "isvalid: false" not in dumped
    assert indexes.count("producerId:") >= len(CODECS)
    assert re.search(r'"group":"g".*"offset":10', committed)
    for record in ("TOPIC_RECORD", "PARTITION_RECORD", "REGISTER_BROKER_RECORD", "FEATURE_LEVEL_RECORD"):
        assert record in cluster, record
    for control_record in ("LeaderChange", "SnapshotHeader", "SnapshotFooter", "KRaftVoters"):
        assert control_record in cluster, control_record


def test_a_formatted_directory_is_read_by_kafkas_tools_and_served(tmp_path: Path) -> None:
    """Both directories' bootstrap records, the identity, and a credential that goes all the way into a snapshot."""
    require_capability("java17")
    require_capability("mvn")
    properties = tmp_path / "node.properties"
    properties.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=127.0.0.1:9093\n"
        f"listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\nlog.dirs={tmp_path}/data,{tmp_path}/other\n"
    )
    command = [
        "storage",
        "format",
        "--cluster-id",
        "MkU3OEVBNTcwNTJENDM2Qk",
        "--config",
        str(properties),
        "--standalone",
        "--release-version",
        "4.3",  # The metadata shell of BEFORE reads no later one.
    ]
    assert main([*command, "--add-scram", "SCRAM-SHA-256=[name=alice,password=alice-secret]"]) == 0
    with NodeProcess(
        tmp_path, "--set", "metadata.log.max.record.bytes.between.snapshots=200", disks=("data", "other")
    ) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
        for index in range(5):
            admin.create_topics([NewTopic(f"t-{index}", 3, 1)])[f"t-{index}"].result(30)
        # The log grows without us, and its next snapshot has all that was there before.
        until(lambda: b"t-4" in newest_snapshot(tmp_path).read_bytes(), "no snapshot has the last topic")
        assert node.stop() == 0
    snapshot = newest_snapshot(tmp_path)
    assert snapshot.stat().st_mode & 0o777 == 0o400
    bootstrap, info, tree = printed(
        dump([tmp_path / name / "bootstrap.checkpoint" for name in ("data", "other")], "--cluster-metadata-decoder"),
        lambda: tool("storage", "info", "--config", str(properties)),
        lambda: tool("metadata-shell", "--snapshot", str(snapshot), "find", "/image", release=BEFORE),
    )
    assert not complaints(bootstrap), complaints(bootstrap)[:5]
    assert (
        bootstrap.count('"type":"USER_SCRAM_CREDENTIAL_RECORD","version":0,"data":{"name":"alice","mechanism":1') == 2
    )
    assert "cluster.id=MkU3OEVBNTcwNTJENDM2Qk" in info
    assert "Found problem" not in info
    assert {"/image/scram/SCRAM-SHA-256/alice", "/image/cluster/brokers/1"} <= set(tree.split())


def newest_snapshot(directory: Path) -> Path:
    return max((directory / "data" / "__cluster_metadata-0").glob("*.checkpoint"))
