"""Kafka requests of the HTTP admin to this node's own broker, through its dispatcher."""

from __future__ import annotations

import copy
import errno
from typing import TYPE_CHECKING, Final

import trio

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
from kraft.protocol.framing import SIZE_BYTES, decode_response_in_turns, encode_request
from kraft.protocol.schema import Message
from kraft.world.ports import Clock, Threads
from kraft.world.turns import in_turns

if TYPE_CHECKING:
    from kraft.common.logging import Logger

CLIENT_ID: Final = "http-admin"
LOCAL_HOST: Final = "127.0.0.1"
READ_AT_ONCE_BYTES: Final = 1 << 20
MUTED_SECONDS_MAX: Final = 30.0
"""The longest delay of a response to a caller over quota."""


class LocalRequests:
    """Requests to this node's own broker, without a socket."""

    def __init__(
        self,
        dispatcher: RequestDispatcher,
        registry: Registry,
        listener: Endpoint,
        threads: Threads,
        log: Logger,
        clock: Clock,
    ) -> None:
        """Addresses in responses (Metadata, FindCoordinator) are those of `listener`."""
        self._clock = clock
        self._dispatcher = dispatcher
        self._registry = registry
        self._listener = listener
        self._peer = self._peer_at(LOCAL_HOST, ANONYMOUS)
        self._cold_reads = ColdReads(threads)
        self._log = log
        self._correlation_id = 0

    def of_caller(self, principal: str, host: str, *, has_logged_in: bool) -> LocalRequests:
        """A copy of this object whose requests come from `principal` at `host`."""
        asked = copy.copy(self)
        asked._peer = self._peer_at(host, principal)
        asked._peer.has_logged_in = has_logged_in
        return asked

    def _peer_at(self, host: str, principal: str) -> Peer:
        return Peer(host, self._listener.name, (self._listener.host, self._listener.port), principal)

    async def call(self, api_key: int, version: int, request: Message) -> Message:
        """Serve a request, and return the response.

        Raises ApiError: UNSUPPORTED_VERSION for an API or version that is not served, KAFKA_STORAGE_ERROR if the
        response's records cannot be read, UNKNOWN_SERVER_ERROR if the broker would close the connection. Raises
        ProtocolError for a request that cannot be encoded.
        """
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
            raise ApiError(code_of(problem), f"the requested data cannot be read: {problem}") from problem

    def check_served(self, api_key: int, version: int) -> None:
        """Raises ApiError UNSUPPORTED_VERSION for an API or version that this release does not serve. On a socket the
        broker would close the connection without a response."""
        handler = self._registry.get(api_key)
        if handler is None or not handler.min_version <= version <= handler.max_version:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"{name_of(api_key)} version {version} is not supported")

    async def _answer(self, api_key: int, version: int, frame: memoryview) -> Message:
        pending = self._dispatcher.dispatch(self._peer, frame)
        reply = pending if isinstance(pending, Reply) else await pending
        answer = memoryview(await self._bytes_of(reply))[SIZE_BYTES:]
        if reply.throttle_ms:
            await self._clock.sleep(min(reply.throttle_ms / 1000, MUTED_SECONDS_MAX))
        _, response = await in_turns(decode_response_in_turns(api_key, version, answer))
        return response

    async def _bytes_of(self, reply: Reply) -> bytearray:
        """The whole reply frame. File ranges are read in pieces, yielding to other tasks between them."""
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
