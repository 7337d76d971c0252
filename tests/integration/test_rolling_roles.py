"""Separate controllers and brokers of Apache Kafka, the brokers with two log directories each, become ours node by node
and go back: each replica stays in its directory, and may be moved to the other meanwhile."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from jepsen.java.kafka import REFERENCE, tool
from kraft.cli.admin.app import main
from kraft.common.ids import uuid_to_text
from kraft.metadata.image.metadata_image import MetadataImage
from tests.capabilities import require_capability
from tests.integration.rolling_clients import GROUPS, Clients
from tests.integration.rolling_kafka import DISKS, RollingCluster, until
from tests.integration.test_kafka_levels import records_of

BROKERS = (11, 12, 13)
KILLED = (2, 5, 10)
"""Changes, from 1 to 12, before which the node is killed instead of stopped."""
EVIDENCE = "cgrp,broker,protocol"
"""What consumers log: it says which request of a consumer that is stuck has no response."""
PASSING = ("-future", "-delete", "-stray", "__cluster_metadata-0")
"""Ends of the names of directories that hold no replica of a topic for long."""
MOVED_AT = 11
"""The broker whose replica of plain-0 is moved between its directories."""


class Folders:
    """Where replicas are: on the disks, and in the metadata."""

    def __init__(self, cluster: RollingCluster) -> None:
        self.cluster = cluster
        self.places = self.seen()
        assert {disk for broker, _, disk in self.places if broker == MOVED_AT} == set(DISKS)

    def seen(self) -> set[tuple[int, str, str]]:
        """Broker, partition and log directory of each replica."""
        return {
            (broker, folder.name, disk)
            for broker in BROKERS
            for disk in DISKS
            for folder in (self.cluster.members[broker].kafka.directory / disk).iterdir()
            if (folder / "partition.metadata").exists() and not folder.name.endswith(PASSING)
        }

    def move(self, partition: str, directory: Path) -> None:
        """Move a replica to the other directory of its broker."""
        [disk] = [disk for broker, name, disk in self.places if (broker, name) == (MOVED_AT, partition)]
        other = next(each for each in DISKS if each != disk)
        topic, _, number = partition.rpartition("-")
        target = self.cluster.members[MOVED_AT].kafka.directory / other
        plan = directory / "plan.json"
        places = [str(target) if broker == MOVED_AT else "any" for broker in BROKERS]
        row = {"topic": topic, "partition": int(number), "replicas": list(BROKERS), "log_dirs": places}
        plan.write_text(json.dumps({"version": 1, "partitions": [row]}), encoding="utf-8")
        at = ("--bootstrap-server", self.cluster.bootstrap)
        tool("reassign", *at, "--execute", "--reassignment-json-file", str(plan), release=self.cluster.release)
        self.places = self.places - {(MOVED_AT, partition, disk)} | {(MOVED_AT, partition, other)}
        until(lambda: self.seen() == self.places, f"replica of {partition} in {other} only")

    def assigned(self) -> set[tuple[int, str, str]]:
        """The same by the metadata log of a controller that is stopped."""
        names = {}
        for broker in BROKERS:
            for disk in DISKS:
                text = (self.cluster.members[broker].kafka.directory / disk / "meta.properties").read_text()
                names[text.partition("directory.id=")[2].split()[0]] = (broker, disk)
        return assignments_of(self.cluster.members[1].kafka.data_directory / "__cluster_metadata-0", names)


def assignments_of(log: Path, names: dict[str, tuple[int, str]]) -> set[tuple[int, str, str]]:
    records = [record for path in sorted(log.glob("*.log")) for record, _ in records_of(path)]
    image, _ = MetadataImage().replay_batch(records)
    found = set()
    for topic in image.topics.by_id.values():
        for number, partition in topic.partitions.items():
            for broker, directory in zip(partition.replicas, partition.directories, strict=True):
                owner, disk = names[uuid_to_text(directory)]
                assert owner == broker
                found.add((broker, f"{topic.name}-{number}", disk))
    return found


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_controllers_and_brokers_with_two_directories_are_replaced_and_come_back(tmp_path: Path) -> None:
    require_capability("java17")
    require_capability("mvn")
    cluster = RollingCluster(tmp_path, dynamic=True, release=REFERENCE, brokers=BROKERS)
    turns = [number for pair in zip(cluster.controllers, BROKERS, strict=True) for number in pair]
    changes = [(number, ours) for ours in (True, False) for number in turns]
    moved_after = (2, len(turns), len(turns) + 2)  # In a mixed cluster, in one of ours, and on the way back.
    try:
        cluster.start()
        clients = Clients(cluster.bootstrap, consumer_debug=EVIDENCE)
        clients.create_topics(len(BROKERS))
        until(lambda: cluster.lagging() == [], "replicas in sync")
        clients.start()
        try:
            until(lambda: all(clients.seen[name] for name in GROUPS), "record in each group")
            folders = Folders(cluster)
            for count, (number, ours) in enumerate(changes, 1):
                cluster.change(number, ours=ours, kill=count in KILLED)
                assert main(["quorum", "describe", "-b", cluster.bootstrap]) == 0
                assert folders.seen() == folders.places
                if count in moved_after:
                    folders.move("plain-0", tmp_path)
                time.sleep(1)
        finally:
            clients.stop()
        print("longest pauses in seconds:", {name: round(seconds, 1) for name, seconds in clients.pauses.items()})
        clients.judge(tmp_path)
        for number in (*BROKERS, 1):
            cluster.members[number].stop()
        assert folders.assigned() == folders.places
    finally:
        cluster.kill()
