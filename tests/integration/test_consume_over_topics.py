"""`kraft consume` while topics are deleted, recreated and grown, and while the only node restarts."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kraft.testing.foreign.librdkafka import Producer
from kraft.testing.node_process import NodeProcess

KRAFT = [sys.executable, "-m", "kraft.cli.admin.app"]


def until(seen: Callable[[], bool], what: object) -> None:
    deadline = time.monotonic() + 40
    while not seen():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@pytest.mark.timeout(150)
@pytest.mark.parametrize("arguments", [(), ("--group", "g")])
def test_consume_continues_when_topics_are_deleted_created_or_grown_and_the_node_restarts(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    with NodeProcess(tmp_path / "node", "--set", "group.initial.rebalance.delay.ms=0") as node:

        def kraft(*words: str) -> None:
            subprocess.run([*KRAFT, *words, "-b", node.bootstrap], check=True, capture_output=True, timeout=60)

        def send(topic: str, value: str, partition: int = 0) -> None:
            producer = Producer({"bootstrap.servers": node.bootstrap, "log_level": 0})
            producer.produce(topic, value, partition=partition)
            assert producer.flush(30) == 0

        for topic in ("goes", "stays"):
            kraft("topics", "create", topic)
            send(topic, f"first of {topic}")
        command = [*KRAFT, "consume", "goes", "stays", "--from-beginning", "-b", node.bootstrap, *arguments]
        lines: list[str] = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as reading:
            try:
                assert reading.stdout is not None
                threading.Thread(target=lines.extend, args=(map(str.strip, reading.stdout),), daemon=True).start()
                until(lambda: {"first of goes", "first of stays"} <= {*lines}, lines)
                kraft("topics", "delete", "goes", "--yes")
                send("stays", "meanwhile")
                until(lambda: "meanwhile" in lines, lines)
                kraft("topics", "create", "goes", "--partitions", "2")
                send("goes", "anew")
                send("goes", "anew, of one more", 1)
                until(lambda: {"anew", "anew, of one more"} <= {*lines}, lines)
                node.kill()
                node.start()
                send("stays", "after")
                until(lambda: "after" in lines, lines)
                assert reading.poll() is None
            finally:
                reading.kill()
        assert len(lines) == len({*lines}) == 6
