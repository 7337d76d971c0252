"""`kraft-node --workers N`: one command, several nodes, one end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kraft.testing.ports import free_ports

pytestmark = pytest.mark.timeout(180)


class Machine:
    """Five workers: three of the quorum, two brokers only."""

    def __init__(self, directory: Path, first_port: int) -> None:
        self.directory = directory
        self.port = first_port
        self.log = directory / "workers.log"
        self.process: subprocess.Popen[str] | None = None

    def start(self, count: int = 5, *arguments: str) -> str:
        """What it says when all serve, or nothing when it ended."""
        command = [sys.executable, "-m", "kraft.cli.node", "--workers", str(count), "--admin", "off", *arguments]
        command += ["--data-dir", str(self.directory / "data"), "--listen", f"127.0.0.1:{self.port}"]
        with self.log.open("a", encoding="utf-8") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self, number: signal.Signals | None = signal.SIGTERM) -> int:
        """Without a signal it ends by itself."""
        assert self.process is not None
        if number is not None:
            self.process.send_signal(number)
        code = self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def pid_of(self, node_id: int) -> int | None:
        """Of the process that runs this worker, if one does."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and f"--node-id\0{node_id}\0--data-dir\0{self.directory}" in command_of(entry):
                return int(entry.name)
        return None

    def runs(self) -> bool:
        return any(f"--data-dir\0{self.directory}" in command_of(each) for each in Path("/proc").iterdir())

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": ",".join(f"127.0.0.1:{self.port + each}" for each in range(5))})


def command_of(entry: Path) -> str:
    try:
        return (entry / "cmdline").read_text(encoding="utf-8", errors="replace") if entry.name.isdigit() else ""
    except OSError:  # It has ended.
        return ""


def until(seen: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def consecutive_ports(count: int) -> int:
    """The first of so many ports that are free, and whose controllers' are."""
    for first in sorted(free_ports(50)):
        if first < 60_000 and not any(
            is_taken(port + index) for port in (first, first + 1000) for index in range(count)
        ):
            return first
    raise AssertionError("no ports")


def is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def test_workers_start_together_restart_after_a_failure_and_stop_together(tmp_path: Path) -> None:
    machine = Machine(tmp_path, consecutive_ports(5))
    try:
        ready = machine.start()
        assert ready.startswith("ready workers=5 nodes=1,2,3,4,5 kafka="), machine.log.read_text()
        cluster = ready.split("cluster=")[1].split()[0]
        admin = machine.admin()
        admin.create_topics([NewTopic("a", 10, 3)])["a"].result(30)
        assert len(admin.list_topics(timeout=30).brokers) == 5
        for node_id in (5, 1):
            before = machine.pid_of(node_id)
            assert before is not None
            os.kill(before, signal.SIGKILL)
            until(lambda dead=before, each=node_id: machine.pid_of(each) not in (dead, None))  # type: ignore[misc]
            until(lambda each=node_id: is_taken(machine.port + each - 1))  # type: ignore[misc]
            assert machine.log.read_text().count(f"worker ended [workers] node={node_id} code=-9") == 1
        until(lambda: len(admin.list_topics(timeout=30).brokers) == 5)
        assert machine.end() == 0
        assert not machine.runs()
        remembered = json.loads((tmp_path / "data" / "workers.json").read_text())
        assert remembered == {"cluster_id": cluster, "served": [1, 2, 3, 4, 5]}
        assert machine.start(4) == ""
        assert machine.end(None) == 2
        assert "has the workers 5 too; decommission them first" in machine.log.read_text()
        assert f"cluster={cluster} " in machine.start()
        assert "a" in machine.admin().list_topics(timeout=30).topics
        machine.end(signal.SIGKILL)
        until(lambda: not machine.runs())
    finally:
        if machine.process is not None and machine.process.poll() is None:
            machine.end(signal.SIGKILL)


def test_an_unusable_configuration_stops_all_workers(tmp_path: Path) -> None:
    machine = Machine(tmp_path, consecutive_ports(3))
    assert machine.start(3, "--set", "num.partitions=none") == ""
    assert machine.end(None) == 2
    assert "num.partitions" in machine.log.read_text()
    assert not machine.runs()
