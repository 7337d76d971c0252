"""A controller of ours that was tried in a cluster of Apache Kafka and is gone: its registration stays, until it is
taken away or a controller of Kafka takes its place."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from jepsen.java.kafka import CLUSTER_ID, ApacheKafka, tool
from kraft.cli.admin.app import main
from kraft.metadata.records.register_controller_record import RegisterControllerRecord
from kraft.metadata.records.unregister_controller_record import UnregisterControllerRecord
from kraft.testing.node_process import NodeProcess
from kraft.testing.ports import free_ports
from tests.capabilities import require_capability
from tests.docs.blocks import find_block
from tests.integration.rolling_kafka import until
from tests.integration.test_kafka_levels import records_of

PAGE = "docs/operations/decommission.md"
TRIED = 3


def registration(log: Path) -> bytes | None:
    """The incarnation of the tried controller that a metadata log has registered; None if there is none."""
    found = None
    for path in sorted(log.glob("*.log")):
        for record, _ in records_of(path):
            if getattr(record, "controller_id", None) != TRIED:
                continue
            if isinstance(record, RegisterControllerRecord):
                found = record.incarnation_id
            elif isinstance(record, UnregisterControllerRecord):
                found = None
    return found


def controller_of_ours(directory: Path, port: int, kafka: ApacheKafka) -> NodeProcess:
    """The controller to try, formatted and not started."""
    properties = directory / "controller.properties"
    node = NodeProcess(directory / "ours", "--config", str(properties), listen=None, controller_listen=None)
    properties.write_text(
        f"process.roles=controller\nnode.id={TRIED}\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=CONTROLLER://127.0.0.1:{port}\nlistener.security.protocol.map=CONTROLLER:PLAINTEXT\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:{kafka.controller_port}\nlog.dirs={node.data_directories}\n",
        encoding="utf-8",
    )
    storage = ("storage", "format", "--cluster-id", CLUSTER_ID, "--config", str(properties))
    assert main([*storage, "--no-initial-controllers"]) == 0
    return node


def controller_of_kafka(directory: Path, port: int, kafka: ApacheKafka) -> ApacheKafka:
    """A controller of Kafka under the same node id, formatted and not started."""
    other = ApacheKafka(
        directory / "other",
        port=port,
        node_id=TRIED,
        settings={
            "process.roles": "controller",
            "listeners": f"CONTROLLER://127.0.0.1:{port}",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{kafka.controller_port}",
        },
    )
    other.directory.mkdir()
    path = other.directory / "server.properties"
    path.write_text("".join(f"{key}={text}\n" for key, text in other.properties().items()), encoding="utf-8")
    tool("storage", "format", "-t", CLUSTER_ID, "-c", str(path), "--no-initial-controllers")
    return other


@pytest.mark.parametrize("release", ["4.4", pytest.param("4.3", marks=pytest.mark.soak)])
def test_the_registration_of_a_controller_that_was_tried_in_kafkas_cluster_is_taken_away(
    release: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    require_capability("java17")
    require_capability("mvn")
    log = tmp_path / "kafka" / "data" / "__cluster_metadata-0"

    def by_the_book(first: str) -> int:
        words = shlex.split(find_block(PAGE, first).text.splitlines()[-1])
        return main([*words[1:], "-b", kafka.bootstrap])

    with ApacheKafka(tmp_path / "kafka", release_version=release) as kafka:
        [port] = free_ports(1)
        with controller_of_ours(tmp_path, port, kafka) as ours:
            until(lambda: registration(log) is not None, "registration of the controller")
            joined = ["quorum", "add-voter", str(TRIED), "--endpoint", f"127.0.0.1:{port}", "-b", kafka.bootstrap]
            until(lambda: main(joined) == 0, "vote of the controller")
            assert by_the_book("kraft quorum remove-voter 3") == 0
            ours.kill()
        tried = registration(log)
        assert tried is not None
        capfd.readouterr()
        code = by_the_book("kraft quorum unregister 3")
        if release == "4.4":
            assert code == 0
            until(lambda: registration(log) is None, "registration that is gone")
            return
        assert code == 1
        assert "UNSUPPORTED_VERSION" in capfd.readouterr().err
        other = controller_of_kafka(tmp_path, port, kafka)
        other.launch()
        try:
            until(lambda: registration(log) not in (None, tried), "registration of Kafka's controller in its place")
        finally:
            other.kill()
