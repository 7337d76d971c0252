"""metadata.version is raised while a cluster runs, and a controller that is gone is unregistered."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from jepsen.java.kafka import CLUSTER_ID
from jepsen.three_nodes import until
from kraft.cli.admin.app import main
from kraft.cli.admin.disks.file_dump import batches_of
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.records.serde import decode_record
from kraft.testing.node_process import NodeFailed, NodeProcess
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


def formatted_at(release: str, directory: Path, *disks: str) -> NodeProcess:
    """A node of its own quorum, formatted at the level of a release and not started."""
    node = NodeProcess(directory, "--config", str(directory / "node.properties"), disks=disks or ("data",))
    directory.mkdir(parents=True)
    (directory / "node.properties").write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        f"log.dirs={node.data_directories}\ncontroller.quorum.bootstrap.servers=127.0.0.1:9\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n",
        encoding="utf-8",
    )
    options = ("--cluster-id", CLUSTER_ID, "--standalone", "--release-version", release)
    assert main(["storage", "format", "--config", str(directory / "node.properties"), *options]) == 0
    return node


def test_a_cluster_is_raised_online_from_the_lowest_level_to_the_highest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = formatted_at("3.3", tmp_path / "node")
    with node:
        for level in range(7, 34):
            if level > 7:
                assert kraft(node.bootstrap, "features", "upgrade", f"metadata.version={level}") == 0
            assert kraft(node.bootstrap, "topics", "create", f"at-{level}", "--partitions", "2") == 0
            assert kraft(node.bootstrap, "topics", "alter", "at-7", "--config", f"retention.ms={level}000000") == 0
        found = {name: level for name, level in levels(node.bootstrap, capsys).items() if level}
        assert found == {"metadata.version": 33, "kraft.version": 1}
        metadata = tmp_path / "node" / "data" / "__cluster_metadata-0"

        def directory_is_known() -> bool:
            image = replayed(metadata)
            own = image.cluster.brokers[1].directories
            partitions = (each for topic in image.topics.topics_by_name() for each in topic.partitions.values())
            return len(own) == 1 and all(each.directories == own for each in partitions)

        until(directory_is_known, "the directory of the broker and of every replica", SECONDS_MAX)
        assert node.stop() == 0
        node.start()
        image = replayed(metadata)
        assert MetadataImage().replay_batch(image.write())[0] == image
        assert len(image.topics.by_id) == 27


def replayed(metadata: Path) -> MetadataImage:
    """The image after the whole log."""
    image = MetadataImage()
    for path in sorted(metadata.glob("*.log")):
        for batch, _ in batches_of(str(path)):
            if not batch.is_control:
                records = [decode_record(bytes(record.value or b""))[0] for record in batch.iterate_records()]
                image, _ = image.replay_batch(records)
    return image


def test_a_broker_with_several_log_directories_ends_at_a_level_that_does_not_know_them(tmp_path: Path) -> None:
    node = formatted_at("3.6", tmp_path / "node", "first", "second")
    with pytest.raises(NodeFailed):
        node.start()
    said = node.log_path.read_text(encoding="utf-8")
    assert "Multiple log directories are not supported in the current MetadataVersion 3.6-IV2" in said, said
    assert "Need 3.7-IV2 or higher" in said


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
