"""How many connections and bytes a listener takes, and the count of what it has.

As in Kafka: a connection beyond a listener's own limit, or beyond that of all listeners, waits until another ends,
and so do those behind it; one beyond its address's limit is closed. The listener by which brokers reach one another
is not held up by the common limit: there the connection that was silent the longest on another listener goes
instead, else clients could keep replication out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import trio


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """`max.connections`, for all listeners and for one, `max.connections.per.ip` (+ `.overrides`),
    `socket.request.max.bytes`, `queued.max.request.bytes`, `connections.max.idle.ms`."""

    connections_max: int = 2**31 - 1
    listener_connections_max: int = 2**31 - 1
    is_protected: bool = False
    """Whether this is the listener between brokers, and there are others."""
    creation_rate_max: int = 2**31 - 1
    """max.connection.creation.rate: new connections a second, of all listeners that are not protected."""
    listener_creation_rate_max: int = 2**31 - 1
    """The same of this listener."""
    connections_per_ip_max: int = 2**31 - 1
    connections_per_ip_overrides: dict[str, int] = field(default_factory=dict)
    request_bytes_max: int = 104_857_600
    queued_request_bytes_max: int = 268_435_456
    frame_progress_seconds: float = 2.0
    """How often frames in the making are looked at while others are held back for them."""
    idle_seconds_max: float = 600.0


class ConnectionPace(Protocol):
    """How fast clients may connect."""

    def delay(self, listener: str, limits: ConnectionLimits) -> float:
        """Count a connection of a listener, whoever makes it: how many seconds it has to wait."""

    def give_back(self, listener: str, limits: ConnectionLimits) -> None:
        """One that was counted is not taken."""

    def connect(self, address: str, listener: str) -> float:
        """Count a connection from `address`, unless it comes too early: how many seconds too early, else 0."""


class Closable(Protocol):
    """An open connection, as far as it may have to go for another."""

    last_active: float

    def close(self) -> None: ...


class ConnectionCounts:
    """Open connections, in all, by listener and by address. One for all listeners of a broker or of a controller."""

    __slots__ = ("_changed", "_connections", "by_host", "by_listener", "refused", "total")

    def __init__(self) -> None:
        self.total = 0
        self.by_host: dict[str, int] = {}
        self.by_listener: dict[str, int] = {}
        self.refused = 0
        self._connections: dict[str, tuple[Mapping[int, Closable], Callable[[], ConnectionLimits]]] = {}
        self._changed = trio.Event()

    def join(self, listener: str, connections: Mapping[int, Closable], limits: Callable[[], ConnectionLimits]) -> None:
        """A listener shares in the common limit, with its open connections as they are at any time."""
        self._connections[listener] = (connections, limits)
        self.by_listener[listener] = 0

    async def until_room(self, listener: str) -> None:
        """Return once the listener may have one connection more."""
        _, limits = self._connections[listener]
        while not self._has_room(listener, limits()):
            await self._changed.wait()

    def _has_room(self, listener: str, limits: ConnectionLimits) -> bool:
        return self.by_listener[listener] < limits.listener_connections_max and (
            limits.is_protected or self.total < limits.connections_max
        )

    def refusal(self, host: str, limits: ConnectionLimits) -> str | None:
        """Why a connection from `host` cannot be taken at all, or None."""
        per_ip = limits.connections_per_ip_overrides.get(host, limits.connections_per_ip_max)
        if self.by_host.get(host, 0) >= per_ip:
            return f"max.connections.per.ip={per_ip} reached for {host}"
        return None

    def opened(self, host: str, listener: str) -> None:
        self.total += 1
        self.by_host[host] = self.by_host.get(host, 0) + 1
        self.by_listener[listener] += 1
        self._close_excess()

    def closed(self, host: str, listener: str) -> None:
        self.total -= 1
        self.by_listener[listener] -= 1
        left = self.by_host[host] - 1
        if left:
            self.by_host[host] = left
        else:
            del self.by_host[host]
        self._wake()

    def limits_changed(self) -> None:
        """Those that wait may have room now, and others too little."""
        self._close_excess()
        self._wake()

    def _wake(self) -> None:
        if self._changed.statistics().tasks_waiting:
            self._changed.set()
            self._changed = trio.Event()

    def _close_excess(self) -> None:
        """Connections of listeners that are not protected go, those silent the longest first, until no more are open
        than the common limit."""
        open_ones = [(connections, limits()) for connections, limits in self._connections.values()]
        excess = max((self.total - limits.connections_max for _, limits in open_ones), default=0)
        if excess > 0:
            candidates = [
                connection
                for connections, limits in open_ones
                if not limits.is_protected
                for connection in connections.values()
            ]
            for connection in sorted(candidates, key=lambda connection: connection.last_active)[:excess]:
                connection.close()
