"""Three processes that change: a disk is lost and its node comes back the safe way, a broker is added and filled,
another is emptied and leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from jepsen.three_nodes import NODES, assert_acknowledged, assert_nothing_lost, until
from kraft.cli.admin.app import main
from kraft.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kraft.testing.node_process import NodeFailed
from kraft.testing.process_cluster import CLUSTER_ID
from kraft.testing.steady_writer import SteadyWriter
from tests.integration.dynamic_quorum import DynamicQuorum


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DynamicQuorum]:
    with DynamicQuorum(tmp_path_factory.mktemp("members"), "--set", "offsets.topic.num.partitions=2") as cluster:
        yield cluster


def brokers(cluster: DynamicQuorum, node: int) -> list[int]:
    request = DescribeClusterRequest(include_fenced_brokers=True)
    return sorted(broker.broker_id for broker in cluster.ask(node, request).brokers)


def test_a_node_that_lost_its_disk_is_safely_replaced(cluster: DynamicQuorum) -> None:
    """All die at once, so the lost disk's replica is still in the in-sync set, and leads, as far as anybody knows.
    It comes back among the first.

    Whoever returns before it left the in-sync set by returning unclean: without a recovery strategy nobody may lead
    what the others have in full.
    """
    topic = cluster.create("disk-lost", kraft_unclean_recovery_strategy="balanced")
    with SteadyWriter(cluster.bootstrap, topic) as writer:
        writer.more(200)
        cluster.until_in_sync(topic)
        victim = cluster.leader(topic)
        asked = NODES[victim % 3]
        old = cluster.voters(asked)[victim]
        cluster.kill(NODES)
        cluster.wipe(victim)
        with pytest.raises(NodeFailed, match="exit code 2") as refused:
            cluster.nodes[victim].start()
        assert f"kraft storage format --cluster-id {CLUSTER_ID}" in str(refused.value).replace(
            "$(kraft storage random-uuid)", CLUSTER_ID
        )
        assert "remove the voter from the quorum first" in str(refused.value)
        cluster.format(victim, "--no-initial-controllers")
        cluster.start(NODES)
        assert cluster.voters(asked)[victim] == old, "a new disk does not vote in the name of the old one"
        cluster.remove_voter(victim, asked)
        cluster.make_voter(victim, asked)
        writer.more(100)
        until(lambda: sorted(cluster.voters(victim)) == list(NODES), "the voters are not three")
        assert cluster.voters(victim)[victim] != old
    assert_nothing_lost(cluster, topic, writer)


def test_a_broker_joins_and_gets_replicas_and_another_is_drained_and_removed(
    cluster: DynamicQuorum, tmp_path: Path
) -> None:
    topic = cluster.create("moving-house")
    newcomer, leaver = 4, 3
    with SteadyWriter(cluster.bootstrap, topic) as writer:
        writer.more(100)
        cluster.add_broker(newcomer)
        target = [newcomer, 1, 3]
        plan = tmp_path / "plan.json"
        plan.write_text(
            json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": target}]})
        )
        asked = cluster.nodes[1].bootstrap
        assert main(["reassignments", "start", str(plan), "--bootstrap-server", asked]) == 0
        until(lambda: sorted(cluster.told_by(1, topic)[0].isr_nodes) == sorted(target), "the newcomer is not filled")
        until(lambda: sorted(cluster.told_by(1, topic)[0].replica_nodes) == sorted(target), "the move does not end")
        cluster.until_agree(topic, nodes=target)
        writer.more(50)
        assert main(["brokers", "decommission", str(leaver), "--yes", "--wait", "60", "--bootstrap-server", asked]) == 0
        until(lambda: sorted(cluster.told_by(1, topic)[0].replica_nodes) == [1, 2, 4], "the move is not told")
        given_up = cluster.nodes[leaver].directory / "data" / f"{topic}-0"
        until(lambda: not given_up.exists(), "the replica that was given up is still there")
        writer.more(50)
        assert cluster.nodes[leaver].stop() == 0
        until(lambda: leaver not in brokers(cluster, 1), "the broker that left is still known")
        cluster.remove_voter(leaver, 1)
        writer.more(50)
    until(lambda: sorted(cluster.told_by(1, topic)[0].isr_nodes) == [1, 2, 4], "not in sync without the one that left")
    cluster.until_agree(topic, nodes=(1, 2, 4))
    assert_acknowledged(cluster, topic, writer)
    cluster.wipe(leaver)
    cluster.format(leaver, "--no-initial-controllers")
    cluster.nodes[leaver].start()
    cluster.make_voter(leaver, 1)
    assert (brokers(cluster, 1), sorted(cluster.voters(1))) == ([1, 2, 3, 4], [1, 2, 3])
