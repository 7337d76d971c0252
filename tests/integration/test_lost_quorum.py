"""Two of three nodes lose their disks for good: the third is made a quorum of one, serves what it has, and the others
join it again with empty disks, by the commands of docs/operations/lost-quorum.md."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jepsen.three_nodes import ThreeNodes, assert_nothing_lost, until
from kraft.cli.admin.app import main
from kraft.testing.node_process import NodeProcess
from kraft.testing.process_cluster import CLUSTER_ID
from kraft.testing.steady_writer import SteadyWriter
from tests.docs.blocks import find_block
from tests.integration.dynamic_quorum import DynamicQuorum
from tests.integration.plain_clients import read_confluent

SURVIVOR, LOST = 1, (2, 3)
SURE = "--yes-i-know-what-may-be-lost"
Recover = Callable[..., int]


def lose(cluster: ThreeNodes, node: int) -> None:
    """The disk goes, and nothing on it is seen again."""
    data = Path(cluster.nodes[node].data_directories)
    data.rename(data.with_name("lost"))


def forget_metadata(cluster: ThreeNodes, node: int) -> None:
    """The metadata log goes, and the replicas stay."""
    data = Path(cluster.nodes[node].data_directories)
    shutil.rmtree(data / "__cluster_metadata-0")
    (data / "metadata-committed-end").unlink()


def assert_refused(
    capfd: pytest.CaptureFixture[str], recover: Recover, sentence: str, *arguments: str, code: int = 1
) -> None:
    capfd.readouterr()
    assert recover(*arguments) == code
    assert sentence in capfd.readouterr().err


def quorum_state(process: NodeProcess) -> str:
    return Path(process.data_directories, "__cluster_metadata-0", "quorum-state").read_text()


def documented(first: str) -> list[list[str]]:
    """The arguments of `kraft` in the block that begins so."""
    lines = find_block("docs/operations/lost-quorum.md", first).text.splitlines()
    commands = [shlex.split(line, comments=True) for line in lines]
    assert all(command[0] == "kraft" for command in commands)
    return [command[1:] for command in commands]


def give_up_lost_brokers(cluster: ThreeNodes) -> None:
    """Nothing waits for their replicas any more. Their sessions have to end first."""
    commands = documented("kraft brokers unregister 2")
    assert [command[2] for command in commands] == [str(node) for node in LOST]
    for command in commands:
        at_survivor = [*command, "-b", cluster.nodes[SURVIVOR].bootstrap]
        until(lambda: main(at_survivor) == 0, "a lost broker cannot be unregistered")  # noqa: B023 - called at once.


def assert_read_from_survivor(cluster: ThreeNodes, topic: str, writer: SteadyWriter) -> None:
    """Each acknowledged record, read without a group: one broker is too few to create __consumer_offsets."""
    assert not writer.failed
    ((*command, name, setting),) = documented("kraft configs set topic TOPIC")
    assert name == "TOPIC"
    assert main([*command, topic, setting, "-b", cluster.nodes[SURVIVOR].bootstrap]) == 0
    found = read_confluent(cluster.nodes[SURVIVOR].bootstrap, topic, len(writer.acknowledged))
    assert {value for value, _, _ in writer.acknowledged} <= {seen.record.value for seen in found}


def observers(cluster: ThreeNodes) -> set[int]:
    return {each.replica_id for each in cluster.quorum(SURVIVOR).observers}


def assert_healthy(cluster: ThreeNodes, node: int) -> None:
    command = [str(Path(sys.executable).with_name("kraft")), "cluster", "health", "--wait", "60"]
    done = subprocess.run(
        [*command, "-b", cluster.nodes[node].bootstrap], capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("wiped", [LOST, LOST[:1]], ids=["disks-lost", "one-keeps-its-replicas"])
def test_the_survivor_of_a_lost_quorum_continues_and_the_other_nodes_rejoin(
    wiped: tuple[int, ...], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with DynamicQuorum(tmp_path, "--set", "offsets.topic.num.partitions=2") as cluster:
        survivor = cluster.nodes[SURVIVOR]
        properties = str(survivor.directory / "node.properties")

        preview, command = documented("kraft storage recover-quorum")
        assert preview == [*command, "--dry-run"]

        def recover(*arguments: str) -> int:
            return main([word.replace("node-1.properties", properties) for word in command] + list(arguments))

        topic = cluster.create("kept")
        with SteadyWriter(cluster.bootstrap, topic) as writer:
            writer.more(200)
        cluster.until_in_sync(topic)
        assert_refused(capfd, recover, "in use by process", SURE)
        cluster.kill([SURVIVOR])
        assert_refused(capfd, recover, "voter 2 at", SURE)
        cluster.kill(LOST)
        for node in LOST:
            (lose if node in wiped else forget_metadata)(cluster, node)

        assert_refused(capfd, recover, SURE, code=2)
        before = quorum_state(survivor)
        assert recover("--dry-run", "-o", "json") == 0
        told = json.loads(capfd.readouterr().out)
        assert told["cluster_id"] == CLUSTER_ID
        assert (told["voters_before"], told["executed"]) == ([1, 2, 3], False)
        assert told["last_offset"] >= told["committed_offset_at_least"] > 0
        assert quorum_state(survivor) == before
        assert recover(SURE) == 0
        assert "The disks of the other voters must be wiped" in capfd.readouterr().out

        survivor.start()
        until(lambda: cluster.quorum(SURVIVOR).leader_id == SURVIVOR, "the survivor does not lead")
        assert list(cluster.voters(SURVIVOR)) == [SURVIVOR]
        give_up_lost_brokers(cluster)
        until(lambda: cluster.told_by(SURVIVOR, topic)[0].leader_id == SURVIVOR, "the survivor's replica does not lead")
        assert_read_from_survivor(cluster, topic, writer)
        for node in wiped:
            cluster.format(node, "--no-initial-controllers")
        cluster.start(LOST)
        for node in LOST:
            until(lambda: set(LOST) <= observers(cluster) | set(cluster.voters(SURVIVOR)), "not all take part")
            cluster.make_voter(node, SURVIVOR)
        assert sorted(cluster.voters(SURVIVOR)) == [1, 2, 3]
        assert_nothing_lost(cluster, topic, writer)
        assert_healthy(cluster, SURVIVOR)
        cluster.kill([SURVIVOR])
        until(lambda: cluster.quorum(2).leader_id in LOST, "the voters that joined do not elect a leader")


def test_static_voters_become_dynamic_voters(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with ThreeNodes(tmp_path) as cluster:
        topic = cluster.create("kept")
        with SteadyWriter(cluster.bootstrap, topic) as writer:
            writer.more(50)
        cluster.until_in_sync(topic)
        cluster.kill()
        for node in LOST:
            lose(cluster, node)
        survivor = cluster.nodes[SURVIVOR]
        voters = ",".join(f"{node}@{address.controller}" for node, address in cluster.addresses.items())
        own = ("--node-id", str(SURVIVOR), "--data-dir", survivor.data_directories)
        assert main(["storage", "recover-quorum", *own, SURE]) == 1
        assert "give the configuration (or --voters) that names them" in capfd.readouterr().err
        assert main(["storage", "recover-quorum", *own, "--voters", voters, SURE]) == 0
        assert "Take controller.quorum.voters (--voters) out of the configuration" in capfd.readouterr().out
        survivor.start()  # With static voters still in its configuration.
        until(lambda: cluster.quorum(SURVIVOR).leader_id == SURVIVOR, "the survivor does not lead")
        assert [voter.replica_id for voter in cluster.quorum(SURVIVOR).current_voters] == [SURVIVOR]
        give_up_lost_brokers(cluster)
        until(lambda: cluster.told_by(SURVIVOR, topic)[0].leader_id == SURVIVOR, "the survivor's replica does not lead")
        assert_read_from_survivor(cluster, topic, writer)
