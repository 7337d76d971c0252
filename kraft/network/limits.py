"""How many connections and bytes a listener takes, and the count of what it has."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """`max.connections`, `max.connections.per.ip` (+ `.overrides`), `socket.request.max.bytes`, `queued.max.request.bytes`, `connections.max.idle.ms`."""

    connections_max: int = 2**31 - 1
    connections_per_ip_max: int = 2**31 - 1
    connections_per_ip_overrides: dict[str, int] = field(default_factory=dict)
    request_bytes_max: int = 104_857_600
    queued_request_bytes_max: int = 268_435_456
    idle_seconds_max: float = 600.0


class ConnectionCounts:
    """Open connections, in all and by address. One for all listeners of a node."""

    __slots__ = ("by_host", "refused", "total")

    def __init__(self) -> None:
        self.total = 0
        self.by_host: dict[str, int] = {}
        self.refused = 0

    def refusal(self, host: str, limits: ConnectionLimits) -> str | None:
        """Why a connection from `host` cannot be taken now, or None."""
        if self.total >= limits.connections_max:
            return f"max.connections={limits.connections_max} reached"
        per_ip = limits.connections_per_ip_overrides.get(host, limits.connections_per_ip_max)
        if self.by_host.get(host, 0) >= per_ip:
            return f"max.connections.per.ip={per_ip} reached for {host}"
        return None

    def opened(self, host: str) -> None:
        self.total += 1
        self.by_host[host] = self.by_host.get(host, 0) + 1

    def closed(self, host: str) -> None:
        self.total -= 1
        left = self.by_host[host] - 1
        if left:
            self.by_host[host] = left
        else:
            del self.by_host[host]
