"""How a node starts and ends: whose directories it takes, whose it refuses and leaves alone, which option a taken
port names, how signals end it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from kraft.testing.node_process import NodeProcess
from tests.integration.plain_clients import Record, read_confluent, write_confluent
from tests.integration.processes import SECONDS_MAX, fingerprint, run_node


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a node that has written something and has stopped."""
    directory = tmp_path_factory.mktemp("stopped")
    with NodeProcess(directory) as node:
        write_confluent(node.bootstrap, "t", [Record(b"k", b"v")], "none")
        assert node.stop() == 0
    return directory / "data"


def test_a_second_node_on_the_same_directory_is_rejected_and_the_first_keeps_running(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node:
        write_confluent(node.bootstrap, "t", [Record(b"k", b"before")], "none")
        refused = run_node(tmp_path / "data")
        assert refused.returncode == 2
        assert f"in use by process {node.pid} (" in refused.stderr
        assert f"which holds .lock: stop it (kill {node.pid})" in refused.stderr
        assert str(tmp_path / "data") in refused.stderr
        assert refused.stdout == ""
        write_confluent(node.bootstrap, "t", [Record(b"k", b"after")], "none")
        assert [seen.record.value for seen in read_confluent(node.bootstrap, "t", 2)] == [b"before", b"after"]
        node.kill()
        node.start()
        assert len(read_confluent(node.bootstrap, "t", 2)) == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--cluster-id", "MkU3OEVBNTcwNTJENDM2Qk"), "MkU3OEVBNTcwNTJENDM2Qk"),
        (("--node-id", "2"), "belongs to node 1, not 2"),
    ],
)
def test_a_directory_of_another_cluster_or_node_is_rejected_and_not_changed(
    stopped: Path, arguments: tuple[str, ...], told: str
) -> None:
    before = fingerprint(stopped)
    refused = run_node(stopped, *arguments)
    assert refused.returncode == 2, refused.stderr
    assert told in refused.stderr
    assert fingerprint(stopped) == before


def test_a_directory_with_foreign_files_is_rejected_and_not_changed(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    refused = run_node(tmp_path)
    assert refused.returncode == 2
    assert "thesis.tex" in refused.stderr
    assert "not empty" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    file = tmp_path / "thesis.tex"
    refused = run_node(file)
    assert refused.returncode == 2
    assert "is a file" in refused.stderr


def test_a_damaged_meta_properties_file_is_rejected_and_not_changed(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=one\ncluster.id=x\n")
    before = fingerprint(tmp_path)
    refused = run_node(tmp_path)
    assert refused.returncode in (1, 2)
    assert "meta.properties" in refused.stderr
    assert fingerprint(tmp_path) == before


@pytest.mark.parametrize("option", ["--listen", "--controller-listen", "--admin"])
def test_a_port_in_use_is_reported_with_its_option(tmp_path: Path, option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        refused = run_node(tmp_path / "data", option, address)
    assert refused.returncode == 2
    assert option in refused.stderr
    assert address.rpartition(":")[2] in refused.stderr
    assert not fingerprint(tmp_path), "nothing is formatted by a node that cannot start"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_signal_stops_a_node_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with NodeProcess(tmp_path) as node:
        write_confluent(node.bootstrap, "t", [Record(b"k", b"v")], "none")
        assert node.process is not None
        node.process.send_signal(number)
        assert node.wait() == 0
        assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
        node.start()
        assert len(read_confluent(node.bootstrap, "t", 1)) == 1


def test_a_second_signal_stops_the_node_immediately(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
        assert admin.list_topics(timeout=SECONDS_MAX).brokers
        assert node.process is not None
        node.pause()  # Both signals are there when it goes on, whatever it does meanwhile.
        node.process.send_signal(signal.SIGTERM)
        node.process.send_signal(signal.SIGINT)
        node.resume()
        assert node.wait() in (128 + signal.SIGTERM, 128 + signal.SIGINT)


def test_a_node_stopped_during_startup_stops(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kraft.cli.node", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    command += ["--controller-listen", "127.0.0.1:0", "--admin", "off"]
    for delay in (0.2, 0.3, 0.4):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            time.sleep(delay)
            process.send_signal(signal.SIGTERM)
            _, log = process.communicate(timeout=SECONDS_MAX)
            # Before it listens to signals, they end it as they end any process.
            assert process.returncode in (0, -signal.SIGTERM), log
        finally:
            process.kill()
            process.wait()
    with NodeProcess(tmp_path) as node:
        write_confluent(node.bootstrap, "t", [Record(b"k", b"v")], "none")


def test_a_port_can_be_reused_immediately(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node:
        bootstrap = node.bootstrap
        for _ in range(3):
            write_confluent(node.bootstrap, "t", [Record(b"k", b"v")], "none")
            node.kill()
            node.start()
            assert node.bootstrap == bootstrap
