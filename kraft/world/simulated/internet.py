"""The network between simulated nodes: hosts with names and addresses, which host can reach which, and the delays.

A blocked packet is sent again, with growing pauses, as in TCP. So loss shows as a stall, and a cut as silence that ends
when the cut is healed.
"""

from __future__ import annotations

import errno
import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING

from kraft.world.simulated.node import Node
from kraft.world.simulated.time import VirtualTime

if TYPE_CHECKING:
    from kraft.world.simulated.network_port import SimulatedListener
    from kraft.world.simulated.streams import SimulatedStream

LOOPBACK = "127.0.0.1"
WILDCARD = "0.0.0.0"
OWN_NAMES = ("localhost", LOOPBACK, "::1", WILDCARD, "::", "")
EPHEMERAL_PORT = 32_768
RETRY_SECONDS = 0.2  # Linux's smallest retransmission timeout.
LATENCY_SECONDS_MIN = 30e-6
RETRY_SECONDS_MAX = 2.0  # Far below Linux's 120 s, so that a healed cut is noticed within simulated seconds.


@dataclass(slots=True)
class NetworkFaults:
    """Faults of the network. Rates are probabilities per packet or call."""

    latency_min: float = LATENCY_SECONDS_MIN
    latency_mean: float = 100e-6  # Added to the minimum, exponentially distributed.
    stall_rate: float = 0.0  # A packet is lost: it comes `RETRY_SECONDS` later, and all behind it too.
    split_rate: float = 0.05  # A receive or send takes only a part of what it could.
    reset_rate: float = 0.0  # A send finds its connection reset.


class Host:
    """The machine of one node. It keeps its address, ports and disk through all of the node's lives."""

    __slots__ = ("address", "listeners", "name", "next_port", "node", "powered", "streams")

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.node: Node | None = None
        self.powered = True
        self.listeners: dict[int, list[SimulatedListener]] = {}
        self.streams: dict[SimulatedStream, None] = {}
        self.next_port = EPHEMERAL_PORT

    def find_listener(self, address: str, port: int) -> SimulatedListener | None:
        for listener in self.listeners.get(port, []):
            if listener.host in (WILDCARD, address):
                return listener
        return None

    def ephemeral_port(self) -> int:
        while True:
            self.next_port = self.next_port + 1 if self.next_port < 65_000 else EPHEMERAL_PORT
            if self.next_port not in self.listeners:
                return self.next_port

    def process_died(self) -> None:
        """Close everything that the process had open, as the kernel does: peers see FIN or RST, and new connections are
        refused."""
        self.listeners.clear()
        for stream in list(self.streams):
            stream.shut()

    def power_lost(self) -> None:
        """Stop sending anything. Peers hang until they receive a packet from the next life of this host."""
        self.powered = False
        self.listeners.clear()
        for stream in list(self.streams):
            stream.vanish()


class Internet:
    """Hosts, cuts and delays. A cut is a pair (source, target) of host names, so cuts may be one-way."""

    def __init__(self, time: VirtualTime, chance: random.Random) -> None:
        self.time = time
        self.chance = chance
        self.faults = NetworkFaults()
        self.host_faults: dict[str, NetworkFaults] = {}
        """Faults by host name. They apply to every packet that the host sends or receives, instead of `faults`."""
        self._bites: Counter[tuple[str, str, str]] = Counter()
        """The number of affected packets by kind of fault, source and target."""
        self._hosts: dict[str, Host] = {}
        self._cuts: dict[tuple[str, str], None] = {}
        self._mutes: dict[tuple[str, int, str], None] = {}
        """(source, its port, target) of connections on which no responses arrive."""
        self._connections = 0

    def add_host(self, name: str) -> Host:
        host = Host(name, f"10.0.{len(self._hosts) // 2 // 250}.{len(self._hosts) // 2 % 250 + 1}")
        self._hosts[host.name] = self._hosts[host.address] = host
        return host

    def new_connection(self) -> int:
        self._connections += 1
        return self._connections

    def resolve(self, name: str, asking: Host) -> tuple[Host, str]:
        """Return the host of that name, and the address to which the name resolves. Raises OSError like a resolver."""
        if name in OWN_NAMES:
            return asking, LOOPBACK
        host = self._hosts.get(name)
        if host is None:
            raise OSError(errno.EHOSTUNREACH, f"name {name!r} is not known")
        return host, host.address

    def cut(self, source: str, target: str, *, both_ways: bool = True) -> None:
        self._cuts[source, target] = None
        if both_ways:
            self._cuts[target, source] = None

    def isolate(self, name: str) -> None:
        for other in [host.name for key, host in self._hosts.items() if key == host.name]:
            if other != name:
                self.cut(name, other)

    def mute(self, source: str, port: int, target: str) -> None:
        """Drop the packets that `source` sends from `port` to `target`; all other packets pass."""
        self._mutes[source, port, target] = None

    def heal(self, source: str | None = None, target: str | None = None) -> None:
        """Undo cuts and mutes: all of them, those of one host, or those between two."""
        named = [name for name in (source, target) if name is not None]
        self._cuts = {pair: None for pair in self._cuts if not all(name in pair for name in named)}
        self._mutes = {ends: None for ends in self._mutes if not all(name in ends for name in named)}

    def forget(self, host: Host) -> None:
        for stream in host.streams:
            if stream.incoming.source is not host:
                stream.incoming.forgotten = stream.outgoing.forgotten = True

    def bite(self, kind: str, source: Host, target: Host) -> None:
        """Count that a fault of that kind ("cut", "stall", "slow", "reset", "forgotten") affected a packet."""
        self._bites[kind, source.name, target.name] += 1

    def bites(self, kind: str, *hosts: str) -> int:
        """The number of packets that faults of that kind affected at the host of that name, or between two."""
        return sum(
            count
            for (what, *ends), count in self._bites.items()
            if what == kind and all(host in ends for host in hosts)
        )

    def is_muted(self, source: Host, port: int, target: Host) -> bool:
        """Whether packets that `source` sends from `port` are held back now."""
        if not self._mutes or (source.name, port, target.name) not in self._mutes:
            return False
        self.bite("cut", source, target)
        return True

    def passes(self, source: Host, target: Host) -> bool:
        """Whether a packet that leaves `source` now reaches `target`."""
        if source is target:
            return True
        if (source.name, target.name) in self._cuts:
            self.bite("cut", source, target)
            return False
        return source.powered and target.powered

    def faults_between(self, source: Host, target: Host) -> NetworkFaults:
        own = self.host_faults
        return (own.get(source.name) or own.get(target.name) or self.faults) if own else self.faults

    def latency(self, source: Host, target: Host) -> float:
        faults = self.faults_between(source, target)
        drawn = faults.latency_min + -log(1.0 - self.chance.random()) * faults.latency_mean
        if source is target:
            return drawn / 4
        if faults.latency_min > LATENCY_SECONDS_MIN:
            self.bite("slow", source, target)
        if faults.stall_rate and self.chance.random() < faults.stall_rate:
            self.bite("stall", source, target)
            drawn += RETRY_SECONDS
        return drawn

    def later(self, source: Host, target: Host, action: Callable[[], object]) -> None:
        self.time.call_after(self.latency(source, target), action)

    def splits(self, source: Host, target: Host) -> bool:
        return self.chance.random() < self.faults_between(source, target).split_rate

    def resets(self, source: Host, target: Host) -> bool:
        rate = self.faults_between(source, target).reset_rate
        if rate > 0 and self.chance.random() < rate:
            self.bite("reset", source, target)
            return True
        return False


def failure(number: int) -> OSError:
    """Return the OSError of that errno, as its subclass if there is one."""
    return OSError(number, os.strerror(number))
