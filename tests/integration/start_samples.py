"""Started by test_samples.py inside a network namespace of its own, so that the samples' fixed ports are free:
starts samples as they are, and uses them.

python -m tests.integration.start_samples DIRECTORY SAMPLE [SAMPLE ...]
"""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import time

READY_SECONDS_MAX = 60.0


def run(*command: str, text: str | None = None) -> str:
    """What a command of the installation prints. Raises CalledProcessError."""
    return subprocess.run(
        [sys.executable, "-m", *command], input=text, capture_output=True, text=True, check=True, timeout=60
    ).stdout


def started(sample: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "kraft.cli.node", "--config", sample], stdout=subprocess.PIPE, text=True
    )


def await_ready(nodes: list[subprocess.Popen[str]]) -> list[str]:
    """The ready line of each."""
    lines: dict[int, str] = {}
    deadline = time.monotonic() + READY_SECONDS_MAX
    with selectors.DefaultSelector() as selector:
        for index, node in enumerate(nodes):
            assert node.stdout is not None
            selector.register(node.stdout, selectors.EVENT_READ, index)
        while len(lines) < len(nodes):
            left = deadline - time.monotonic()
            assert left > 0, f"ready so far: {lines}"
            for key, _ in selector.select(left):
                lines[key.data] = nodes[key.data].stdout.readline()
                selector.unregister(key.fileobj)
    return [lines[index] for index in range(len(nodes))]


def format_quorum(controllers: list[str]) -> None:
    """As the comments in the samples say. Brokers learn the cluster's id from the quorum."""
    cluster_id = random_uuid()
    voters = []
    for sample in controllers:
        with open(sample, encoding="utf-8") as lines:
            keys = dict(line.strip().partition("=")[::2] for line in lines if "=" in line and not line.startswith("#"))
        address = keys["listeners"].rpartition("CONTROLLER://")[2]
        voters.append(f"{keys['node.id']}@{address}:{random_uuid()}")
    format_ = ("kraft.cli.admin.app", "storage", "format", "--cluster-id", cluster_id)
    for sample in controllers:
        run(*format_, "--initial-controllers", ",".join(voters), "--config", sample)


def random_uuid() -> str:
    return run("kraft.cli.admin.app", "storage", "random-uuid").strip()


def main() -> None:
    directory, *samples = sys.argv[1:]
    os.chdir(directory)
    if len(samples) > 1:
        format_quorum([sample for sample in samples if not os.path.basename(sample).startswith("broker-")])
    nodes = [started(sample) for sample in samples]
    try:
        lines = await_ready(nodes)
        assert all(line.startswith("ready ") for line in lines), lines
        addresses = [dict(word.partition("=")[::2] for word in line.split()[1:]).get("kafka") for line in lines]
        brokers = [address.replace("0.0.0.0", "127.0.0.1") for address in addresses if address]
        # That one advertises a name that only its owner knows.
        if not any("reachable" in sample for sample in samples):
            server = ("--bootstrap-server", brokers[0])
            run(
                "kraft.cli.admin.app",
                "topics",
                "create",
                "sample",
                "--partitions",
                "1",
                "--replication-factor",
                str(len(brokers)),
                *server,
            )
            run("kraft.cli.admin.app", "produce", "sample", *server, text="one\ntwo\n")
            assert run("kraft.cli.admin.app", "consume", "sample", "--from-beginning", "-e", *server).splitlines() == [
                "one",
                "two",
            ]
        for node in nodes:
            node.terminate()
        assert [node.wait(40) for node in nodes] == [0] * len(nodes)
    finally:
        for node in nodes:
            if node.poll() is None:
                node.kill()
                node.wait()


if __name__ == "__main__":
    main()
