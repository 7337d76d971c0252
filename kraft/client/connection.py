"""One connection to a node: versions negotiated, requests pipelined, answers matched by correlation id.

There is no background task: whoever waits for an answer reads for all, and hands the reading on when its own answer has come.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from kraft.common.errors import KraftError
from kraft.protocol import api_keys
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.framing import encode_request
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.api_versions_response import ApiVersionsResponse
from kraft.protocol.primitives import skip_tagged_fields
from kraft.world.ports import Stream, World

RECEIVE_BYTES = 64 * 1024
RESPONSE_BYTES_MAX = 1 << 30


class Disconnected(KraftError):
    """The connection broke, or never came about. What was under way may or may not have happened."""


class UnsupportedApi(KraftError):
    """The node does not serve this API in any version that we know."""


class _Waiter:
    __slots__ = ("event", "frame")

    def __init__(self) -> None:
        self.event = trio.Event()
        self.frame: memoryview | None = None


class ClientConnection:
    """Made by `connect`. May be used by many tasks at once."""

    def __init__(self, world: World, stream: Stream, client_id: str) -> None:
        self._clock = world.clock
        self._stream = stream
        self._client_id = client_id
        self._correlation_id = 0
        self._waiters: dict[int, _Waiter] = {}
        self._buffer = bytearray()
        self._scratch = memoryview(bytearray(RECEIVE_BYTES))
        self._reading = False
        self._sending = trio.Lock()
        self._broken: Disconnected | None = None
        self.versions: dict[int, tuple[int, int]] = {}
        self.features: dict[str, int] = {}

    async def negotiate(self) -> None:
        """Learn the node's versions (KIP-511). Raises Disconnected."""
        version = 3
        request = ApiVersionsRequest(client_software_name="kraft", client_software_version="1")
        response: ApiVersionsResponse = await self.call(request, version=version)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            raise Disconnected("the node does not answer ApiVersions version 3")
        self.versions = {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys}
        self.features = {feature.name: feature.max_version_level for feature in response.finalized_features}

    def version_of(self, key: int) -> int:
        """The highest version that both sides know. Raises UnsupportedApi."""
        ours = api_keys.request_class(key).VALID_VERSIONS
        theirs = self.versions.get(key)
        if theirs is None or min(ours[1], theirs[1]) < max(ours[0], theirs[0]):
            raise UnsupportedApi(f"the node serves {api_keys.name_of(key)} in {theirs or 'no version'}, we know {ours[0]} to {ours[1]}")
        return min(ours[1], theirs[1])

    async def call(self, request: Any, *, version: int | None = None, timeout: float = 30.0) -> Any:
        """Send `request` and wait for its answer. Raises Disconnected, TimeoutError after `timeout` seconds, UnsupportedApi, ProtocolError."""
        key = request.API_KEY
        if version is None:
            version = self.version_of(key)
        waiter = _Waiter()
        with self._clock.move_on_after(timeout):
            correlation_id = await self._send(key, version, request, waiter)
            try:
                await self._receive(waiter)
            finally:
                self._waiters.pop(correlation_id, None)
        if waiter.frame is None:
            raise TimeoutError(f"{api_keys.name_of(key)} was not answered within {timeout:g} s")
        position = 4 if api_keys.response_header_version(key, version) == 0 else skip_tagged_fields(waiter.frame, 4)
        return api_keys.response_class(key).decode(waiter.frame[position:], version)

    async def send_only(self, request: Any, *, version: int | None = None) -> None:
        """Send a request that is not answered (Produce with acks=0)."""
        key = request.API_KEY
        await self._write(encode_request(key, version if version is not None else self.version_of(key), self._next_id(), self._client_id, request))

    def close(self) -> None:
        self._break(Disconnected("the connection is closed"))

    @property
    def is_open(self) -> bool:
        return self._broken is None

    def _next_id(self) -> int:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        return self._correlation_id

    async def _send(self, key: int, version: int, request: Any, waiter: _Waiter) -> int:
        correlation_id = self._next_id()
        frame = encode_request(key, version, correlation_id, self._client_id, request)
        self._waiters[correlation_id] = waiter
        try:
            await self._write(frame)
        except BaseException:
            self._waiters.pop(correlation_id, None)
            raise
        return correlation_id

    async def _write(self, frame: bytes) -> None:
        if self._broken is not None:
            raise self._broken
        async with self._sending:
            try:
                await self._stream.send_all((frame,))
            except OSError as problem:
                failure = Disconnected(f"sending failed: {problem}")
                self._break(failure)
                raise failure from problem
            except trio.Cancelled:
                self._break(Disconnected("a request was abandoned half sent"))
                raise

    async def _receive(self, waiter: _Waiter) -> None:
        while waiter.frame is None:
            if self._broken is not None:
                raise self._broken
            if self._reading:
                try:
                    await waiter.event.wait()
                except trio.Cancelled:
                    self._refuse_reading(waiter)
                    raise
                waiter.event = trio.Event()
                continue
            self._reading = True
            try:
                await self._read_some()
            finally:
                self._reading = False
                self._hand_on(waiter)

    def _hand_on(self, me: _Waiter) -> None:
        """If my answer is here, somebody else must go on reading."""
        for waiter in self._waiters.values():
            if waiter is not me and waiter.frame is None:
                waiter.event.set()
                return

    def _refuse_reading(self, me: _Waiter) -> None:
        """I give up; the reading may have been handed to me at this very moment."""
        if not self._reading:
            self._hand_on(me)

    async def _read_some(self) -> None:
        stream = self._stream
        try:
            count = stream.receive_nowait(self._scratch)
            while count is None:
                await stream.wait_readable()
                count = stream.receive_nowait(self._scratch)
        except OSError as problem:
            self._break(Disconnected(f"receiving failed: {problem}"))
            return
        if count == 0:
            self._break(Disconnected("the node closed the connection"))
            return
        self._buffer += self._scratch[:count]
        self._frames()

    def _frames(self) -> None:
        buffer = self._buffer
        position = 0
        while len(buffer) - position >= 4:
            (size,) = struct.unpack_from(">i", buffer, position)
            if not 4 <= size <= RESPONSE_BYTES_MAX:
                self._break(Disconnected(f"the node sent a frame of {size} bytes"))
                return
            if len(buffer) - position - 4 < size:
                break
            frame = memoryview(bytes(buffer[position + 4 : position + 4 + size]))
            position += 4 + size
            (correlation_id,) = struct.unpack_from(">i", frame)
            waiter = self._waiters.get(correlation_id)
            if waiter is not None:
                waiter.frame = frame
                waiter.event.set()
        del buffer[:position]

    def _break(self, why: Disconnected) -> None:
        if self._broken is None:
            self._broken = why
            self._stream.close()
            for waiter in self._waiters.values():
                waiter.event.set()


@asynccontextmanager
async def connect(world: World, host: str, port: int, *, client_id: str = "kraft", timeout: float = 10.0) -> AsyncIterator[ClientConnection]:
    """A connection with its versions negotiated, closed on the way out. Raises Disconnected, TimeoutError."""
    connection = await open_connection(world, host, port, client_id=client_id, timeout=timeout)
    try:
        yield connection
    finally:
        connection.close()


async def open_connection(world: World, host: str, port: int, *, client_id: str = "kraft", timeout: float = 10.0) -> ClientConnection:
    """As `connect`, but the caller closes. Raises Disconnected (its cause tells a refusal from other failures), TimeoutError."""
    connection: ClientConnection | None = None
    with world.clock.move_on_after(timeout):
        try:
            stream = await world.network.connect(host, port)
        except OSError as problem:
            raise Disconnected(f"{host}:{port} cannot be reached: {problem}") from problem
        connection = ClientConnection(world, stream, client_id)
        try:
            await connection.negotiate()
        except BaseException:
            connection.close()
            raise
        return connection
    raise TimeoutError(f"{host}:{port} did not accept a connection within {timeout:g} s")
