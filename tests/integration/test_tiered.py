"""Tiered storage as a user sees it: segments leave the disk, consumers read both tiers, and a deleted topic leaves
nothing behind."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import TopicPartition

from jepsen.three_nodes import NODES, ThreeNodes
from kraft.cli.admin.app import main
from kraft.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.testing.foreign.librdkafka import AdminClient, Consumer
from kraft.testing.node_process import NodeProcess
from tests.integration.plain_clients import write_confluent
from tests.integration.tiered_cluster import (
    LOCAL,
    RECORDS,
    SECONDS_MAX,
    SEGMENT,
    TIERED,
    create,
    log_bytes,
    options,
    records_of,
    size_of,
    until,
)


def read(bootstrap: str, topic: str, count: int, start: int = 0) -> list[int]:
    """What the first `count` records from `start` on are, by their numbers; each at its offset."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reads", "check.crcs": True})
    consumer.assign([TopicPartition(topic, 0, start)])
    numbers: list[int] = []
    give_up = time.monotonic() + SECONDS_MAX
    try:
        while len(numbers) < count:
            assert time.monotonic() < give_up, f"{len(numbers)} records were read"
            for message in consumer.consume(1000, 0.5):
                assert message.error() is None
                assert message.offset() == start + len(numbers)
                numbers.append(int(message.value().split()[0]))
    finally:
        consumer.close()
    return numbers


def objects(store: Path) -> list[Path]:
    return [path for path in store.rglob("*") if path.is_file()]


def start_of(bootstrap: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "asks"})
    try:
        low, _ = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=SECONDS_MAX, cached=False)
    finally:
        consumer.close()
    return int(low)


def test_a_consumer_reads_records_removed_from_disk_even_after_a_kill(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with NodeProcess(tmp_path / "node", *options(f"file://{store}")) as node:
        create(node.bootstrap, "t")
        directory = tmp_path / "node" / "data" / "t-0"
        write_confluent(node.bootstrap, "t", records_of(RECORDS), "none")
        until(lambda: log_bytes(directory) <= LOCAL + SEGMENT)
        assert len(objects(store)) >= 5 * 15, "five objects a segment, without a transaction index"
        assert read(node.bootstrap, "t", RECORDS) == list(range(RECORDS))

        node.kill()
        node.start()
        assert read(node.bootstrap, "t", RECORDS) == list(range(RECORDS))
        assert start_of(node.bootstrap, "t") == 0
        write_confluent(node.bootstrap, "t", records_of(RECORDS // 4, RECORDS), "none")
        until(lambda: log_bytes(directory) <= LOCAL + SEGMENT)
        assert read(node.bootstrap, "t", 1000, RECORDS // 2) == list(range(RECORDS // 2, RECORDS // 2 + 1000))

        AdminClient({"bootstrap.servers": node.bootstrap}).delete_topics(["t"])["t"].result(SECONDS_MAX)
        until(lambda: objects(store) == [])
        assert node.stop() == 0


def described(bootstrap: str, topic: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What the command tells of the tier of partition 0."""
    capsys.readouterr()
    assert main(["topics", "describe", topic, "-b", bootstrap, "-o", "json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)["topics"]
    tier: dict[str, Any] = shown["partitions"][0]["tier"]
    return tier


def told_of(node: NodeProcess, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What the node and the command tell of partition 0 of topic t, which is the same."""
    (facts,) = httpx.get(f"{node.admin_url}/v1/topic-facts?topic=t", timeout=SECONDS_MAX).json()["data"]
    (tier,) = facts["tiers"]
    shown = described(node.bootstrap, "t", capsys)
    assert shown.pop("partition") == tier.pop("partition_id") == 0
    return tier | shown


def test_the_size_of_each_tier_and_the_reason_for_a_missing_copy_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    with NodeProcess(tmp_path / "node", *options(f"file://{store}"), admin=True) as node:
        create(node.bootstrap, "t")
        directory = tmp_path / "node" / "data" / "t-0"
        write_confluent(node.bootstrap, "t", records_of(RECORDS // 4), "none")
        until(lambda: 0 < log_bytes(directory) <= LOCAL + SEGMENT)
        until(lambda: told_of(node, capsys)["copy_lag_segments"] == 0)
        told = told_of(node, capsys)
        assert told["remote_bytes"] == sum(size_of(path) for path in store.rglob("*.log"))
        assert (told["local_bytes"], told["last_error"]) == (log_bytes(directory), None)

        (folder,) = store.iterdir()
        folder.rename(tmp_path / "away")
        folder.write_text("This is no folder.")
        write_confluent(node.bootstrap, "t", records_of(RECORDS // 4), "none")
        until(lambda: told_of(node, capsys)["last_error"] is not None)
        assert told_of(node, capsys)["copy_lag_segments"] > 0
        health = httpx.get(f"{node.admin_url}/v1/cluster/health", timeout=SECONDS_MAX).json()
        assert [each["code"] for each in health["reasons"]] == ["tiering_put_off"]
        assert main(["topics", "describe", "t", "-b", node.bootstrap, "-o", "table"]) == 0
        assert "COPY LAG" in capsys.readouterr().out
        metrics = httpx.get(f"{node.admin_url}/metrics", timeout=SECONDS_MAX).text
        assert 'kafka_server_brokertopicmetrics_remotecopylagsegments{topic="t"}' in metrics
        assert 'kraft_remote_put_off_partitions{topic="t"} 1\n' in metrics
        waited = metrics.partition('kraft_remote_copy_wait_seconds{topic="t"} ')[2].partition("\n")[0]
        assert 0 < float(waited) < SECONDS_MAX


def test_tiering_is_disabled_only_together_with_the_deletion_of_remote_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    with NodeProcess(tmp_path / "node", *options(f"file://{store}")) as node:
        create(node.bootstrap, "t")
        write_confluent(node.bootstrap, "t", records_of(RECORDS // 4), "none")
        until(lambda: 0 < log_bytes(tmp_path / "node" / "data" / "t-0") <= LOCAL + SEGMENT)
        setting = ["configs", "set", "topic", "t", "remote.storage.enable=false", "-b", node.bootstrap]
        assert main(setting) == 1
        assert "If you want to keep the remote data and turn to read only" in capsys.readouterr().err
        assert objects(store)
        assert main([*setting, "remote.log.delete.on.disable=true"]) == 0
        until(lambda: objects(store) == [])
        start = start_of(node.bootstrap, "t")
        assert 0 < start < RECORDS // 4
        assert read(node.bootstrap, "t", RECORDS // 4 - start, start) == list(range(start, RECORDS // 4))

        node.kill()
        node.start()
        write_confluent(node.bootstrap, "t", records_of(RECORDS // 4, RECORDS // 4), "none")
        assert read(node.bootstrap, "t", RECORDS // 2 - start, start) == list(range(start, RECORDS // 2))
        assert objects(store) == []


def test_kraft_verifies_the_object_store_against_the_remote_metadata(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    with NodeProcess(tmp_path / "node", *options(f"file://{store}")) as node:
        create(node.bootstrap, "t")
        write_confluent(node.bootstrap, "t", records_of(RECORDS // 4), "none")
        until(lambda: 0 < log_bytes(tmp_path / "node" / "data" / "t-0") <= LOCAL + SEGMENT)
        until(lambda: described(node.bootstrap, "t", capsys)["copy_lag_segments"] == 0)

        def verified(*more: str) -> tuple[int, dict[str, Any]]:
            capsys.readouterr()
            code = main(
                ["storage", "remote", "verify", "--store", f"file://{store}", "-b", node.bootstrap, "-o", "json", *more]
            )
            return code, json.loads(capsys.readouterr().out)

        code, document = verified("--read")
        assert (code, document["findings"]) == (0, [])
        assert document["segment_count"] * 5 == document["object_count"] == len(objects(store))
        first, second = sorted(store.rglob("*.log"))[:2]
        first.unlink()
        content = bytearray(second.read_bytes())
        content[len(content) // 2] ^= 1
        second.write_bytes(content)
        (second.parent / "notes").write_text("mine")
        code, document = verified("--read")
        assert code == 1
        assert [each["kind"] for each in document["findings"]] == ["orphan", "missing", "damaged"]
        assert [each["name"].rpartition("/")[2] for each in document["findings"]] == ["notes", first.name, second.name]
        assert main(["storage", "remote", "verify", "--store", "here", "-b", node.bootstrap]) == 1
        assert "is no place for objects" in capsys.readouterr().err


def replica(cluster: ThreeNodes, node: int, topic: str) -> Path:
    return cluster.nodes[node].directory / "data" / f"{topic}-0"


def reassign(cluster: ThreeNodes, topic: str, target: list[int]) -> None:
    partition = ReassignablePartition(partition_index=0, replicas=target)
    wanted = ReassignableTopic(name=topic, partitions=[partition])
    answer = cluster.ask(1, AlterPartitionReassignmentsRequest(topics=[wanted], timeout_ms=10_000))
    assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (0, 0)


def until_few_are_local(cluster: ThreeNodes, topic: str, nodes: Sequence[int] = NODES) -> None:
    until(lambda: all(0 < log_bytes(replica(cluster, node, topic)) <= LOCAL + SEGMENT for node in nodes))


def test_a_leader_killed_while_it_copies_loses_no_records(tmp_path: Path) -> None:
    store = tmp_path / "store"
    slow = options(f"file://{store}", "remote.log.manager.copy.max.bytes.per.second=4000000")
    with ThreeNodes(tmp_path / "nodes", *slow) as cluster:
        topic = cluster.create("t", **TIERED)
        write_confluent(cluster.bootstrap, topic, records_of(RECORDS), "none")
        for copied in (12, 40):
            until(lambda copied=copied: len(objects(store)) >= copied)
            leader = cluster.leader(topic)
            cluster.kill([leader])
            until(lambda leader=leader: cluster.leader(topic) != leader)
            cluster.start([leader])
        until_few_are_local(cluster, topic)
        assert read(cluster.bootstrap, topic, RECORDS) == list(range(RECORDS))


def test_a_new_follower_starts_its_local_log_after_the_remote_tier(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with ThreeNodes(tmp_path / "nodes", *options(f"file://{store}")) as cluster:
        topic = cluster.create("t", replicas=2, **TIERED)
        write_confluent(cluster.bootstrap, topic, records_of(RECORDS), "none")
        old = [each for each in NODES if each in cluster.partitions(topic)[0].replicas]
        (new,) = [each for each in NODES if each not in old]
        until_few_are_local(cluster, topic, old)
        reassign(cluster, topic, [*old, new])
        cluster.until_in_sync(topic)
        assert log_bytes(replica(cluster, new, topic)) <= LOCAL + SEGMENT
        reassign(cluster, topic, [new])
        until(lambda: cluster.leader(topic) == new)
        assert read(cluster.bootstrap, topic, RECORDS) == list(range(RECORDS))
        write_confluent(cluster.bootstrap, topic, records_of(1000, RECORDS), "none")
        assert read(cluster.bootstrap, topic, 2000, RECORDS - 1000) == list(range(RECORDS - 1000, RECORDS + 1000))


def local_start(cluster: ThreeNodes, node: int, topic: str) -> int:
    return min(int(path.stem) for path in replica(cluster, node, topic).glob("*.log"))


def configure(cluster: ThreeNodes, *settings: str) -> None:
    assert main(["configs", "set", "topic", "t", *settings, "-b", cluster.bootstrap]) == 0


def kill_leader(cluster: ThreeNodes, topic: str) -> None:
    """And start it again once another one leads."""
    leader = cluster.leader(topic)
    cluster.kill([leader])
    until(lambda: cluster.leader(topic) != leader)
    cluster.start([leader])


def told(cluster: ThreeNodes) -> list[str]:
    """Lines of the nodes' logs."""
    return [line for node in cluster.nodes.values() for line in node.log_path.read_text().splitlines()]


def test_tiering_is_disabled_and_enabled_while_leaders_are_killed(tmp_path: Path) -> None:
    store, written = tmp_path / "store", RECORDS // 2
    with ThreeNodes(tmp_path / "nodes", *options(f"file://{store}")) as cluster:
        topic = cluster.create("t", **TIERED)
        write_confluent(cluster.bootstrap, topic, records_of(written), "none")
        until_few_are_local(cluster, topic)
        configure(cluster, "remote.log.copy.disable=true", "local.retention.bytes=-2")
        kill_leader(cluster, topic)
        before = len(objects(store))
        write_confluent(cluster.bootstrap, topic, records_of(written, written), "none")
        assert read(cluster.bootstrap, topic, 2 * written) == list(range(2 * written))
        assert len(objects(store)) == before, "nothing more is copied"
        starts = [local_start(cluster, node, topic) for node in NODES]

        stuck = sorted(store.rglob("*.log"))[2]
        stuck.unlink()
        stuck.mkdir()  # Cannot be deleted as an object is.
        configure(cluster, "remote.storage.enable=false", "remote.log.delete.on.disable=true")
        until(lambda: any("remote log work postponed" in line and stuck.name in line for line in told(cluster)))
        assert 0 < len(objects(store)) < before - 1, "it is between two segments"
        kill_leader(cluster, topic)
        stuck.rmdir()
        until(lambda: objects(store) == [])
        cluster.until_in_sync(topic)
        start = start_of(cluster.bootstrap, topic)
        assert min(starts) <= start <= max(starts) < written
        assert read(cluster.bootstrap, topic, 2 * written - start, start) == list(range(start, 2 * written))
        deleted = [line for line in told(cluster) if "segment deleted from the remote tier" in line]
        assert deleted
        assert all("tiering is off" in line for line in deleted)

        settings = ("remote.storage.enable=true", "remote.log.copy.disable=false", f"local.retention.bytes={LOCAL}")
        configure(cluster, *settings)
        until(lambda: objects(store) != [])
        kill_leader(cluster, topic)
        until_few_are_local(cluster, topic)
        assert start_of(cluster.bootstrap, topic) == start
        assert read(cluster.bootstrap, topic, 2 * written - start, start) == list(range(start, 2 * written))
