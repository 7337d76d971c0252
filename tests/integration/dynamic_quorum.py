"""Three nodes whose voters stand in the log (KIP-853), formatted with `kraft storage format`: any of them can lose its disk and come back."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kraft.cli.admin.app import main
from kraft.common.ids import uuid_to_text
from kraft.testing.node_process import NodeProcess
from kraft.testing.ports import free_ports
from tests.integration.three_nodes import CLUSTER_ID, NODES, ThreeNodes

DIRECTORY_IDS = {node: uuid_to_text(bytes([*range(64, 79), node])) for node in NODES}


class DynamicQuorum(ThreeNodes):
    """As ThreeNodes, at kraft.version 1."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        ports = free_ports(6)
        kafka, controllers = ([f"127.0.0.1:{port}" for port in half] for half in (ports[:3], ports[3:]))
        self.bootstrap, self.controllers = ",".join(kafka), ",".join(controllers)
        self.nodes = {}
        self._arguments = arguments
        for node in NODES:
            process = self.nodes[node] = self._process(directory / str(node), node, listen=kafka[node - 1], controller_listen=controllers[node - 1])
            process.directory.mkdir(parents=True)
            (process.directory / "node.properties").write_text(
                f"process.roles=broker,controller\nnode.id={node}\ncontroller.listener.names=CONTROLLER\nlog.dirs={process.data_directories}\n"
                f"controller.quorum.bootstrap.servers={self.controllers}\nlisteners=PLAINTEXT://{kafka[node - 1]},CONTROLLER://{controllers[node - 1]}\n"
            )
            self.format(node, "--initial-controllers", ",".join(f"{each}@{controllers[each - 1]}:{DIRECTORY_IDS[each]}" for each in NODES))

    def _process(self, directory: Path, node: int, *options: str, listen: str | None = "127.0.0.1:0", controller_listen: str | None = None) -> NodeProcess:
        common = ("--node-id", str(node), "--bootstrap-controllers", self.controllers, *options, *self._arguments)
        return NodeProcess(directory, *common, listen=listen, controller_listen=controller_listen)

    def format(self, node: int, *arguments: str) -> None:
        """What an operator does before a node first starts."""
        properties = str(self.nodes[node].directory / "node.properties")
        assert main(["storage", "format", "--cluster-id", CLUSTER_ID, "--config", properties, *arguments]) == 0

    def wipe(self, node: int) -> None:
        """A new disk in place of the old one."""
        shutil.rmtree(self.nodes[node].data_directories)

    def voters(self, node: int) -> dict[int, bytes]:
        """Directory ids by node, as this node tells them."""
        return {voter.replica_id: bytes(voter.replica_directory_id) for voter in self.quorum(node).current_voters}

    def make_voter(self, node: int, asked: int) -> None:
        """Have a node that observes the quorum vote."""
        endpoint, properties = self.nodes[node].ready["controller"], Path(self.nodes[node].data_directories, "meta.properties").read_text()
        disk = next(line.removeprefix("directory.id=") for line in properties.splitlines() if line.startswith("directory.id="))
        named = [str(node), "--endpoint", endpoint, "--directory-id", disk]  # The disk before it is remembered as an observer for a while.
        assert main(["quorum", "add-voter", *named, "--bootstrap-server", self.nodes[asked].bootstrap]) == 0

    def remove_voter(self, node: int, asked: int) -> None:
        """Take the vote away that stands in the log."""
        assert main(["quorum", "remove-voter", str(node), "--yes", "--bootstrap-server", self.nodes[asked].bootstrap]) == 0

    def add_broker(self, node: int) -> NodeProcess:
        """A new broker, which needs no format."""
        directory = self.nodes[1].directory.parent / str(node)
        process = self.nodes[node] = self._process(directory, node, "--role", "broker")
        return process.start()


@contextmanager
def dynamic_quorum(directory: Path, *arguments: str) -> Iterator[DynamicQuorum]:
    """Whatever happens, no process is left behind."""
    cluster = DynamicQuorum(directory, *arguments)
    try:
        cluster.start()
        yield cluster
    finally:
        for node in cluster.nodes.values():
            node.__exit__(None, None, None)
