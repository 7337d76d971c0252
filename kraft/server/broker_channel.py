"""A broker's way to other brokers, for what coordinators and leaders ask of each other (AddPartitionsToTxn,
WriteTxnMarkers). One kept connection for each broker and purpose.

A node serves the requests of one connection in turn, so each purpose has a channel of its own: a marker that waits
for its replicas holds up no verification.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import trio

from kraft.client.connection import ClientConnection, Disconnected, open_connection
from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.world.ports import World

if TYPE_CHECKING:
    from kraft.protocol.schema import Message

BrokerEndpoint = Callable[[int], tuple[str, int] | None]
"""Host and port of a broker's inter-broker listener; None where they are not known."""


class BrokerChannel:
    """Owned by the broker's loop; may be used by many tasks."""

    def __init__(self, world: World, client_id: str, endpoint: BrokerEndpoint, timeout_s: float) -> None:
        """`timeout_s` is for one request, connecting included."""
        self._world = world
        self._client_id = client_id
        self._endpoint = endpoint
        self._timeout_s = timeout_s
        self._connections: dict[tuple[str, int], ClientConnection] = {}

    async def send(self, broker_id: int, request: Message, *, timeout_s: float | None = None) -> Any:
        """The broker's answer. Raises ApiError BROKER_NOT_AVAILABLE where its address is not known, Disconnected,
        TimeoutError, UnsupportedApi.

        A request may have been carried out although its answer did not come. A kept connection may lead to a process
        that is gone, which only its use shows: the caller tries again.
        """
        endpoint = self._endpoint(broker_id)
        if endpoint is None:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"no address of broker {broker_id} is known")
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        deadline = self._world.clock.now() + timeout_s
        connection: ClientConnection | None = None
        try:
            connection = await self._connect(endpoint, timeout_s)
            return await connection.call(request, timeout=max(0.0, deadline - self._world.clock.now()))
        except (Disconnected, TimeoutError, trio.Cancelled):
            # What does not answer may lead nowhere any more: half-open.
            if connection is not None:
                self._forget(endpoint, connection)
            raise

    def close(self) -> None:
        """Close every connection. Whoever waits for an answer is told Disconnected."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    async def _connect(self, endpoint: tuple[str, int], timeout_s: float) -> ClientConnection:
        connection = self._connections.get(endpoint)
        if connection is None or not connection.is_open:
            opened = await open_connection(self._world, *endpoint, client_id=self._client_id, timeout=timeout_s)
            connection = self._connections.get(endpoint)
            if connection is not None and connection.is_open:
                opened.close()  # Somebody else was faster; one connection for each address.
                return connection
            connection = self._connections[endpoint] = opened
        return connection

    def _forget(self, endpoint: tuple[str, int], broken: ClientConnection) -> None:
        broken.close()
        if self._connections.get(endpoint) is broken:
            del self._connections[endpoint]
