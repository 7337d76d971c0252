"""A cluster of nodes on this machine, each in its own process, for `kraft cluster start`.

The directory stores everything: `cluster.json` has the cluster id and the ports of each node; node N lives in `node-N`,
with its log and its process id (`pid`) beside its data. So the same command with the same directory starts the same
cluster again. A node that has served once is never formatted again: a voter with an empty disk could vote twice. Nodes
are in process groups of their own, so that Ctrl-C does not reach them directly, and each is stopped cleanly.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from kraft.cli.children import stop_with_parent
from kraft.common.config.node.internal_topics import internal_topic_settings
from kraft.common.errors import ConfigurationError
from kraft.common.ids import uuid_to_text
from kraft.metadata.record_serde import MetadataRecordSerde
from kraft.metadata.records.feature_level_record import FeatureLevelRecord
from kraft.raft.formatter import (
    FormatRequest,
    carry_out,
    find_formatted,
    parse_initial_controllers,
    plan_format,
    random_uuid,
)
from kraft.testing.ports import free_ports
from kraft.world.real import RealWorld

READY_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 40.0
PORT_STRIDE = 10
"""Distance between the ports of two nodes: 9092, 9102, 9112 and 9093, 9103, 9113."""
ADMIN_PORT_AHEAD = 552
"""Distance from a node's client port to its HTTP admin: 9644 for 9092, as for a single node."""
LOG_LINES = 12
STANDARD_INPUT = 0
INPUT_BYTES = 4096
"""Bytes of standard input that are read and dropped at a time."""
SERVED = "has-served"
"""File in a node's directory with its addresses."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class NodePorts:
    """The ports of one node on 127.0.0.1."""

    node_id: int
    kafka: int
    controller: int
    admin: int
    directory_id: str = ""
    """Id of the metadata directory, for the first voters of the cluster; "" with static voters."""


@dataclass(frozen=True)
class Layout:
    """The content of `cluster.json`."""

    cluster_id: str
    nodes: tuple[NodePorts, ...]

    @property
    def has_dynamic_voters(self) -> bool:
        """Whether voters can be added and removed (KIP-853). Clusters made by the first releases have static ones."""
        return all(node.directory_id for node in self.nodes)

    @property
    def initial_controllers(self) -> str:
        """The first voters, in the form of `kraft storage format --initial-controllers`."""
        return ",".join(f"{node.node_id}@127.0.0.1:{node.controller}:{node.directory_id}" for node in self.nodes)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{node.kafka}" for node in self.nodes)


def load_layout(directory: Path, count: int | None, first_port: int | None) -> tuple[Layout, bool]:
    """The cluster in `directory`, and whether it is new. Raises ConfigurationError if it has another number of nodes,
    or if a port of a new one is in use."""
    path = directory / "cluster.json"
    if path.exists():
        try:
            text: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            layout = Layout(text["cluster_id"], tuple(NodePorts(**node) for node in text["nodes"]))
        except (ValueError, KeyError, TypeError) as problem:
            raise ConfigurationError([f"{path} is damaged: {problem}"]) from problem
        if count not in (None, len(layout.nodes)):
            raise ConfigurationError(
                [
                    (
                        f"{directory} holds a cluster of {len(layout.nodes)} nodes, not of {count}: leave -n out, "
                        "or give another --dir"
                    )
                ]
            )
        return layout, False
    nodes = plan_ports(count or 3, first_port)
    random = RealWorld().random
    voters = tuple(replace(node, directory_id=random_uuid(random)) for node in nodes)
    layout = Layout(uuid_to_text(random.uuid("cluster")), voters)
    directory.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(layout), indent=2) + "\n", encoding="utf-8")
    return layout, True


def plan_ports(count: int, first_port: int | None) -> tuple[NodePorts, ...]:
    """Kafka's well-known ports, increased by ten for each node, or ports chosen by the system (first_port 0). Raises
    ConfigurationError if one is in use."""
    if first_port == 0:
        free = free_ports(3 * count)
        return tuple(
            NodePorts(index + 1, free[3 * index], free[3 * index + 1], free[3 * index + 2]) for index in range(count)
        )
    first = 9092 if first_port is None else first_port
    nodes = tuple(
        NodePorts(
            index + 1,
            first + PORT_STRIDE * index,
            first + 1 + PORT_STRIDE * index,
            first + ADMIN_PORT_AHEAD + PORT_STRIDE * index,
        )
        for index in range(count)
    )
    taken = [port for node in nodes for port in (node.kafka, node.controller, node.admin) if not _is_free(port)]
    if taken:
        raise ConfigurationError(
            [
                f"port {port} of 127.0.0.1 is taken: --port 0 has the system choose, --port N begins elsewhere"
                for port in taken
            ]
        )
    return nodes


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def format_node(layout: Layout, node: NodePorts, directory: str) -> None:
    """Make the node a voter of the new cluster, unless it is formatted already. Raises ConfigurationError,
    CorruptData, OSError."""
    world = RealWorld()
    request = FormatRequest(
        cluster_id=layout.cluster_id,
        node_id=node.node_id,
        directories=(directory,),
        metadata_directory=directory,
        is_controller=True,
        initial_controllers=parse_initial_controllers(layout.initial_controllers),
        ignore_formatted=True,
    )
    plan = plan_format(request, find_formatted(world.files, request.directories), world.random)
    carry_out(
        world.files,
        plan,
        MetadataRecordSerde(),
        lambda name, level: FeatureLevelRecord(name=name, feature_level=level),
        world.clock.wall_ms(),
    )


def caller_has_gone() -> bool:
    """Whether standard input has ended, if it is a pipe or a socket: the process that started this one holds the other
    end. Its data is discarded."""
    try:
        mode = os.fstat(STANDARD_INPUT).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            return False
        with selectors.DefaultSelector() as selector:
            selector.register(STANDARD_INPUT, selectors.EVENT_READ)
            return bool(selector.select(0)) and not os.read(STANDARD_INPUT, INPUT_BYTES)
    except ConnectionError:
        return True
    except OSError:  # It was closed before us.
        return False


class LocalNodes:
    """The processes of one cluster. As a context manager it ends all of them on exit."""

    def __init__(self, directory: Path, layout: Layout, sets: list[str], say: Say) -> None:
        self._directory = directory
        self._layout = layout
        self._sets = sets
        self._say = say
        self._processes: dict[int, subprocess.Popen[str]] = {}

    def __enter__(self) -> LocalNodes:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def start(self) -> None:
        """Start all nodes at the same time: the first needs others for its quorum."""
        for node in self._layout.nodes:
            self._processes[node.node_id] = self._spawn(node)

    def _spawn(self, node: NodePorts) -> subprocess.Popen[str]:
        home = self._directory / f"node-{node.node_id}"
        home.mkdir(exist_ok=True)
        data, quorum = home / "data", self._quorum_options(home)
        if self._layout.has_dynamic_voters and not (home / SERVED).exists():
            format_node(self._layout, node, str(data))
        command = [
            sys.executable,
            "-m",
            "kraft.cli.node",
            "--node-id",
            str(node.node_id),
            "--data-dir",
            str(data),
            *quorum,
        ]
        command += [
            "--listen",
            f"127.0.0.1:{node.kafka}",
            "--controller-listen",
            f"127.0.0.1:{node.controller}",
            "--admin",
            f"127.0.0.1:{node.admin}",
        ]
        command += ["--cluster-id", self._layout.cluster_id]
        replicas = min(3, len(self._layout.nodes))
        given = [text.partition("=")[0].strip() for text in self._sets]
        defaults = {
            "default.replication.factor": replicas,
            "min.insync.replicas": max(1, replicas - 1),
            **internal_topic_settings(len(self._layout.nodes)),
        }
        for text in [*(f"{key}={value}" for key, value in defaults.items() if key not in given), *self._sets]:
            command += ["--set", text]
        with (home / "kraft-node.log").open("a", encoding="utf-8") as log:
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                process_group=0,
                preexec_fn=stop_with_parent(os.getpid()),
            )
        (home / "pid").write_text(f"{process.pid}\n", encoding="ascii")
        return process

    def _quorum_options(self, home: Path) -> list[str]:
        nodes = self._layout.nodes
        if self._layout.has_dynamic_voters:
            return ["--bootstrap-controllers", ",".join(f"127.0.0.1:{node.controller}" for node in nodes)]
        voters = ",".join(f"{node.node_id}@127.0.0.1:{node.controller}" for node in nodes)
        return ["--voters", voters, *([] if (home / SERVED).exists() else ["--format"])]

    def await_ready(self) -> bool:
        """Wait until every node serves. Prints a message and returns False if one has ended, or on timeout."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        with selectors.DefaultSelector() as selector:
            for node_id, process in self._processes.items():
                assert process.stdout is not None
                selector.register(process.stdout, selectors.EVENT_READ, node_id)
            while selector.get_map():
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    self._say(
                        f"the nodes are not ready after {READY_SECONDS_MAX:g} s; their logs are in "
                        f"{self._directory}/node-*/kraft-node.log"
                    )
                    return False
                for key, _ in ready:
                    line = key.fileobj.readline()  # type: ignore[union-attr]  # Registered above: text streams.
                    selector.unregister(key.fileobj)
                    if not line.startswith("ready "):
                        self._tell_end(key.data)
                        return False
                    (self._directory / f"node-{key.data}" / SERVED).touch()
        return True

    def admin_urls(self) -> dict[int, str]:
        """The URL of each node's HTTP admin."""
        scheme = "https" if any(text.startswith("kraft.admin.ssl.") for text in self._sets) else "http"
        return {node.node_id: f"{scheme}://127.0.0.1:{node.admin}" for node in self._layout.nodes}

    def document(self) -> dict[str, Any]:
        """The addresses of the cluster, as `kraft cluster start --json` prints them: a contract with other programs."""
        admin_urls = self.admin_urls()
        return {
            "bootstrap": self._layout.bootstrap,
            "cluster_id": self._layout.cluster_id,
            "directory": str(self._directory),
            "nodes": [
                {
                    "node_id": node.node_id,
                    "kafka": f"127.0.0.1:{node.kafka}",
                    "admin_url": admin_urls[node.node_id],
                    "pid": self._processes[node.node_id].pid,
                }
                for node in self._layout.nodes
            ],
        }

    def watch(self, seconds: float) -> list[int]:
        """Wait for `seconds`. Returns the nodes that have ended, each once."""
        time.sleep(seconds)
        ended = [node_id for node_id, process in self._processes.items() if process.poll() is not None]
        for node_id in ended:
            self._tell_end(node_id)
            del self._processes[node_id]
        return ended

    @property
    def running(self) -> int:
        return len(self._processes)

    def _tell_end(self, node_id: int) -> None:
        process = self._processes[node_id]
        code = process.wait()
        if process.stdout is not None:
            process.stdout.close()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        log = self._directory / f"node-{node_id}" / "kraft-node.log"
        self._say(f"node {node_id} {how}; the end of {log}:")
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:]:
            self._say(f"  {line}")

    def stop(self) -> bool:
        """Send SIGTERM to all, and wait. Returns whether all stopped cleanly."""
        for process in self._processes.values():
            if process.poll() is None:
                os.kill(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS_MAX
        clean = True
        for node_id, process in self._processes.items():
            try:
                clean = process.wait(max(0.1, deadline - time.monotonic())) == 0 and clean
            except subprocess.TimeoutExpired:
                self._say(f"node {node_id} did not stop and was killed")
                process.kill()
                clean = False
        return clean
