"""metadata.version is raised while a cluster runs, and a controller that is gone is unregistered."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from jepsen.three_nodes import until
from kraft.cli.admin.app import main
from kraft.testing.process_cluster import ProcessCluster
from tests.docs.blocks import find_block
from tests.integration.dynamic_quorum import DynamicQuorum
from tests.upgrade.earlier import describe, unpack
from tests.upgrade.make_fixture import FIXTURES, GROUP, TOPICS

SECONDS_MAX = 60.0


def kraft(bootstrap: str, *arguments: str) -> int:
    return main([*arguments, "--bootstrap-server", bootstrap])


def levels(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> dict[str, int]:
    capsys.readouterr()
    assert kraft(bootstrap, "features", "list", "-o", "json") == 0
    return {each["name"]: each["level"] for each in json.loads(capsys.readouterr().out)["features"]}


def test_a_cluster_of_an_earlier_release_is_raised_while_it_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unpack(FIXTURES / "single.tar.xz", tmp_path)
    acknowledged = json.loads((FIXTURES / "single.json").read_text(encoding="utf-8"))
    del acknowledged["commit"]
    with ProcessCluster(tmp_path, nodes=1) as cluster:
        bootstrap = cluster.bootstrap
        assert levels(bootstrap, capsys)["metadata.version"] == 30
        assert kraft(bootstrap, "features", "upgrade", "metadata.version=31") == 0
        assert kraft(bootstrap, "features", "downgrade", "metadata.version=30", "--yes") == 0
        for node in cluster.nodes:
            assert cluster.nodes[node].stop() == 0
            cluster.start([node])
        bootstrap = cluster.bootstrap
        assert levels(bootstrap, capsys)["metadata.version"] == 30
        assert kraft(bootstrap, "features", "upgrade") == 0
        until(lambda: levels(bootstrap, capsys)["metadata.version"] == 33, "metadata.version 33", SECONDS_MAX)
        assert levels(bootstrap, capsys)["share.version"] == 2
        assert kraft(bootstrap, "features", "downgrade", "metadata.version=30", "--yes") == 1
        assert "because it might delete metadata information" in capsys.readouterr().err
        for node in cluster.nodes:
            assert cluster.nodes[node].stop() == 0
            cluster.start([node])
        assert describe(cluster.bootstrap, TOPICS, GROUP) == acknowledged


def test_a_stopped_controller_is_unregistered_and_registers_again_when_it_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = shlex.split(find_block("docs/operations/decommission.md", "kraft quorum unregister 3").text)[1:]
    with DynamicQuorum(tmp_path) as cluster:
        bootstrap = cluster.nodes[1].bootstrap

        def is_unregistered() -> bool:
            return kraft(bootstrap, *command) == 0

        assert not is_unregistered()
        assert "it is a voter" in capsys.readouterr().err
        cluster.remove_voter(3, 1)
        until(is_unregistered, "the registration of the first start", SECONDS_MAX)
        until(is_unregistered, "the running controller to register again", SECONDS_MAX)
        assert cluster.nodes[3].stop() == 0
        until(lambda: not is_unregistered(), "no registration of the stopped controller", SECONDS_MAX)
        assert "Controller ID 3 is not currently registered." in capsys.readouterr().err
        cluster.nodes[3].start()
        until(is_unregistered, "the restarted controller to register", SECONDS_MAX)
