"""A fault under way, and what faults use: the cluster, the nodes' roles, and randomness."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from jepsen.db import Cluster
from jepsen.disk import Disk
from jepsen.history import Recorder
from jepsen.network import Network
from jepsen.observer import Observer
from jepsen.preload.page import Page
from jepsen.s3_server import S3Server

NETWORK = 0  # Stands for the network among the busy.
STORE = -1  # Likewise for the object store.


@dataclass(slots=True, kw_only=True)
class Injection:
    """A fault under way. `end` undoes the fault and tells whether it had an effect. `busy` are nodes (or NETWORK) that
    no other fault may touch meanwhile."""

    kind: str
    role: str
    busy: frozenset[int]
    end: Callable[[], bool]


def grown(counter: Callable[[], int]) -> Callable[[], bool]:
    """Return a check whether `counter` has grown since now, for faults whose effects are counted."""
    before = counter()
    return lambda: counter() > before


class NotNow(Exception):
    """Raised when the fault has no possible target at the moment."""


class NotHere(NotNow):
    """Raised when the fault never has a target in this workload: partitions with one replica have no followers."""


@dataclass(slots=True)
class Context:
    cluster: Cluster
    observer: Observer
    recorder: Recorder
    chance: random.Random
    group: str = ""
    busy: set[int] = field(default_factory=set)

    def free(self) -> list[int]:
        """The nodes that run and have no fault."""
        return [
            number
            for number, node in self.cluster.nodes.items()
            if node.alive and not node.paused and number not in self.busy
        ]

    def pick(self, role: str) -> int:
        """Pick a node with a role: leader, follower, controller, voter, coordinator, any. Raises NotNow."""
        free = self.free()
        sample = self.observer.latest
        partitions = [sample.partitions[name] for name in sorted(sample.partitions)]
        candidates: list[int] = free
        if role == "leader":
            candidates = sorted({leader for leader, _, _, _ in partitions})
        elif role == "follower":
            if partitions and all(len(replicas) == 1 for _, _, _, replicas in partitions):
                raise NotHere("no partition has a follower")
            candidates = sorted({node for leader, _, isr, _ in partitions for node in isr if node != leader})
        elif role == "controller":
            candidates = [sample.controller]
        elif role == "voter":
            candidates = [node for node in free if node != sample.controller]
        elif role == "coordinator":
            candidates = [self.observer.coordinator(self.group)]
        candidates = [node for node in candidates if node in free]
        if not candidates:
            raise NotNow(f"no {role} is free")
        return self.chance.choice(candidates)

    def switch(self) -> Network:
        """The network, if it can be cut. Raises NotNow in the reduced form."""
        network = self.cluster.network
        if not isinstance(network, Network):
            raise NotNow("the loopback device cannot be cut")
        return network

    def need_network(self) -> None:
        """Check that the network has no fault. Raises NotNow."""
        self.switch()
        if NETWORK in self.busy:
            raise NotNow("the network has a fault already")

    def store(self) -> S3Server:
        """The object store. Raises NotNow while it has a fault, NotHere if there is none."""
        store = self.cluster.store
        if store is None:
            raise NotHere("nothing is tiered")
        if STORE in self.busy:
            raise NotNow("the store has a fault already")
        return store

    def disk(self, number: int) -> Disk:
        """The disk of one node. Raises NotNow in the reduced form."""
        disk = self.cluster.nodes[number].disk
        if not isinstance(disk, Disk):
            raise NotNow("there are no disks")
        return disk

    def page(self, number: int) -> Page:
        """The page that controls a node's clocks and syncs. Raises NotNow if the node was started without it."""
        page = self.cluster.nodes[number].page
        if page is None:
            raise NotNow("nodes run without the library that changes clocks and syncs")
        return page
