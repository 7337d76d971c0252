"""Kafka requests of the HTTP admin: to this broker through its dispatcher, to others over the network."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any, Final

import trio

from kraft.client.connection import ClientConnection, Disconnected, UnsupportedApi, open_connection
from kraft.common.config.endpoints import Endpoint
from kraft.common.errors import ApiError, ProtocolError
from kraft.common.ids import ANONYMOUS
from kraft.handlers.dispatcher import RequestDispatcher
from kraft.handlers.errors import code_of
from kraft.handlers.registry import Registry
from kraft.network.cold_reads import ColdReads
from kraft.network.reply import FileRange, Peer, Reply
from kraft.protocol.api_keys import name_of
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.framing import SIZE_BYTES, decode_response, encode_request
from kraft.protocol.schema import Message
from kraft.world.ports import Threads

if TYPE_CHECKING:
    from kraft.common.logging import Logger
    from kraft.server.node import Node

CLIENT_ID: Final = "http-admin"
TIMEOUT_SECONDS: Final = 35.0
"""Longer than any wait that a request of the HTTP admin asks for."""
READ_AT_ONCE_BYTES: Final = 1 << 20


class LocalRequests:
    """Requests to this node's own broker, without a socket."""

    def __init__(
        self,
        dispatcher: RequestDispatcher,
        registry: Registry,
        listener: Endpoint,
        threads: Threads,
        log: Logger,
        principal: str = ANONYMOUS,
    ) -> None:
        """Answers that name addresses (Metadata, FindCoordinator) name those of `listener`. `principal` is who asks."""
        self._dispatcher = dispatcher
        self._registry = registry
        self._peer = Peer("127.0.0.1", listener.name, (listener.host, listener.port), principal)
        self._cold_reads = ColdReads(threads)
        self._log = log
        self._correlation_id = 0

    async def call(self, api_key: int, version: int, request: Message) -> Message:
        """Raises ApiError: UNSUPPORTED_VERSION for what is not served, KAFKA_STORAGE_ERROR when the answer's records
        cannot be read, UNKNOWN_SERVER_ERROR where a connection would be closed; ProtocolError for a request that
        cannot be encoded."""
        self.check_served(api_key, version)
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        frame = encode_request(api_key, version, self._correlation_id, CLIENT_ID, request)
        try:
            return await self._answer(api_key, version, memoryview(frame)[SIZE_BYTES:])
        except ProtocolError as problem:
            # What was asked could be encoded, so this is about the answer. The dispatcher has logged it.
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(problem)) from problem
        except OSError as problem:
            self._log.error("answer failed", api=name_of(api_key), reason=str(problem))
            raise ApiError(code_of(problem), f"what was asked for cannot be read: {problem}") from problem

    def check_served(self, api_key: int, version: int) -> None:
        """Raises ApiError UNSUPPORTED_VERSION for what this release does not serve. A broker that is asked for that
        over a socket closes the connection and says nothing."""
        handler = self._registry.get(api_key)
        if handler is None or not handler.min_version <= version <= handler.max_version:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"{name_of(api_key)} version {version} is not served here")

    async def _answer(self, api_key: int, version: int, frame: memoryview) -> Message:
        pending = self._dispatcher.dispatch(self._peer, frame)
        reply = pending if isinstance(pending, Reply) else await pending
        _, response = decode_response(api_key, version, memoryview(await self._bytes_of(reply))[SIZE_BYTES:])
        return response

    async def _bytes_of(self, reply: Reply) -> bytearray:
        """A whole reply frame. What would go from a file to the socket is read, by pieces, between which others have
        their turn."""
        whole = bytearray()
        for part in reply.parts:
            if not isinstance(part, FileRange):
                whole += part
                continue
            end = part.position + part.size
            for position in range(part.position, end, READ_AT_ONCE_BYTES):
                count = min(READ_AT_ONCE_BYTES, end - position)
                await self._cold_reads.until_resident(part.file, position, count)
                data = part.file.pread(count, position)
                if len(data) < count:
                    raise OSError(errno.EIO, f"{part.file.path} ends before byte {position + count}")
                whole += data
                await trio.lowlevel.checkpoint()
        return whole


class RemoteRequests:
    """Requests to other brokers, over one connection each. While that to one is opened, the others are asked."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._connections: dict[int, ClientConnection] = {}
        self._opening: dict[int, trio.Lock] = {}

    async def call(self, version: int, request: Any, node_id: int | None) -> Any:
        """To broker `node_id`, or to any live one. Raises ConnectionError, TimeoutError, ApiError
        UNSUPPORTED_VERSION."""
        wanted = self._any_broker() if node_id is None else node_id
        try:
            connection = await self._connection(wanted)
            return await connection.call(request, version=version, timeout=TIMEOUT_SECONDS)
        except Disconnected as problem:
            raise ConnectionError(f"broker {wanted}: {problem}") from problem
        except UnsupportedApi as problem:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, str(problem)) from problem

    def close(self) -> None:
        """End the connections."""
        for connection in self._connections.values():
            connection.close()

    def _any_broker(self) -> int:
        for broker in self._node.shared.loader.image.cluster.brokers.values():
            if not broker.fenced:
                return broker.id
        raise ConnectionError("no live broker is known")

    async def _connection(self, node_id: int) -> ClientConnection:
        host, port = self._address(node_id)  # First: only brokers that there are have a lock.
        async with self._opening.setdefault(node_id, trio.Lock()):
            connection = self._connections.get(node_id)
            if connection is None or not connection.is_open:
                connection = await open_connection(self._node.world, host, port, client_id=CLIENT_ID)
                self._connections[node_id] = connection
            return connection

    def _address(self, node_id: int) -> tuple[str, int]:
        broker = self._node.shared.loader.image.cluster.brokers.get(node_id)
        endpoint = None if broker is None else broker.endpoint(self._node.config.inter_broker_listener_name)
        if endpoint is None:
            raise ConnectionError(
                f"broker {node_id} is not registered with the listener {self._node.config.inter_broker_listener_name}"
            )
        return endpoint.host, endpoint.port
