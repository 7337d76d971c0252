"""A node process for tests of the HTTP admin: started on free ports, stopped at the end, its ready line parsed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
STOP_SECONDS_MAX = 30


@dataclass(frozen=True)
class RunningNode:
    process: subprocess.Popen[str]
    kafka: str
    admin: str
    cluster_id: str


@contextmanager
def running_node(directory: Path, *arguments: str, own_listeners: bool = False) -> Iterator[RunningNode]:
    """With `own_listeners` the arguments say where it listens."""
    command = [sys.executable, "-m", "kraft.cli.node", "--data-dir", str(directory / "data")]
    if not own_listeners:
        command += ["--listen", "127.0.0.1:0", "--controller-listen", "127.0.0.1:0"]
    command += [
        "--admin",
        "127.0.0.1:0",
        "--set",
        "group.initial.rebalance.delay.ms=0",
        "--set",
        "offsets.topic.num.partitions=3",
        *arguments,
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
    with (directory / "node.log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("ready "), (directory / "node.log").read_text()
            words = dict(word.split("=", 1) for word in line.split()[1:])
            yield RunningNode(process, words["kafka"], words["admin"], words["cluster"])
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(STOP_SECONDS_MAX)
            assert process.stdout is not None
            process.stdout.close()
