"""Controllers that add themselves to the voters: a new one, and one whose disk was replaced."""

from __future__ import annotations

from pathlib import Path

from jepsen.three_nodes import until
from tests.integration.dynamic_quorum import DynamicQuorum


def test_a_new_controller_and_a_replaced_disk_add_themselves_to_the_voters(tmp_path: Path) -> None:
    with DynamicQuorum(tmp_path, "--set", "controller.quorum.auto.join.enable=true") as cluster:
        cluster.add_controller(4)
        until(lambda: sorted(cluster.voters(1)) == [1, 2, 3, 4], "the new controller is no voter")
        old = cluster.voters(1)[3]
        cluster.kill([3])
        cluster.wipe(3)
        cluster.format(3, "--no-initial-controllers")
        cluster.start([3])
        until(lambda: cluster.voters(1).get(3, old) != old, "the new disk does not vote")
        until(lambda: cluster.voters(3) == cluster.voters(1), "the new disk has not learned the voters")
        assert sorted(cluster.voters(1)) == [1, 2, 3, 4]
        assert "remove-voter" not in cluster.nodes[3].log_tail(500), "nothing is left to an operator"
