"""A request in flight whose response may be awaited repeatedly."""

from __future__ import annotations

from typing import Any

from kraft.rpc_client.connection import ClientConnection, Pending
from kraft.world.ports import Clock


class PendingCall:
    """A call started by `Cluster.begin`. Only time spent waiting counts against its timeout, because a connection is
    read only by waiting tasks."""

    def __init__(self, connection: ClientConnection, pending: Pending, clock: Clock, seconds: float) -> None:
        self._connection = connection
        self._pending = pending
        self._clock = clock
        self._seconds_left = seconds

    async def wait(self) -> Any:
        """Wait for the response. May be repeated if cancelled. Raises Disconnected, TimeoutError, ProtocolError."""
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
        """Discard the response when it arrives."""
        self._connection.abandon(self._pending)
