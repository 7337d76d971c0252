"""A cluster of `kraft-node` processes: static voters, each broker and controller, started and ended together."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from kraft.testing.node_process import NodeProcess
from kraft.testing.ports import HOST, free_ports

CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"


class Addresses(NamedTuple):
    """The addresses of a node's listeners, HOST:PORT."""

    kafka: str
    controller: str


class ProcessCluster:
    """A cluster of processes. Node N uses the directory N below the cluster's. Used as a context manager: every node
    serves inside the block, and all processes have ended after it."""

    def __init__(
        self, directory: str | Path, *arguments: str, nodes: int = 3, admin: bool = False, own_session: bool = False
    ) -> None:
        """`arguments` are further options of every kraft-node; `admin` and `own_session` as for `NodeProcess`."""
        self.directory = Path(directory)
        self._arguments = arguments
        self._admin = admin
        self._own_session = own_session
        ports = [f"{HOST}:{port}" for port in free_ports(2 * nodes)]
        self.addresses = {
            node: Addresses(kafka, controller)
            for node, kafka, controller in zip(range(1, nodes + 1), ports[:nodes], ports[nodes:], strict=True)
        }
        self.bootstrap = ",".join(address.kafka for address in self.addresses.values())
        """HOST:PORT of every node, for `bootstrap.servers`."""
        self.controllers = ",".join(address.controller for address in self.addresses.values())
        self.nodes = {
            node: self.make(node, listen=kafka, controller_listen=controller)
            for node, (kafka, controller) in self.addresses.items()
        }

    def make(self, node: int, *options: str, listen: str | None, controller_listen: str | None) -> NodeProcess:
        """Make a node with further options, not started yet."""
        common = ("--node-id", str(node), *self.quorum_options(), *options, *self._arguments)
        place = self.directory / str(node)
        return NodeProcess(
            place,
            *common,
            admin=self._admin,
            listen=listen,
            controller_listen=controller_listen,
            own_session=self._own_session,
        )

    def quorum_options(self) -> tuple[str, ...]:
        """The options with which a node finds its quorum and may be formatted."""
        voters = ",".join(f"{node}@{address.controller}" for node, address in self.addresses.items())
        return ("--voters", voters, "--format", "--cluster-id", CLUSTER_ID)

    @property
    def running(self) -> list[int]:
        """The ids of the nodes whose processes run."""
        return [node for node, process in self.nodes.items() if process.runs]

    def start(self, nodes: Iterable[int] | None = None) -> Self:
        """Start these nodes, or all that are down, together: the first needs others for its quorum. Returns when they
        serve. Raises NodeFailed, LookupError for an unknown node, RuntimeError for a running one."""
        chosen = [node for node in self.nodes if not self.nodes[node].runs] if nodes is None else list(nodes)
        for node in chosen:
            self._require_known(node)
            if self.nodes[node].runs:
                raise RuntimeError(f"node {node} runs already")
        with ThreadPoolExecutor(max(1, len(chosen))) as starters:
            list(starters.map(lambda node: self.nodes[node].start(), chosen))
        return self

    def kill(self, nodes: Iterable[int] | None = None) -> None:
        """Kill these nodes, or all that run, with SIGKILL, all within the time of the signals. Raises LookupError for
        an unknown node, RuntimeError for one that is down."""
        chosen = self.running if nodes is None else self._require_running(nodes)
        for node in chosen:
            self.nodes[node].send(signal.SIGKILL)
        for node in chosen:
            self.nodes[node].kill()

    def pause(self, nodes: Iterable[int]) -> None:
        """Pause these nodes with SIGSTOP. Raises the errors of `kill`."""
        for node in self._require_running(nodes):
            self.nodes[node].pause()

    def resume(self, nodes: Iterable[int]) -> None:
        """Resume these nodes with SIGCONT, paused or not. Raises the errors of `kill`."""
        for node in self._require_running(nodes):
            self.nodes[node].resume()

    def stop(self) -> list[int]:
        """Shut all running nodes down in an orderly way, concurrently. Returns their exit codes. Raises NodeFailed if
        one does not end in time."""
        running = self.running
        with ThreadPoolExecutor(max(1, len(running))) as stoppers:
            return list(stoppers.map(lambda node: self.nodes[node].stop(), running))

    def _require_known(self, node: int) -> None:
        if node not in self.nodes:
            raise LookupError(f"there is no node {node}; there are {', '.join(map(str, self.nodes))}")

    def _require_running(self, nodes: Iterable[int]) -> list[int]:
        chosen = list(nodes)
        for node in chosen:
            self._require_known(node)
            if not self.nodes[node].runs:
                raise RuntimeError(f"node {node} is down (running: {', '.join(map(str, self.running)) or 'none'})")
        return chosen

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.nodes.values():
            process.__exit__(kind, error, trace)
