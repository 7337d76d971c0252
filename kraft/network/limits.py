"""Limits on the connections and request bytes of a listener, and their counters.

As in Kafka, a connection beyond the limit of its listener or of all listeners waits until another closes, and so do
later ones. A connection beyond its address's limit is closed. The inter-broker listener is exempt from waiting for the
common limit: the longest idle connection of another listener is closed instead, so that clients cannot block
replication.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import trio


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """The limits of one listener, from Kafka's keys: `max.connections`, for all listeners and for one,
    `max.connections.per.ip` (+ `.overrides`), `socket.request.max.bytes`, `queued.max.request.bytes`,
    `connections.max.idle.ms`."""

    connections_max: int = 2**31 - 1
    listener_connections_max: int = 2**31 - 1
    is_protected: bool = False
    """Whether this is the inter-broker listener, and the node has other listeners too."""
    creation_rate_max: int = 2**31 - 1
    """max.connection.creation.rate: new connections a second on all unprotected listeners."""
    listener_creation_rate_max: int = 2**31 - 1
    """max.connection.creation.rate of this listener: new connections a second."""
    connections_per_ip_max: int = 2**31 - 1
    connections_per_ip_overrides: dict[str, int] = field(default_factory=dict)
    request_bytes_max: int = 104_857_600
    queued_request_bytes_max: int = 268_435_456
    frame_progress_seconds: float = 2.0
    """Interval of progress checks of incomplete frames while other frames wait for memory."""
    idle_seconds_max: float = 600.0


class ConnectionPace(Protocol):
    """The connection rate limits."""

    def delay(self, listener: str, limits: ConnectionLimits) -> float:
        """Count a connection of a listener, from any address. Returns how many seconds it must wait."""

    def give_back(self, listener: str, limits: ConnectionLimits) -> None:
        """Undo the count of a connection that is not accepted."""

    def connect(self, address: str, listener: str) -> float:
        """Count a connection from `address`, unless it exceeds the rate. Returns how many seconds too early it is, else
        0."""


class Closable(Protocol):
    """An open connection that may be closed in favor of another."""

    last_active: float

    def close(self) -> None: ...


class ConnectionCounts:
    """Open connections in total, by listener and by address. Shared by all listeners of a broker or controller."""

    __slots__ = ("_changed", "_connections", "by_host", "by_listener", "refused", "total")

    def __init__(self) -> None:
        self.total = 0
        self.by_host: dict[str, int] = {}
        self.by_listener: dict[str, int] = {}
        self.refused = 0
        self._connections: dict[str, tuple[Mapping[int, Closable], Callable[[], ConnectionLimits]]] = {}
        self._changed = trio.Event()

    def join(self, listener: str, connections: Mapping[int, Closable], limits: Callable[[], ConnectionLimits]) -> None:
        """Add a listener to the common limit. `connections` is its live table of open connections."""
        self._connections[listener] = (connections, limits)
        self.by_listener[listener] = 0

    async def until_room(self, listener: str) -> None:
        """Return once the listener may open another connection."""
        _, limits = self._connections[listener]
        while not self._has_room(listener, limits()):
            await self._changed.wait()

    def _has_room(self, listener: str, limits: ConnectionLimits) -> bool:
        return self.by_listener[listener] < limits.listener_connections_max and (
            limits.is_protected or self.total < limits.connections_max
        )

    def refusal(self, host: str, limits: ConnectionLimits) -> str | None:
        """Why a connection from `host` must be refused, or None."""
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
        """Apply changed limits: close excess connections and wake waiting listeners."""
        self._close_excess()
        self._wake()

    def _wake(self) -> None:
        if self._changed.statistics().tasks_waiting:
            self._changed.set()
            self._changed = trio.Event()

    def _close_excess(self) -> None:
        """Close connections of unprotected listeners, longest idle first, until the common limit is met."""
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
