"""Data of an earlier commit under today's code, and a rolling upgrade and rollback between the two."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from jepsen.three_nodes import until
from kraft.testing.foreign.librdkafka import AdminClient, Producer
from kraft.testing.process_cluster import ProcessCluster
from kraft.testing.steady_writer import SteadyWriter
from tests.capabilities import require_capability
from tests.integration.transactions_of_one_key import COMPACTED, SECONDS_MAX, read_all, write_transactions
from tests.upgrade.earlier import (
    FORGETS_ABORTED,
    NoEarlierCommit,
    check_out_earlier,
    describe,
    earlier_commits,
    read_records,
    unpack,
)
from tests.upgrade.make_fixture import FIXTURES, GROUP, TOPICS


@pytest.mark.parametrize(("name", "nodes"), [("single", 1), ("quorum", 3)])
def test_data_of_an_earlier_commit_is_kept_and_appended_to(tmp_path: Path, name: str, nodes: int) -> None:
    unpack(FIXTURES / f"{name}.tar.xz", tmp_path)
    acknowledged = json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))
    del acknowledged["commit"]
    with ProcessCluster(tmp_path, nodes=nodes) as cluster:
        assert describe(cluster.bootstrap, TOPICS, GROUP) == acknowledged
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 0})
        producer.produce("plain", b"later", key=b"later", partition=0)
        assert producer.flush(30) == 0
        plain = acknowledged["records"]["plain"]["0"]
        plain.append([plain[-1][0] + 1, "later", "later"])
        for node in cluster.nodes:
            assert cluster.nodes[node].stop() == 0
            cluster.start([node])
        assert describe(cluster.bootstrap, TOPICS, GROUP) == acknowledged


@pytest.mark.parametrize("commit", earlier_commits())
def test_a_quorum_rolls_to_the_current_code_and_back_under_a_writer(tmp_path: Path, commit: str) -> None:
    require_capability("git")
    try:
        earlier = check_out_earlier(tmp_path / "earlier", commit)
    except NoEarlierCommit as missing:
        pytest.skip(str(missing))
    cluster = ProcessCluster(tmp_path / "cluster")
    for node in cluster.nodes.values():
        node.environment = earlier
    with cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("t", 1, 3, config={"min.insync.replicas": "2"})])["t"].result(30)
        with SteadyWriter(cluster.bootstrap, "t", acks="all") as writer:
            writer.more(10)
            for environment in ({}, earlier):
                for node in cluster.nodes.values():
                    assert node.stop() == 0
                    node.environment = environment
                    node.start()
                    writer.more(10)
        assert not writer.failed
        kept = {record[0]: record[2] for record in read_records(cluster.bootstrap, "t", 0)}
        values = set(kept.values())
        for each in writer.acknowledged:
            assert each.value.decode() in values
            assert each.offset is None or each.offset < 0 or kept[each.offset] == each.value.decode()
        assert len(kept) == len(values), "no record was written twice"


def test_aborted_transactions_stay_aborted_over_a_rolling_upgrade_and_downgrade(tmp_path: Path) -> None:
    """The earlier commit loses it at each orderly stop. Today's code mends that, and leaves what the earlier one reads
    after the way back."""
    require_capability("git")
    try:
        earlier = check_out_earlier(tmp_path / "earlier", FORGETS_ABORTED)
    except NoEarlierCommit as missing:
        pytest.skip(str(missing))
    cluster = ProcessCluster(tmp_path / "cluster", "--set", "log.cleaner.backoff.ms=100")
    for node in cluster.nodes.values():
        node.environment = earlier
    topics = {"plain": {}, "compacted": COMPACTED}
    with cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        made = admin.create_topics([NewTopic(name, 1, 3, config=config) for name, config in topics.items()])
        for future in made.values():
            future.result(30)
        for topic in topics:
            write_transactions(cluster.bootstrap, topic, (b"A1", False), (b"ok", True), (b"A2", False))
        roll(cluster, {})
        for topic in topics:
            assert read_all(cluster.bootstrap, topic) == [b"ok"], f"{topic}, upgraded"
        roll(cluster, {})
        for topic in topics:
            assert read_all(cluster.bootstrap, topic) == [b"ok"], f"{topic}, restarted"
        roll(cluster, earlier)
        assert read_all(cluster.bootstrap, "plain") == [b"ok"], "taken back"


def roll(cluster: ProcessCluster, environment: dict[str, str]) -> None:
    """Stop and start one node after the other, each once the others have its replicas in sync."""
    for node in cluster.nodes.values():
        until(lambda: all_in_sync(cluster), "all replicas in sync", SECONDS_MAX)
        assert node.stop() == 0
        node.environment = environment
        node.start()
    until(lambda: all_in_sync(cluster), "all replicas in sync", SECONDS_MAX)


def all_in_sync(cluster: ProcessCluster) -> bool:
    found = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0}).list_topics(timeout=30).topics
    return all(
        partition.leader >= 0 and len(partition.isrs) == len(partition.replicas)
        for topic in found.values()
        for partition in topic.partitions.values()
    )
