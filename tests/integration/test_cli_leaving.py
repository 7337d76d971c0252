"""`kraft` in processes of its own: no traceback when nobody reads its output any more, and 130 on Ctrl-C, at a
question and in any wait."""

from __future__ import annotations

import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft.testing.node_process import NodeProcess

WAIT_SECONDS_MAX = 60.0


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("node")) as running:
        yield running


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "kraft.cli.admin.app", *arguments]


def test_closed_output_is_no_failure(node: NodeProcess) -> None:
    running = []
    for words in (
        "configs describe broker 1 --all",
        "configs describe broker 1 --all -o json",
        "brokers describe 1 -o table",
        "topics list",
        "cluster health -o json",
        "reassignments plan",
    ):
        reading, writing = os.pipe()
        os.close(reading)
        running.append(
            (
                words,
                subprocess.Popen(
                    command(*words.split(), "-b", node.bootstrap), stdout=writing, stderr=subprocess.PIPE, text=True
                ),
            )
        )
        os.close(writing)
    for words, process in running:
        _, complaints = process.communicate(timeout=WAIT_SECONDS_MAX)
        assert (process.returncode, complaints) == (0, ""), words


def test_ctrl_c_at_a_prompt_exits_with_130(node: NodeProcess) -> None:
    process, terminal = pty.fork()
    if process == 0:
        os.execv(sys.executable, command("topics", "delete", "t", "-b", node.bootstrap))
    shown = b""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while b"[y/N]: " not in shown and select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
        shown += os.read(terminal, 4096)
    os.write(terminal, b"\x03")
    _, status = os.waitpid(process, 0)
    assert (os.waitstatus_to_exitcode(status), b"Traceback" in shown + os.read(terminal, 4096)) == (130, False)
    os.close(terminal)


@pytest.mark.parametrize(
    "words",
    [
        "cluster health --wait 60 -b",
        "topics list --timeout 60 -b",
        "consume t -b",
        "events --admin",
        "events -f --admin",
        "elections losses --admin",
    ],
)
def test_ctrl_c_without_a_reachable_cluster_exits_with_130(words: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(WAIT_SECONDS_MAX)
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        with subprocess.Popen(
            command(*words.split(), address), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            asking, _ = listening.accept()
            with asking:
                asking.settimeout(WAIT_SECONDS_MAX)
                assert asking.recv(1)
                process.send_signal(signal.SIGINT)
                told = process.communicate(timeout=WAIT_SECONDS_MAX)
    assert (process.returncode, told) == (130, ("", ""))


def test_ctrl_c_while_a_file_is_read_exits_with_130(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "moves")
    with subprocess.Popen(
        command("reassignments", "start", str(tmp_path / "moves")),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        with open(tmp_path / "moves", "wb"):  # Opens when the other side does.
            process.send_signal(signal.SIGINT)
            told = process.communicate(timeout=WAIT_SECONDS_MAX)
    assert (process.returncode, told) == (130, ("", ""))
