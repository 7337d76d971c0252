"""Kafka requests of the HTTP admin to other brokers, over kept connections.

A kept connection may be dead: its broker may have closed it as idle, or have stopped. So after a silence an ApiVersions
request is sent first. If that fails the connection is replaced, and no request was lost. A read-only request is sent
again if its connection closes before the response. A change is sent once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import trio

from kraft.common.broker_state import FENCED
from kraft.common.errors import ApiError
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.rpc_client.connection import ClientConnection, Disconnected, UnsupportedApi, open_connection
from kraft.server.http_admin.requests import CLIENT_ID
from kraft.world.ports import World

if TYPE_CHECKING:
    from kraft.server.node import Node

ANSWER_SECONDS_MAX: Final = 2.0
"""Timeout of a query, and of the connection for a change."""
CHANGE_SECONDS_MAX: Final = 35.0
"""Timeout of a change: longer than any timeout in its request."""
SILENCE_SECONDS_MAX: Final = 1.0
"""A connection that was idle for this time is checked before it is used."""
SLOWEST_BYTES_A_SECOND: Final = 1 << 20
"""The slowest rate at which requested records may arrive."""
KEPT_ALONE_MAX: Final = 4
"""Limit of idle connections to one broker for requests that need one of their own."""

QUESTIONS: Final = frozenset(
    {
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.OFFSET_FETCH,
        ApiKey.FIND_COORDINATOR,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.API_VERSIONS,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.LIST_CONFIG_RESOURCES,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    }
)
"""Requests that change nothing and may be repeated. All others are changes."""


class RemoteRequests:
    """Sends requests to brokers. Read-only requests to one broker share a connection. A request that may take long (a
    change, a read of records) has a connection of its own, because it would delay the requests behind it."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._shared: dict[int, _Line] = {}
        self._alone: dict[int, list[_Line]] = {}

    async def call(self, version: int, request: Any, node_id: int | None) -> Any:
        """Send a request to broker `node_id`, or to any live one.

        Raises ConnectionError if a read-only request was not answered or a change was certainly not carried out;
        TimeoutError and ApiError NETWORK_EXCEPTION if a change may have been; ApiError UNSUPPORTED_VERSION.
        """
        broker_id = self._any_broker() if node_id is None else node_id
        self._address(broker_id)  # First: only live brokers have lines.
        try:
            if request.API_KEY not in QUESTIONS:
                return await self._on_line_of_its_own(broker_id, version, request, self._change)
            if request.API_KEY == ApiKey.FETCH:
                return await self._on_line_of_its_own(broker_id, version, request, self._question)
            line = self._shared.get(broker_id)
            if line is None:
                line = self._shared[broker_id] = self._line_to(broker_id)
            return await self._question(line, broker_id, version, request)
        except Disconnected as problem:
            raise ConnectionError(f"broker {broker_id}: {problem}") from problem
        except UnsupportedApi as problem:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, str(problem)) from problem

    def close(self) -> None:
        """Close the connections."""
        for line in (*self._shared.values(), *(line for lines in self._alone.values() for line in lines)):
            line.close()

    async def _on_line_of_its_own(self, broker_id: int, version: int, request: Any, send: Callable[..., Any]) -> Any:
        lines = self._alone.setdefault(broker_id, [])
        line = next((each for each in lines if not each.is_taken), None)
        if line is None:
            line = self._line_to(broker_id)
            lines.append(line)
        line.is_taken = True
        try:
            return await send(line, broker_id, version, request)
        finally:
            line.is_taken = False
            if sum(not each.is_taken for each in lines) > KEPT_ALONE_MAX:
                lines.remove(line)
                line.close()

    async def _question(self, line: _Line, broker_id: int, version: int, request: Any) -> Any:
        seconds = ANSWER_SECONDS_MAX + _asked_for(request)
        with self._node.world.clock.move_on_after(seconds):
            connection = await self._ready(line, broker_id)
            try:
                return await line.call(connection, version, request, seconds)
            except Disconnected:
                if connection.is_open:
                    raise
            return await line.call(await self._ready(line, broker_id), version, request, seconds)
        raise ConnectionError(f"broker {broker_id} did not answer within {seconds:g} s")

    async def _change(self, line: _Line, broker_id: int, version: int, request: Any) -> Any:
        connection = await self._ready(line, broker_id)
        try:
            return await line.call(connection, version, request, CHANGE_SECONDS_MAX)
        except Disconnected as problem:
            raise ApiError(
                ErrorCode.NETWORK_EXCEPTION,
                f"broker {broker_id}: {problem}. It is unknown whether it executed the request",
            ) from problem

    async def _ready(self, line: _Line, broker_id: int) -> ClientConnection:
        """A connection that is ready for a request. Raises ConnectionError, Disconnected; nothing has been sent
        then."""
        with self._node.world.clock.move_on_after(ANSWER_SECONDS_MAX):
            return await line.ready()
        raise ConnectionError(f"broker {broker_id} did not answer within {ANSWER_SECONDS_MAX:g} s")

    def _line_to(self, broker_id: int) -> _Line:
        return _Line(self._node.world, lambda: self._address(broker_id))

    def _any_broker(self) -> int:
        for broker in self._node.shared.loader.image.cluster.brokers.values():
            if not broker.fenced:
                return broker.id
        raise ConnectionError("no live broker is known")

    def _address(self, node_id: int) -> tuple[str, int]:
        image = self._node.shared.loader.image
        broker = image.cluster.brokers.get(node_id)
        endpoint = None if broker is None else broker.endpoint(self._node.config.inter_broker_listener_name)
        if broker is None or endpoint is None:
            raise ConnectionError(
                f"broker {node_id} is not registered with the listener {self._node.config.inter_broker_listener_name}"
            )
        if broker.fenced and image.configs.desired_state(node_id) != FENCED:  # One that is meant to be fenced lives.
            raise ConnectionError(f"broker {node_id} is fenced")
        return endpoint.host, endpoint.port


class _Line:
    """A connection to one broker that is opened on demand, and reopened after it has closed."""

    def __init__(self, world: World, address: Callable[[], tuple[str, int]]) -> None:
        self._world = world
        self._address = address
        self._connection: ClientConnection | None = None
        self._opening = trio.Lock()
        self._heard = -math.inf
        self.is_taken = False

    async def ready(self) -> ClientConnection:
        """A connection on which the broker has answered just now. Raises ConnectionError, Disconnected."""
        async with self._opening:
            connection = self._connection
            if connection is None or not connection.is_open or not await self._answers(connection):
                host, port = self._address()
                connection = await open_connection(self._world, host, port, client_id=CLIENT_ID)
                self._connection, self._heard = connection, self._world.clock.now()
            return connection

    async def call(self, connection: ClientConnection, version: int, request: Any, seconds: float) -> Any:
        """Send a request. Raises Disconnected, TimeoutError."""
        answer = await connection.call(request, version=version, timeout=seconds)
        self._heard = self._world.clock.now()
        return answer

    async def _answers(self, connection: ClientConnection) -> bool:
        """Whether the broker still answers on the connection. If not, the connection is closed."""
        if self._world.clock.now() - self._heard <= SILENCE_SECONDS_MAX:
            return True
        try:
            await connection.negotiate()
        except Disconnected:
            return False
        except trio.Cancelled:
            connection.close()  # Its requests have waited too long. The next request opens a connection.
            raise
        self._heard = self._world.clock.now()
        return True

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def _asked_for(request: Any) -> float:
    """The additional seconds that a request may take because it waits for records, or reads many."""
    if request.API_KEY != ApiKey.FETCH:
        return 0.0
    return float(request.max_wait_ms) / 1000 + float(request.max_bytes) / SLOWEST_BYTES_A_SECOND
