"""`kraft.testing.ProcessCluster` and `SteadyWriter`, as users' own tests may use them."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from kraft.testing.foreign.librdkafka import AdminClient
from kraft.testing.node_process import NodeFailed
from kraft.testing.process_cluster import ProcessCluster
from kraft.testing.steady_writer import SteadyWriter


def test_a_process_cluster_is_broken_and_healed_under_a_writer(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("t", 1, 3, config={"min.insync.replicas": "2"})])["t"].result(30)
        with SteadyWriter(cluster.bootstrap, "t") as writer:
            writer.more(10)
            cluster.kill([1])
            assert cluster.running == [2, 3]
            writer.more(10)
            cluster.start()
            assert cluster.running == [1, 2, 3]
            writer.more(10)
        assert not writer.failed
        assert writer.longest_gap() > 0
        assert [int(each.value) for each in writer.acknowledged] == sorted(
            int(each.value) for each in writer.acknowledged
        )
        processes = [node.process for node in cluster.nodes.values()]
        assert cluster.stop() == [0, 0, 0]
        assert cluster.running == []
        cluster.start()
        processes += [node.process for node in cluster.nodes.values()]
    assert all(process is not None and process.poll() is not None for process in processes), "none is left behind"


def test_a_cluster_that_cannot_start_leaves_nothing_behind(tmp_path: Path) -> None:
    cluster = ProcessCluster(tmp_path)
    cluster.nodes[2].arguments = (*cluster.nodes[2].arguments, "--set", "no.such.key=1")
    with pytest.raises(NodeFailed, match=r"no\.such\.key"), cluster:
        raise AssertionError("it does not serve")
    assert cluster.running == []


def test_a_node_that_does_not_exist_or_is_in_a_wrong_state_is_reported(tmp_path: Path) -> None:
    cluster = ProcessCluster(tmp_path, nodes=2)
    for mistake in (cluster.kill, cluster.start, cluster.pause, cluster.resume):
        with pytest.raises(LookupError, match="there is no node 7; there are 1, 2"):
            mistake([7])
    for mistake in (cluster.kill, cluster.pause, cluster.resume):
        with pytest.raises(RuntimeError, match=r"node 1 is down \(running: none\)"):
            mistake([1])
    with cluster:
        with pytest.raises(RuntimeError, match="node 1 runs already"):
            cluster.start([1])
        cluster.pause([1, 2])
        cluster.resume([1, 2])
        assert cluster.stop() == [0, 0]
