"""`kraft cluster start --ephemeral --json`: what test suites in other languages build on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import AdminClient

from jepsen.three_nodes import until
from tests.integration.ephemeral import close_input, start

WAIT_SECONDS_MAX: Final = 60


@pytest.mark.parametrize("end", [close_input, lambda process: process.send_signal(signal.SIGTERM)])
def test_one_json_line_names_the_address_and_no_files_are_left_at_the_end(
    end: Callable[[subprocess.Popen[str]], None],
) -> None:
    with start("--json", "-n", "2") as process:
        try:
            assert process.stdout is not None
            document: dict[str, Any] = json.loads(process.stdout.readline())
            assert list(document) == ["bootstrap", "cluster_id", "directory", "nodes"]
            assert [list(node) for node in document["nodes"]] == [["node_id", "kafka", "admin_url", "pid"]] * 2
            assert document["bootstrap"] == ",".join(node["kafka"] for node in document["nodes"])
            admin, known = AdminClient({"bootstrap.servers": document["bootstrap"]}), [1, 2]
            assert admin.list_topics(timeout=30).cluster_id == document["cluster_id"]
            assert [node["node_id"] for node in document["nodes"]] == known
            until(lambda: sorted(admin.list_topics(timeout=30).brokers) == known, "a node has not heard of the other")
            with urllib.request.urlopen(f"{document['nodes'][0]['admin_url']}/v1/cluster/health", timeout=30) as answer:
                assert answer.status == 200
            end(process)
            assert process.wait(WAIT_SECONDS_MAX) == 0
            assert process.stdout.read() == ""
        finally:
            process.kill()
    assert not Path(document["directory"]).exists()
    for node in document["nodes"]:
        with pytest.raises(ProcessLookupError):
            os.kill(node["pid"], 0)


def test_stdin_that_is_no_pipe_does_not_stop_the_cluster() -> None:
    with start("-n", "1", stdin=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("ready bootstrap=127.0.0.1:")
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(1)
            process.send_signal(signal.SIGINT)
            assert process.wait(WAIT_SECONDS_MAX) == 0
        finally:
            process.kill()


def test_an_ephemeral_cluster_with_a_data_directory_is_wrong_usage(tmp_path: Path) -> None:
    with start("--dir", str(tmp_path)) as process:
        assert process.wait(WAIT_SECONDS_MAX) == 2
        assert process.stderr is not None
        assert "--ephemeral uses a temporary directory" in process.stderr.read()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has died")
def test_nodes_of_an_ephemeral_cluster_stop_when_it_is_killed() -> None:
    with start("--json", "-n", "2") as process:
        try:
            assert process.stdout is not None
            document: dict[str, Any] = json.loads(process.stdout.readline())
        finally:
            process.kill()
    for node in document["nodes"]:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while Path(f"/proc/{node['pid']}").exists():
            assert time.monotonic() < deadline, f"node {node['node_id']} goes on"
            time.sleep(0.05)
    shutil.rmtree(document["directory"])  # Nobody is left to do it.
