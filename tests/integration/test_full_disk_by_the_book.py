"""A full disk, put right by docs/operations/full-disk.md alone.

Three nodes, each on a small file system that holds its data and its metadata log (the default), are filled by a
producer. Then the commands of the page are typed, and nothing else.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition

from kraft.testing.foreign.librdkafka import Consumer, Producer
from tests.capabilities import require_capability
from tests.docs.blocks import find_block
from tests.integration.drills import Drill, DrillCluster, incident, running_prometheus

DISK_BYTES = 48 << 20
PARTITIONS = 3
SEGMENT_BYTES = 2 << 20
RETENTION_BYTES = 6_000_000
VALUE_BYTES = 8_000
FULL_SECONDS = 15
"""How long the disks stay full before anybody comes."""
SECONDS_MAX = 90
LINES_MAX = 400
"""Of each node, of its whole life: a refusal that repeats does not fill the disk."""


def typed(start: str, **replaced: object) -> str:
    """The page's command that begins so, with other numbers in place of the page's."""
    block = find_block("docs/operations/full-disk.md", "kraft brokers log-dirs").text
    line = next(line for line in block.splitlines() if line.startswith(start))
    command = re.sub(r"\s+#.*", "", line)
    for key, value in replaced.items():
        name = key.replace("_", ".")
        assert f"{name}=" in command
        command = re.sub(rf"{re.escape(name)}=\d+", f"{name}={value}", command)
    return command


class FullCluster(Drill):
    def __init__(self, cluster: DrillCluster, prometheus: str) -> None:
        super().__init__(cluster, "docs/operations/full-disk.md", prometheus)
        self.acknowledged: dict[int, dict[int, bytes]] = {partition: {} for partition in range(PARTITIONS)}
        """Values by offset."""

    def fill(self, topic: str) -> None:
        """Produce until nothing has been acknowledged for some seconds."""
        settings = {"acks": "all", "message.timeout.ms": 3000, "linger.ms": 5, "log_level": 0}
        settings["queue.buffering.max.messages"] = 500  # What is refused comes back whole, with its value.
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, **settings})
        number, last = 0, time.monotonic()

        def told(problem: Any, message: Any) -> None:
            nonlocal last
            if problem is None:
                self.acknowledged[message.partition()][message.offset()] = message.value()
                last = time.monotonic()

        while time.monotonic() < last + 6:
            try:
                value = (b"%d " % number).ljust(VALUE_BYTES, b".")
                producer.produce(topic, value, partition=number % PARTITIONS, on_delivery=told)
            except BufferError:
                producer.poll(0.1)
            else:
                number += 1
                producer.poll(0)
        producer.flush(10)

    def until_well(self) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            try:
                self.type(typed("kraft cluster health"))
                return
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(1)

    def begins(self, topic: str) -> dict[int, int]:
        rows = [line.split("\t") for line in self.type(f"kraft topics offsets {topic} --at earliest").splitlines()[1:]]
        return {int(row[1]): int(row[2]) for row in rows}

    def lost(self, topic: str) -> list[tuple[int, int]]:
        """Partition and offset of acknowledged records behind the begin of their partition that are not there."""
        begins = self.begins(topic)
        wanted = {
            (partition, offset): value
            for partition, values in self.acknowledged.items()
            for offset, value in values.items()
            if offset >= begins[partition]
        }
        found = self.read(topic)
        return [place for place, value in wanted.items() if found.get(place) != value]

    def read(self, topic: str) -> dict[tuple[int, int], bytes]:
        """Values by partition and offset, of all that is there."""
        settings = {"group.id": "reader", "enable.partition.eof": True, "enable.auto.commit": False, "log_level": 0}
        consumer = Consumer({"bootstrap.servers": self.cluster.bootstrap, **settings})
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
        found: dict[tuple[int, int], bytes] = {}
        ended: set[int] = set()
        while len(ended) < PARTITIONS:
            message = consumer.poll(SECONDS_MAX)
            assert message is not None, f"{len(found)} records, and partitions {ended} to their ends"
            if message.error() is None:
                found[message.partition(), message.offset()] = message.value()
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended.add(message.partition())
        consumer.close()
        return found

    def free_bytes(self) -> list[int]:
        places = [self.cluster.directory / str(node) for node in (1, 2, 3)]
        return [found.f_bavail * found.f_frsize for found in map(os.statvfs, places)]


@pytest.fixture
def full(tmp_path: Path) -> Iterator[FullCluster]:
    """Every disk is full, and has been for a while."""
    require_capability("root")
    mounted = [tmp_path / str(node) for node in (1, 2, 3)]
    for place in mounted:
        place.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(place)], check=True)
    require_capability("prometheus")
    settings = ("log.retention.check.interval.ms=1000", "log.segment.delete.delay.ms=1000")
    try:
        with DrillCluster(tmp_path, *settings) as cluster, running_prometheus(tmp_path, cluster) as prometheus:
            full = FullCluster(cluster, prometheus)
            full.type(
                f"kraft topics create flights -p {PARTITIONS} -r 3 -c segment.bytes={SEGMENT_BYTES} "
                "-c min.insync.replicas=2"
            )
            full.fill("flights")
            full.begin()
            time.sleep(FULL_SECONDS)
            full.must_speak(incident("a full disk"))
            assert max(full.free_bytes()) < 1 << 20
            full.type("kraft topics create more -p 1 -r 3", 1)
            yield full
    finally:
        for place in mounted:
            subprocess.run(["umount", "-l", str(place)], check=True)


def look_again(full: FullCluster) -> None:
    """The end of each way: the cluster is well, nothing is lost, and the log files have stayed small."""
    full.until_well()
    assert full.lost("flights") == []
    assert min(full.free_bytes()) > DISK_BYTES / 4
    full.type("kraft topics create more -p 1 -r 3")
    for node in full.cluster.nodes.values():
        assert len(node.log_path.read_text(encoding="utf-8").splitlines()) < LINES_MAX


def test_less_retention_or_delete_records_recovers_a_full_cluster(full: FullCluster) -> None:
    full.type(typed("kraft brokers log-dirs"))
    full.type(typed("kraft brokers log-dirs 2"))
    full.type(typed("kraft configs set topic flights", retention_bytes=RETENTION_BYTES))
    look_again(full)
    assert min(full.begins("flights").values()) > 0
    for values in full.acknowledged.values():
        values.clear()
    full.type("kraft topics delete more --yes")
    full.type("kraft configs delete topic flights retention.bytes")
    full.fill("flights")
    full.type(typed("kraft topics delete-records flights"))
    look_again(full)


def test_nodes_restarted_on_full_disks_start_and_accept_the_documented_remedy(full: FullCluster) -> None:
    for node in full.cluster.nodes.values():
        node.kill()
    full.cluster.start()
    full.type(typed("kraft configs set topic flights", retention_bytes=RETENTION_BYTES))
    look_again(full)
