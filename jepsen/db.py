"""The cluster of five nodes: creates, starts, queries and inspects them."""

from __future__ import annotations

import base64
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import trio

from jepsen.disk import Disk
from jepsen.loopback import Directory, LoopbackNetwork
from jepsen.network import Network
from jepsen.node import CLIENT_PORT, CONTROLLER_PORT, Node
from jepsen.preload.page import build
from jepsen.s3_server import BUCKET, Fault, S3Server, running_s3
from jepsen.servers import Access, Servers
from jepsen.targets import FIRST_NODES, Target
from kraft.rpc_client.connection import connect
from kraft.world.real import RealWorld

ADMIN_PORT = 9644
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
SETTINGS = {
    "process.roles": "broker,controller",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "controller.quorum.election.timeout.ms": "600",
    "controller.quorum.fetch.timeout.ms": "1500",
    "replica.lag.time.max.ms": "4000",
    "group.initial.rebalance.delay.ms": "100",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.share.min.session.timeout.ms": "6000",
    "group.share.session.timeout.ms": "6000",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.max.delivery.count.limit": "25",
    "share.coordinator.state.topic.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "auto.create.topics.enable": "false",
}

TIERED_SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "kraft.remote.storage.uri": f"s3://{BUCKET}/log",
    "remote.log.manager.task.interval.ms": "300",
    "remote.log.manager.task.retry.backoff.max.ms": "1000",
    "log.retention.check.interval.ms": "1000",
}


class Cluster:
    """A cluster in which every node is broker, controller and voter at first (dynamic quorum, KIP-853)."""

    def __init__(
        self,
        target: Target,
        scratch: Path,
        logs: Path,
        *,
        settings: Mapping[str, str],
        nodes: Sequence[int] = FIRST_NODES,
        disk: str = "ext4",
        seed: int = 0,
        preload: bool = False,
        admin: bool = False,
        secured: bool = False,
        tiered: bool = False,
    ) -> None:
        """`preload`: load the library that changes clocks and syncs into the nodes, if it can be built. `admin`: nodes
        serve HTTP on ADMIN_PORT. `secured`: clients need TLS and a password. `tiered`: an object store with injectable
        faults runs beside the clients."""
        self.target = target
        self._admin = admin
        self.network = LoopbackNetwork(nodes) if disk == "directory" else Network(nodes)
        self._services = ExitStack()
        self.store: S3Server | None = self._services.enter_context(running_s3(self.network.clients)) if tiered else None
        self._scratch, self._logs, self._disk = scratch, logs, disk
        scratch.mkdir(parents=True, exist_ok=True)
        self._library = build(scratch) if preload else None
        chance = random.Random(seed)
        self.directory_ids = {
            node: base64.urlsafe_b64encode(bytes([65, *chance.randbytes(15)])).decode().rstrip("=") for node in nodes
        }
        self.nodes = {node: self._make(node) for node in nodes}
        self._access = Access(logs.absolute() / "keys", secured=secured)
        self.settings = {
            **SETTINGS,
            **self._access.settings(),
            **target.settings,
            **(TIERED_SETTINGS if tiered else {}),
            **settings,
        }
        self._servers = self._access.servers(",".join(node.bootstrap for node in self.nodes.values()))

    def _make(self, number: int) -> Node:
        folder = self._scratch / f"n{number}"
        disk = Directory(folder) if self._disk == "directory" else Disk(folder, self._disk)
        environment = {} if self.store is None else self.store.environment
        return Node(number, self.target.program(number), self.network, disk, self._logs, self._library, environment)

    @property
    def servers(self) -> Servers:
        """The nodes that exist from the beginning."""
        return self._servers

    def start(self) -> None:
        """Format every disk, start every node, wait until all serve. Raises NodeFailed."""
        voters = [
            f"{node.number}@{node.host}:{CONTROLLER_PORT}:{self.directory_ids[node.number]}"
            for node in self.nodes.values()
        ]

        def first_start(node: Node) -> None:
            node.properties_path.write_text(
                "".join(f"{key}={value}\n" for key, value in self._properties(node).items())
            )
            node.format(CLUSTER_ID, voters)
            node.launch()

        with ThreadPoolExecutor(2) as starters:
            list(starters.map(first_start, self.nodes.values()))
        for node in self.nodes.values():
            node.await_ready()

    def add(self, number: int) -> Node:
        """Add a new node with an empty disk, formatted to join the quorum, and start it without waiting. Not in the
        reduced form."""
        assert isinstance(self.network, Network), "addresses of the loopback device are given once"
        self.network.attach(number)
        node = self._make(number)
        node.properties_path.write_text("".join(f"{key}={value}\n" for key, value in self._properties(node).items()))
        node.format(CLUSTER_ID, [])
        node.launch()
        self.nodes = {**self.nodes, number: node}  # A new mapping, for others are walking over the old one.
        return node

    def remove(self, number: int) -> None:
        """Stop a node and discard it and its disk."""
        assert isinstance(self.network, Network)
        node = self.nodes[number]
        self.nodes = {each: other for each, other in self.nodes.items() if each != number}
        node.kill()
        node.disk.discard()
        self.network.detach(number)

    def _properties(self, node: Node) -> dict[str, str]:
        listeners, advertised = (
            f"{self._access.listener}://{host}:{CLIENT_PORT},CONTROLLER://{host}:{CONTROLLER_PORT}"
            for host in (self.network.listens(node.number), node.host)
        )
        return {
            **self.settings,
            **(self.target.admin(self.network.listens(node.number), ADMIN_PORT) if self._admin else {}),
            "node.id": str(node.number),
            "log.dirs": str(node.data),
            "listeners": listeners,
            "advertised.listeners": advertised,
            "controller.quorum.bootstrap.servers": ",".join(
                f"{each.host}:{CONTROLLER_PORT}" for each in self.nodes.values()
            ),
        }

    def heal(self) -> list[int]:
        """Undo every injected fault and start every node that is down; returns those that were started."""
        self.network.heal_all()
        if self.store is not None:
            self.store.fault = Fault.NONE
        started = []
        for node in self.nodes.values():
            node.disk.empty()
            node.resume()
            if node.page is not None:
                node.page.clear()
            if not node.alive:
                node.launch()
                started.append(node.number)
        return started

    def kill(self) -> None:
        for node in self.nodes.values():
            node.kill()
        self._services.close()
        self.network.close()

    def ask(self, node: int, request: Any, timeout: float = 5.0) -> Any:
        """Return a node's response to a request in the newest version that both support. Raises TimeoutError, OSError,
        KraftError."""
        asked = self.nodes.get(node)
        if asked is None:
            raise ConnectionError(f"node {node} has left")

        world = RealWorld(log_sink=lambda event: None, tls=self._access.tls, login=self._access.login)

        async def call() -> Any:
            with trio.fail_after(timeout):
                async with connect(world, asked.host, CLIENT_PORT) as connection:
                    return await connection.call(request)

        try:
            return trio.run(call)
        except trio.TooSlowError:
            raise TimeoutError(f"node {node} does not answer within {timeout:g} s") from None
