"""Tries of micro-batches, each a process, killed with SIGKILL at any point, run twice at once, and over leaders and
coordinators that are killed: every row is there once."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

from jepsen.spark.spark_logs import read_to_the_end
from jepsen.three_nodes import ThreeNodes

ROOT = Path(__file__).parents[2]
BATCHES = 40 if os.environ.get("KRAFT_SOAK") == "1" else 5
ROWS = 400
ATTEMPTS_MAX = 50


def attempt(cluster: ThreeNodes, topic: str, batch: int) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "tests.integration.spark_attempts",
        cluster.bootstrap,
        topic,
        str(batch),
        str(ROWS),
    ]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def killed_after(process: subprocess.Popen[str], rounds: int) -> bool:
    """Whether it was still at work when SIGKILL came, after so many rounds."""
    assert process.stdout is not None
    for _ in range(rounds):
        if process.stdout.readline().strip() in ("done", ""):
            break
    process.kill()
    rest = process.stdout.read()
    process.stdout.close()
    return process.wait() != 0 and "done" not in rest


def finished(process: subprocess.Popen[str]) -> bool:
    out, _ = process.communicate(timeout=240)
    return process.returncode == 0 and out.endswith("done\n")


def test_rows_are_written_once_whichever_process_is_killed(tmp_path: Path) -> None:
    chance, cut = random.Random(1), 0
    with ThreeNodes(tmp_path) as cluster:
        topic = cluster.create("target", 3)
        cluster.until_in_sync(topic)
        for batch in range(BATCHES):
            for _ in range(2):
                cut += killed_after(attempt(cluster, topic, batch), chance.randrange(1, 30))
            # Two drivers with one checkpoint.
            first, second = attempt(cluster, topic, batch), attempt(cluster, topic, batch)
            victim = None
            if batch % 2 == 0:
                victim = cluster.nodes[cluster.leader(topic, chance.randrange(3))]
                victim.kill()
            cut += killed_after(second, chance.randrange(5, 30)) if batch % 3 == 0 else finished(second)
            done = finished(first)
            for _ in range(ATTEMPTS_MAX):
                if done:
                    break
                done = finished(attempt(cluster, topic, batch))  # Spark tries again.
            assert done, f"batch {batch} did not get through"
            if victim is not None:
                victim.start()
        counts = Counter((message.value() or b"").decode() for message in read_to_the_end(cluster.bootstrap, topic))
    assert cut >= BATCHES, f"only {cut} tries were cut off, which proves little"
    assert {value: count for value, count in counts.items() if count != 1} == {}
    assert counts.keys() == {f"{batch}:{number}" for batch in range(BATCHES) for number in range(ROWS)}
