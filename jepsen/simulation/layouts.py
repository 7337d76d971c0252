"""Layouts of simulated clusters: three to five nodes, their roles, and a static or dynamic quorum. Timeouts are short
by configuration alone."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final, NamedTuple

from jepsen.simulation.faults.scene import Directories
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.config.node.node_loader import load_node_config

PORT: Final = 9092
CONTROLLER_PORT: Final = 9093
GUESTS: Final = "GUESTS"
GUESTS_PORT: Final = 9094
"""A listener of brokers where clients log in."""
DATA: Final = "/data"
MORE: Final = "/more"
CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"

SHORT: Final = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    "replica.fetch.backoff.ms": "200",
    "replica.socket.timeout.ms": "5000",
    "group.initial.rebalance.delay.ms": "100",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.share.session.timeout.ms": "4000",
    "group.share.min.session.timeout.ms": "4000",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.max.delivery.count.limit": "25",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.snapshot.update.records.per.snapshot": "20",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "request.timeout.ms": "3000",
    "log.cleaner.backoff.ms": "1000",
    "log.segment.delete.delay.ms": "1000",
    "metadata.log.max.record.bytes.between.snapshots": "4000",
}


class Layout(NamedTuple):
    """The nodes of a cluster and their roles. `dynamic`: node 1 starts as a quorum of one and the other `voters` are
    added (KIP-853). Otherwise the voters are configured."""

    name: str
    brokers: tuple[str, ...]
    controllers: tuple[str, ...]
    voters: tuple[str, ...]
    dynamic: bool = False

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(sorted({*self.brokers, *self.controllers}))

    def directories(self, node: str, *, two_disks: bool) -> Directories:
        """The node's directories. A controller's metadata disk is not replaceable: without it the controller would
        forget its vote."""
        if not two_disks or node not in self.brokers:
            return Directories((DATA,))
        return Directories((DATA, MORE), (MORE,) if node in self.controllers else (DATA, MORE))

    def configuration(
        self,
        node: str,
        *,
        flush: bool,
        two_disks: bool,
        more: Mapping[str, str] | None = None,
        has_guests: bool = False,
    ) -> NodeConfig:
        """The node's configuration. With `flush` a record is acknowledged only once it is synced, so that a power loss
        cannot lose it. With `two_disks` one disk may be lost, so a record is acknowledged only once another node has
        it. `more` overrides other keys."""
        is_broker, is_controller = node in self.brokers, node in self.controllers
        host = f"node-{node}"
        roles = [role for role, has in (("broker", is_broker), ("controller", is_controller)) if has]
        ports = [
            listener
            for listener, has in (
                (f"PLAINTEXT://{{}}:{PORT}", is_broker),
                (f"{GUESTS}://{{}}:{GUESTS_PORT}", is_broker and has_guests),
                (f"CONTROLLER://{{}}:{CONTROLLER_PORT}", is_controller),
            )
            if has
        ]
        keys = {
            **SHORT,
            "node.id": node,
            "process.roles": ",".join(roles),
            "log.dirs": ",".join(self.directories(node, two_disks=two_disks).paths),
            "kraft.format": "true",
            "kraft.cluster.id": CLUSTER_ID,
            "listeners": ",".join(listener.format("0.0.0.0") for listener in ports),
            "advertised.listeners": ",".join(listener.format(host) for listener in ports),
            "controller.listener.names": "CONTROLLER",
            "default.replication.factor": "3",
            "offsets.topic.replication.factor": "3",
        }
        if not self.dynamic:
            keys["controller.quorum.voters"] = ",".join(
                f"{voter}@node-{voter}:{CONTROLLER_PORT}" for voter in self.voters
            )
        elif node != self.voters[0]:
            keys["controller.quorum.bootstrap.servers"] = ",".join(
                f"node-{voter}:{CONTROLLER_PORT}" for voter in self.voters
            )
        if two_disks:
            keys["min.insync.replicas"] = "2"
        if flush:
            keys["log.flush.interval.messages"] = "1"
        keys.update(more or {})
        return load_node_config(sets=[f"{key}={value}" for key, value in keys.items()])


THREE: Final = ("1", "2", "3")
LAYOUTS: Final = (
    Layout("three combined", THREE, THREE, THREE),
    Layout("three combined, dynamic voters", THREE, THREE, THREE, dynamic=True),
    Layout("three combined and a broker", (*THREE, "4"), THREE, THREE),
    Layout("four combined, three of them voters by turns", (*THREE, "4"), (*THREE, "4"), THREE, dynamic=True),
    Layout("two combined, a controller and two brokers", ("1", "2", "4", "5"), THREE, THREE),
    Layout("three combined and two brokers", (*THREE, "4", "5"), THREE, THREE),
)
WEIGHTS: Final = (3, 2, 2, 2, 2, 3)


def draw(chance: random.Random) -> Layout:
    return chance.choices(LAYOUTS, WEIGHTS)[0]
