"""A log directory of a real node is cordoned with the commands of docs/operations/full-disk.md: new replicas avoid it,
also after a restart, and with all directories cordoned no topic can be created."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from jepsen.three_nodes import ask, until
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kraft.testing.foreign.librdkafka import AdminClient
from kraft.testing.node_process import NodeProcess
from tests.docs.blocks import find_block

PAGE = "docs/operations/full-disk.md"
DISKS = ("one", "two")
SECONDS_MAX = 30


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path, admin=True, disks=DISKS) as node:
        yield node


def path(node: NodeProcess, disk: str) -> str:
    return str(node.directory / disk)


def type_line(node: NodeProcess, start: str, *options: str, directories: str = "") -> str:
    """Type the page's command that begins so, for this node and these directories. Returns its output."""
    lines = find_block(PAGE, "kraft configs set broker 2").text.splitlines()
    line = next(line for line in lines if line.startswith(start)).partition("#")[0]
    words = line.replace("/disks/b", directories).replace(" 2", " 1").split()[1:]
    command = [str(Path(sys.executable).parent / "kraft"), *words, *options, "-b", node.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def cordoned(node: NodeProcess) -> set[str]:
    told = json.loads(type_line(node, "kraft brokers log-dirs 2 ", "-o", "json"))["log_dirs"]
    found = {Path(each["path"]).name for each in told if each["is_cordoned"]}
    with urllib.request.urlopen(
        f"{node.admin_url}/v1/brokers/1/log-dirs?replicas=false", timeout=SECONDS_MAX
    ) as answer:
        by_http = {Path(each["path"]).name for each in json.load(answer)["data"] if each["is_cordoned"]}
    assert by_http == found
    return found


def cordon(node: NodeProcess, *disks: str) -> None:
    type_line(node, "kraft configs set broker 2", directories=",".join(path(node, disk) for disk in disks))
    until(lambda: cordoned(node) == set(disks), "the broker does not follow")


def make(node: NodeProcess, topic: str, partitions: int = 3) -> None:
    """Create a topic. Raises KafkaException."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(SECONDS_MAX)


def places(node: NodeProcess, topic: str) -> list[str]:
    """The disks of the topic's replicas."""
    told = json.loads(type_line(node, "kraft brokers log-dirs 2 --replicas", "-o", "json"))["log_dirs"]
    return [Path(each["path"]).name for each in told for held in each["replicas"] if held["topic"] == topic]


def move(node: NodeProcess, topic: str, disk: str) -> int:
    wanted = [AlterReplicaLogDir(path=path(node, disk), topics=[AlterReplicaLogDirTopic(name=topic, partitions=[0])])]
    return int(ask(node.bootstrap, AlterReplicaLogDirsRequest(dirs=wanted)).results[0].partitions[0].error_code)


def test_a_cordoned_disk_takes_no_new_replicas_until_the_cordon_ends(node: NodeProcess) -> None:
    make(node, "before", 4)
    cordon(node, "one")
    make(node, "during")
    assert places(node, "during") == ["two"] * 3
    assert sorted(places(node, "before")) == ["one", "one", "two", "two"]
    assert move(node, "during", "one") == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert node.stop() == 0
    node.start()
    assert cordoned(node) == {"one"}
    make(node, "restarted")
    assert places(node, "restarted") == ["two"] * 3
    cordon(node, *DISKS)
    with pytest.raises(KafkaException) as refused:
        make(node, "refused")
    assert refused.value.args[0].name() == "INVALID_REPLICATION_FACTOR"
    type_line(node, "kraft configs delete broker 2")
    until(lambda: cordoned(node) == set(), "the cordon does not end")
    make(node, "after")
    assert "one" in places(node, "after")
