"""A broker's connections to other brokers, for requests of coordinators and leaders (AddPartitionsToTxn,
WriteTxnMarkers, share states). One connection is kept open for each broker and purpose.

A node serves the requests of one connection in order, so each purpose has its own channel: a marker that waits for its
replicas then delays no verification.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import trio

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.rpc_client.connection import ClientConnection, Disconnected, open_connection
from kraft.world.ports import World

if TYPE_CHECKING:
    from kraft.metadata.image.cluster_image import BrokerRegistration
    from kraft.metadata.image.ordered_map import OrderedMap
    from kraft.protocol.schema import Message

CONNECT_SECONDS_MAX: Final = 10.0
"""Timeout of connecting, as Apache Kafka's socket.connection.setup.timeout.ms. A machine that is switched off does not
refuse a connection, but never responds."""

BrokerEndpoint = Callable[[int], tuple[str, int] | None]
"""Host and port of a broker's inter-broker listener; None where they are not known."""


class _Address(NamedTuple):
    """The address of one broker. Another broker may have used the same host and port before."""

    broker_id: int
    host: str
    port: int


class BrokerChannel:
    """The connections of one purpose to other brokers. Owned by the broker's loop; many tasks may use it."""

    def __init__(self, world: World, client_id: str, endpoint: BrokerEndpoint, timeout_s: float) -> None:
        """`timeout_s` limits one request, connecting included."""
        self._world = world
        self._client_id = client_id
        self._endpoint = endpoint
        self._timeout_s = timeout_s
        self._connections: dict[_Address, ClientConnection] = {}

    async def send(self, broker_id: int, request: Message, *, timeout_s: float | None = None) -> Any:
        """Send a request and return the broker's response. Raises ApiError BROKER_NOT_AVAILABLE if its address is
        unknown, Disconnected, TimeoutError, UnsupportedApi.

        The broker may have carried out a request that raises. A kept connection may belong to a process that no longer
        runs, which is noticed only by using it: the caller must retry.
        """
        endpoint = self._endpoint(broker_id)
        if endpoint is None:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"the address of broker {broker_id} is unknown")
        address = _Address(broker_id, *endpoint)
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        deadline = self._world.clock.now() + timeout_s
        connection: ClientConnection | None = None
        try:
            connection = await self._connect(address, min(timeout_s, CONNECT_SECONDS_MAX))
            return await connection.call(request, timeout=max(0.0, deadline - self._world.clock.now()))
        except (Disconnected, TimeoutError, trio.Cancelled):
            # What does not answer may lead nowhere any more: half-open.
            if connection is not None:
                self._forget(address, connection)
            raise

    def brokers_changed(
        self, changed: Mapping[int, BrokerRegistration | None], brokers: OrderedMap[int, BrokerRegistration]
    ) -> None:
        """Close the connections to brokers that are gone, fenced or restarted. `changed` has the earlier registrations
        of the changed brokers, `brokers` all registrations of now."""
        for broker_id, before in changed.items():
            now = brokers.get(broker_id)
            if now is None or now.fenced or before is None or before.epoch != now.epoch:
                self.disconnect(broker_id)

    def disconnect(self, broker_id: int) -> None:
        """Close the connections to a broker that has left service or restarted. They may be half-open: tasks that wait
        for a response get Disconnected now, not after the timeout."""
        for address in [address for address in self._connections if address.broker_id == broker_id]:
            self._connections.pop(address).close()

    def close(self) -> None:
        """Close every connection. Tasks that wait for a response get Disconnected."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    async def _connect(self, address: _Address, timeout_s: float) -> ClientConnection:
        connection = self._connections.get(address)
        if connection is None or not connection.is_open:
            opened = await open_connection(
                self._world, address.host, address.port, client_id=self._client_id, timeout=timeout_s
            )
            connection = self._connections.get(address)
            if connection is not None and connection.is_open:
                opened.close()  # Another task was faster. There is one connection for each address.
                return connection
            connection = self._connections[address] = opened
        return connection

    def _forget(self, address: _Address, broken: ClientConnection) -> None:
        broken.close()
        if self._connections.get(address) is broken:
            del self._connections[address]
