"""A cluster that is asked over REST."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[2]


class Started:
    """A cluster in the foreground of a child process."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
        command = [
            sys.executable,
            "-m",
            "kraft.cli.admin.app",
            "cluster",
            "start",
            "-n",
            "3",
            "--dir",
            str(directory),
            "--port",
            "0",
        ]
        self.said = directory.parent / "said"
        with self.said.open("w") as said:
            self.process = subprocess.Popen(
                [*command, "--set", "offsets.topic.num.partitions=2"],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("ready "), self.said.read_text()
        nodes = json.loads((directory / "cluster.json").read_text())["nodes"]
        self.admins = {node["node_id"]: f"http://127.0.0.1:{node['admin']}" for node in nodes}
        self.ports = [node["kafka"] for node in nodes]
        self.kafka = self.ports[0]

    def get(self, node: int, path: str) -> Any:
        return httpx.get(self.admins[node] + path, timeout=30).json()

    def base(self, node: int) -> str:
        return f"{self.admins[node]}/v3/clusters/{self.get(node, '/v1/node')['cluster_id']}"

    def pid(self, node: int) -> int:
        """Of the node's process, whose command line names its directory."""
        wanted = str(self.directory / f"node-{node}" / "data").encode()
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and wanted in (entry / "cmdline").read_bytes():
                    return int(entry.name)
        raise ProcessLookupError(node)

    def codes(self, node: int) -> list[str]:
        return [reason["code"] for reason in self.get(node, "/v1/cluster/health")["reasons"]]
