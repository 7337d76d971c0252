"""Connections whose clients have not logged in yet (SASL). Their number and time are limited.

Clients that connect and do not log in must not lock out others: if there are too many, the oldest are closed.
"""

from __future__ import annotations

from typing import Final

from kraft.network.limits import Closable
from kraft.world.ports import Clock

LOGINS_MAX: Final = 1000
LOGIN_SECONDS_MAX: Final = 30.0
LOOK_SECONDS: Final = 1.0


class Logins:
    """The pending logins of one listener. `message_bytes_max` (sasl.server.max.receive.size) limits a request before
    login."""

    __slots__ = ("_began", "_clock", "_count_max", "message_bytes_max")

    def __init__(self, clock: Clock, message_bytes_max: int, count_max: int = LOGINS_MAX) -> None:
        self._clock = clock
        self._count_max = count_max
        self._began: dict[Closable, float] = {}
        """Connections without a login, oldest first."""
        self.message_bytes_max = message_bytes_max

    def __len__(self) -> int:
        return len(self._began)

    def enter(self, connection: Closable) -> None:
        """Add a connection; the oldest is closed if there are too many."""
        if len(self._began) >= self._count_max:
            oldest = next(iter(self._began))
            del self._began[oldest]
            oldest.close()
        self._began[connection] = self._clock.now()

    def leave(self, connection: Closable) -> None:
        """Remove a connection that has logged in or closed. Idempotent."""
        self._began.pop(connection, None)

    async def run(self) -> None:
        """Close connections whose login takes too long, until cancelled."""
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            self.close_late()

    def close_late(self) -> None:
        latest = self._clock.now() - LOGIN_SECONDS_MAX
        for connection in [each for each, began in self._began.items() if began <= latest]:
            del self._began[connection]
            connection.close()
