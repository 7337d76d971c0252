"""Three nodes whose voters stand in the log (KIP-853), formatted with `kraft storage format`: any of them can lose
its disk and come back."""

from __future__ import annotations

import shutil
from pathlib import Path

from jepsen.three_nodes import NODES, ThreeNodes
from kraft.cli.admin.app import main
from kraft.common.ids import uuid_to_text
from kraft.testing.node_process import NodeProcess
from kraft.testing.ports import HOST, free_ports
from kraft.testing.process_cluster import CLUSTER_ID, Addresses

DIRECTORY_IDS = {node: uuid_to_text(bytes([*range(64, 79), node])) for node in NODES}


class DynamicQuorum(ThreeNodes):
    """As ThreeNodes, at kraft.version 1."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        super().__init__(directory, *arguments)
        initial = ",".join(
            f"{node}@{address.controller}:{DIRECTORY_IDS[node]}" for node, address in self.addresses.items()
        )
        for node, addresses in self.addresses.items():
            self.configure(node, addresses)
            self.format(node, "--initial-controllers", initial)

    def configure(self, node: int, addresses: Addresses) -> None:
        """Write the properties file that `format` reads."""
        process = self.nodes[node]
        process.directory.mkdir(parents=True)
        (process.directory / "node.properties").write_text(
            f"process.roles=broker,controller\nnode.id={node}\ncontroller.listener.names=CONTROLLER\n"
            f"log.dirs={process.data_directories}\ncontroller.quorum.bootstrap.servers={self.controllers}\n"
            f"listeners=PLAINTEXT://{addresses.kafka},CONTROLLER://{addresses.controller}\n"
        )

    def quorum_options(self) -> tuple[str, ...]:
        return ("--bootstrap-controllers", self.controllers)

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
        endpoint, properties = (
            self.nodes[node].ready["controller"],
            Path(self.nodes[node].data_directories, "meta.properties").read_text(),
        )
        disk = next(
            line.removeprefix("directory.id=") for line in properties.splitlines() if line.startswith("directory.id=")
        )
        # The disk before it is remembered as an observer for a while.
        named = [str(node), "--endpoint", endpoint, "--directory-id", disk]
        assert main(["quorum", "add-voter", *named, "--bootstrap-server", self.nodes[asked].bootstrap]) == 0

    def remove_voter(self, node: int, asked: int) -> None:
        """Take the vote away that stands in the log."""
        assert (
            main(["quorum", "remove-voter", str(node), "--yes", "--bootstrap-server", self.nodes[asked].bootstrap]) == 0
        )

    def add_controller(self, node: int) -> NodeProcess:
        """Start a new broker and controller, which observes the quorum."""
        kafka, controller = (f"{HOST}:{port}" for port in free_ports(2))
        process = self.nodes[node] = self.make(node, listen=kafka, controller_listen=controller)
        self.configure(node, Addresses(kafka, controller))
        self.format(node, "--no-initial-controllers")
        return process.start()

    def add_broker(self, node: int) -> NodeProcess:
        """A new broker, which needs no format."""
        process = self.nodes[node] = self.make(node, "--role", "broker", listen="127.0.0.1:0", controller_listen=None)
        return process.start()
