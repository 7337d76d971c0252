"""A request under way whose answer may be waited for in several goes."""

from __future__ import annotations

from typing import Any

from kraft.client.connection import ClientConnection, Pending
from kraft.world.ports import Clock


class PendingCall:
    """Made by `Cluster.begin`. Only time that somebody waits counts against its timeout: nobody else reads from a
    connection."""

    def __init__(self, connection: ClientConnection, pending: Pending, clock: Clock, seconds: float) -> None:
        self._connection = connection
        self._pending = pending
        self._clock = clock
        self._seconds_left = seconds

    async def wait(self) -> Any:
        """The answer. Whoever is cancelled meanwhile may wait again. Raises Disconnected, TimeoutError,
        ProtocolError."""
        began = self._clock.now()
        answer = None
        try:
            with self._clock.move_on_after(self._seconds_left):
                answer = await self._connection.finish(self._pending)
        finally:
            self._seconds_left -= self._clock.now() - began
        if answer is None:
            self.abandon()
            self._connection.close()  # It may lead nowhere any more.
            raise TimeoutError("a request was not answered in time")
        return answer

    def abandon(self) -> None:
        """Nobody wants the answer any more."""
        self._connection.abandon(self._pending)
