"""A bit that turns over in the log of a node that was killed: nobody is told that acknowledged records do not exist."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import NewTopic

from kraft.protocol.records.record_batch import batches
from kraft.testing.foreign.librdkafka import AdminClient, Consumer, Producer
from kraft.testing.node_process import NodeProcess
from kraft.testing.process_cluster import ProcessCluster

RECORDS = 300
SECONDS_MAX = 60


def produce(bootstrap: str, count: int = RECORDS) -> None:
    """Each record in a batch of its own, acknowledged by all."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0, "batch.num.messages": 1})
    failures: list[object] = []
    for index in range(count):
        producer.produce("t", b"%d" % index, on_delivery=lambda error, _: failures.append(error) if error else None)
        if index % 50 == 49 or index + 1 == count:
            assert producer.flush(30) == 0
    assert not failures


def flip_in_the_middle(data_dir: Path) -> int:
    """One bit of a batch in the middle of the log of t-0; its offset."""
    (path,) = sorted((data_dir / "t-0").glob("*.log"))
    content = bytearray(path.read_bytes())
    found = list(batches(bytes(content)))
    batch = found[len(found) // 2]
    content[batch.position + batch.size - 2] ^= 4
    path.write_bytes(content)
    return batch.base_offset


def end_of(bootstrap: str) -> int:
    """-1 while nobody leads."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "log_level": 0})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=2, cached=False)[1])
    except KafkaException:
        return -1
    finally:
        consumer.close()


def wait_for_end(bootstrap: str, end: int) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while end_of(bootstrap) != end:
        assert time.monotonic() < deadline, "the end is not told in time"
        time.sleep(0.2)


def kraft(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "kraft.cli.admin.app", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def waiting_replica(bootstrap: str) -> dict[str, str]:
    """What `kraft cluster health` says of the one replica that waits, once it does."""
    command = [sys.executable, "-m", "kraft.cli.admin.app", "cluster", "health", "-b", bootstrap, "-o", "json"]
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), done.stderr
        found = [each for each in json.loads(done.stdout)["reasons"] if each["code"] == "waiting_replica"]
        if found:
            (reason,) = found
            assert done.returncode == 1
            return dict(reason)
        assert time.monotonic() < deadline, done.stdout


def create(bootstrap: str, replicas: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic("t", 1, replicas)])["t"].result(30)


def test_a_lone_damaged_replica_does_not_lead_until_its_loss_is_accepted(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node:
        create(node.bootstrap, 1)
        produce(node.bootstrap)
        node.kill()
        data_dir = tmp_path / "data"
        offset = flip_in_the_middle(data_dir)
        node.start()
        time.sleep(3)
        assert end_of(node.bootstrap) == -1
        (found,) = json.loads(kraft("storage", "damaged", "--data-dir", str(data_dir), "-o", "json"))["damaged"]
        assert (found["partition"], found["start_offset"], found["known_end_offset"]) == ("t-0", offset, RECORDS)
        assert found["state"] == "waiting"
        reason = waiting_replica(node.bootstrap)
        assert f"Offsets {offset} to {RECORDS} (exclusive) are in doubt" in reason["summary"]
        assert f"kraft storage damaged --data-dir {data_dir} --accept t:0" in reason["remedy"]
        accept = ("storage", "damaged", "--data-dir", str(data_dir), "--accept", "t:0")
        assert "Nothing was done" in kraft(*accept)
        time.sleep(2)
        assert end_of(node.bootstrap) == -1
        assert "Accepted" in kraft(*accept, "--execute")
        wait_for_end(node.bootstrap, offset)
        produce(node.bootstrap, 10)
        wait_for_end(node.bootstrap, offset + 10)
        kept = sum(path.stat().st_size for path in (data_dir / "t-0" / "damaged").glob("*.log*"))
        assert kept == found["kept_bytes"]


@pytest.mark.parametrize("content", [b"", b"version: 0\ntopic_id: AAAA"])
def test_a_sole_log_with_an_unknown_topic_is_not_replaced_by_an_empty_one(tmp_path: Path, content: bytes) -> None:
    with NodeProcess(tmp_path) as node:
        create(node.bootstrap, 1)
        produce(node.bootstrap)
        node.kill()
        data_dir = tmp_path / "data"
        (data_dir / "t-0" / "partition.metadata").write_bytes(content)
        node.start()
        time.sleep(3)
        assert end_of(node.bootstrap) == -1
        accept = ("storage", "damaged", "--data-dir", str(data_dir), "--accept", "t:0")
        assert "earlier one may have had the name" in kraft(*accept)
        assert "partition.metadata is missing or damaged" in waiting_replica(node.bootstrap)["summary"]
        assert "Accepted" in kraft(*accept, "--execute")
        wait_for_end(node.bootstrap, RECORDS)
        produce(node.bootstrap, 10)
        wait_for_end(node.bootstrap, RECORDS + 10)


def leader(bootstrap: str) -> int:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    return int(admin.list_topics("t", timeout=30).topics["t"].partitions[0].leader)


@pytest.mark.parametrize("led", [True, False])
def test_one_damaged_replica_of_three_is_fetched_again_from_the_others(tmp_path: Path, led: bool) -> None:
    with ProcessCluster(tmp_path) as cluster:
        create(cluster.bootstrap, 3)
        produce(cluster.bootstrap)
        last = leader(cluster.bootstrap)
        damaged = last if led else last % 3 + 1
        cluster.kill()
        flip_in_the_middle(tmp_path / str(damaged) / "data")
        cluster.start()
        wait_for_end(cluster.bootstrap, RECORDS)
        report = tmp_path / str(damaged) / "data" / "t-0" / "damaged" / "report.json"
        deadline = time.monotonic() + SECONDS_MAX
        while json.loads(report.read_text())["state"] == "waiting":
            assert time.monotonic() < deadline, "not made whole in time"
            time.sleep(0.2)
        contents = []
        for node in (1, 2, 3):
            (path,) = (tmp_path / str(node) / "data" / "t-0").glob("*.log")
            contents.append(path.read_bytes())
        assert contents[0] == contents[1] == contents[2]
