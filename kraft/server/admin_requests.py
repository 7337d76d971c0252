"""Kafka requests of the HTTP admin: to this broker through its dispatcher, to others over the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import trio

from kraft.client.connection import ClientConnection, Disconnected, UnsupportedApi, open_connection
from kraft.common.config.endpoints import Endpoint
from kraft.common.errors import ApiError
from kraft.handlers.dispatcher import RequestDispatcher
from kraft.handlers.registry import Registry
from kraft.network.reply import FileRange, Peer, Reply
from kraft.protocol.api_keys import name_of
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.framing import SIZE_BYTES, decode_response, encode_request
from kraft.protocol.schema import Message

if TYPE_CHECKING:
    from kraft.server.node import Node

CLIENT_ID: Final = "http-admin"
TIMEOUT_SECONDS: Final = 35.0
"""Longer than any wait that a request of the HTTP admin asks for."""


class LocalRequests:
    """Requests to this node's own broker, without a socket."""

    def __init__(self, dispatcher: RequestDispatcher, registry: Registry, listener: Endpoint) -> None:
        """Answers that name addresses (Metadata, FindCoordinator) name those of `listener`."""
        self._dispatcher = dispatcher
        self._registry = registry
        self._peer = Peer("127.0.0.1", listener.name, (listener.host, listener.port))
        self._correlation_id = 0

    async def call(self, api_key: int, version: int, request: Message) -> Message:
        """Raises ApiError UNSUPPORTED_VERSION for what is not served, ProtocolError for what cannot be encoded."""
        handler = self._registry.get(api_key)
        if handler is None or not handler.min_version <= version <= handler.max_version:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"{name_of(api_key)} version {version} is not served here")
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        frame = encode_request(api_key, version, self._correlation_id, CLIENT_ID, request)
        pending = self._dispatcher.dispatch(self._peer, memoryview(frame)[SIZE_BYTES:])
        reply = pending if isinstance(pending, Reply) else await pending
        _, response = decode_response(api_key, version, memoryview(_bytes_of(reply))[SIZE_BYTES:])
        return response


def _bytes_of(reply: Reply) -> bytes:
    """A whole reply frame; what would go from a file to the socket is read."""
    return b"".join(part.file.pread(part.size, part.position) if isinstance(part, FileRange) else part for part in reply.parts)


class RemoteRequests:
    """Requests to other brokers, over one connection each."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._connections: dict[int, ClientConnection] = {}
        self._opening = trio.Lock()

    async def call(self, version: int, request: Any, node_id: int | None) -> Any:
        """To broker `node_id`, or to any live one. Raises ConnectionError, TimeoutError, ApiError UNSUPPORTED_VERSION."""
        wanted = self._any_broker() if node_id is None else node_id
        try:
            connection = await self._connection(wanted)
            return await connection.call(request, version=version, timeout=TIMEOUT_SECONDS)
        except Disconnected as problem:
            raise ConnectionError(f"broker {wanted}: {problem}") from problem
        except UnsupportedApi as problem:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, str(problem)) from problem

    def _any_broker(self) -> int:
        for broker in self._node.shared.loader.image.cluster.brokers.values():
            if not broker.fenced:
                return broker.id
        raise ConnectionError("no live broker is known")

    async def _connection(self, node_id: int) -> ClientConnection:
        async with self._opening:
            connection = self._connections.get(node_id)
            if connection is None or not connection.is_open:
                host, port = self._address(node_id)
                connection = await open_connection(self._node.world, host, port, client_id=CLIENT_ID)
                self._connections[node_id] = connection
            return connection

    def _address(self, node_id: int) -> tuple[str, int]:
        broker = self._node.shared.loader.image.cluster.brokers.get(node_id)
        endpoint = None if broker is None else broker.endpoint(self._node.config.inter_broker_listener_name)
        if endpoint is None:
            raise ConnectionError(f"broker {node_id} is not registered with the listener {self._node.config.inter_broker_listener_name}")
        return endpoint.host, endpoint.port
