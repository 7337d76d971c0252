"""One connection to a node: versions negotiated, requests pipelined, responses matched by correlation id.

There is no background task. A task that waits for a response reads for all waiting tasks, and passes the reading on
when its own response has arrived. A large response is received into its own buffer, without a copy. A caller that has
finished with it can return that buffer for the next response (`recycle`).
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import trio

from kraft.common.errors import KraftError, ProtocolError
from kraft.network.connection_protocol import FrameAssembler
from kraft.protocol import api_keys
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.framing import encode_request
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.api_versions_response import ApiVersionsResponse
from kraft.protocol.primitives import skip_tagged_fields
from kraft.rpc_client.errors import LoginFailed
from kraft.rpc_client.login import log_in
from kraft.world.hosts import TlsHandshakeFailed
from kraft.world.memory import LargeBuffer, new_buffer
from kraft.world.ports import Stream, World

RECEIVE_BYTES = 64 * 1024
RESPONSE_BYTES_MAX = 1 << 30
AT_ONCE_BYTES = 16 << 20
"""A buffer of at most this size is allocated at once. The buffer of a larger response grows as the data arrives."""
SPARE_BYTES_MAX = 8 << 20
CORRELATION_BYTES = 4
RENEWED_AFTER: Final = 0.8
"""The share of the session lifetime after which the session is renewed."""
_LOGIN_KEYS: Final = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


class Disconnected(KraftError):
    """Raised when a connection broke or could not be opened. Requests in flight may or may not have been executed."""


class NotAdmitted(Disconnected):
    """Raised when client and node cannot work together as configured, so that retries are useless. Either the login is
    rejected, the node lacks its mechanism, TLS fails, or the node is older than all supported versions."""


class UnsupportedApi(KraftError):
    """Raised when the node does not serve this API in any version that the client supports."""


class Pending:
    """A request in flight whose response will be awaited."""

    __slots__ = ("correlation_id", "event", "frame", "is_awaited", "key", "version")

    def __init__(self, key: int, version: int) -> None:
        self.key, self.version, self.correlation_id = key, version, 0
        self.event = trio.Event()
        self.frame: memoryview | None = None
        self.is_awaited = True


class ClientConnection:
    """One connection, opened by `connect`. Many tasks may use it at the same time."""

    def __init__(self, world: World, stream: Stream, client_id: str) -> None:
        self._world = world
        self._clock = world.clock
        self._stream = stream
        self._client_id = client_id
        self._correlation_id = 0
        self._waiters: dict[int, Pending] = {}
        self._assembler = FrameAssembler(
            RESPONSE_BYTES_MAX, self._buffer_of, self._keep, step=lambda: AT_ONCE_BYTES, limit="what a client takes"
        )
        self._spare: LargeBuffer | None = None
        self._scratch = memoryview(bytearray(RECEIVE_BYTES))
        self._reading = False
        self._sending = trio.Lock()
        self._broken: Disconnected | None = None
        self._renewing = trio.Lock()
        self._session_ends = math.inf
        self.versions: dict[int, tuple[int, int]] = {}
        self.features: dict[str, int] = {}

    async def negotiate(self) -> None:
        """Request the node's API versions (KIP-511). Raises Disconnected, NotAdmitted."""
        version = 3
        request = ApiVersionsRequest(client_software_name="kraft", client_software_version="1")
        response: ApiVersionsResponse = await self.call(request, version=version)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            raise NotAdmitted("the node does not answer ApiVersions version 3")
        self.versions = {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys}
        self.features = {feature.name: feature.max_version_level for feature in response.finalized_features}

    async def log_in(self) -> None:
        """Authenticate, if a login is configured. Raises Disconnected, NotAdmitted, and closes the connection then."""
        login = self._world.login
        if login is None:
            return
        self._session_ends = math.inf
        try:
            lasts_ms = await log_in(self, login, self._world)
        except LoginFailed as problem:
            kind = Disconnected if problem.may_pass else NotAdmitted
            failure = kind(f"the login{f' as {login.username}' * bool(login.username)} failed: {problem}")
            self._break(failure)
            raise failure from problem
        except BaseException:
            self._break(Disconnected("a login was abandoned half way"))  # The node takes nothing but its rest now.
            raise
        if lasts_ms:
            self._session_ends = self._clock.now() + lasts_ms / 1000 * RENEWED_AFTER

    async def _renew_session(self) -> None:
        """Authenticate again before the node closes the connection (KIP-368). No other request is sent meanwhile."""
        async with self._renewing:
            if self._session_is_over:
                await self.log_in()

    @property
    def _session_is_over(self) -> bool:
        return self._session_ends != math.inf and self._clock.now() >= self._session_ends

    def version_of(self, key: int) -> int:
        """Return the highest version that both sides support. Raises UnsupportedApi."""
        ours = api_keys.request_class(key).VALID_VERSIONS
        theirs = self.versions.get(key)
        if theirs is None or min(ours[1], theirs[1]) < max(ours[0], theirs[0]):
            raise UnsupportedApi(
                f"the node serves {api_keys.name_of(key)} in {theirs or 'no version'}, we know {ours[0]} to {ours[1]}"
            )
        return min(ours[1], theirs[1])

    async def call(self, request: Any, *, version: int | None = None, timeout: float = 30.0) -> Any:
        """Send `request` and wait for its response. Raises Disconnected, TimeoutError after `timeout` seconds,
        UnsupportedApi, ProtocolError."""
        return (await self.exchange(request, version=version, timeout=timeout))[0]

    async def exchange(
        self, request: Any, *, version: int | None = None, timeout: float = 30.0
    ) -> tuple[Any, memoryview]:
        """Call as `call` does, and also return the frame of the response. The response's records are views of the
        frame."""
        key = request.API_KEY
        if version is None:
            version = self.version_of(key)
        waiter = Pending(key, version)
        with self._clock.move_on_after(timeout):
            correlation_id = await self._send(key, version, request, waiter)
            try:
                await self._receive(waiter)
            finally:
                self._waiters.pop(correlation_id, None)
        frame = waiter.frame
        if frame is None:
            raise TimeoutError(f"{api_keys.name_of(key)} was not answered within {timeout:g} s")
        return _decode(key, version, frame), frame

    async def begin(self, request: Any, *, version: int | None = None) -> Pending:
        """Send `request`; `finish` waits for its response. Raises Disconnected, UnsupportedApi."""
        pending = Pending(request.API_KEY, self.version_of(request.API_KEY) if version is None else version)
        # Set before the send: reading must not be passed on to a request that no task awaits.
        pending.is_awaited = False
        pending.correlation_id = await self._send(pending.key, pending.version, request, pending)
        return pending

    async def finish(self, pending: Pending) -> Any:
        """Wait for the response. A cancelled caller may call it again later, or call `abandon`. Raises Disconnected,
        ProtocolError."""
        pending.is_awaited = True
        try:
            await self._receive(pending)
        finally:
            pending.is_awaited = False
        self.abandon(pending)
        assert pending.frame is not None, "it has been received"
        return _decode(pending.key, pending.version, pending.frame)

    def abandon(self, pending: Pending) -> None:
        """Discard the response when it arrives."""
        self._waiters.pop(pending.correlation_id, None)

    def recycle(self, frame: memoryview) -> None:
        """Reuse the frame's buffer for a later response. Neither the frame nor a view of it may be used any more."""
        if type(frame.obj) is not bytes:
            self._keep(frame.obj, len(frame))  # type: ignore[arg-type]  # Then the view's owner is a buffer of ours.

    def _keep(self, buffer: LargeBuffer, _: int) -> None:
        if len(buffer) <= SPARE_BYTES_MAX and (self._spare is None or len(self._spare) < len(buffer)):
            self._spare = buffer

    def _buffer_of(self, size: int) -> LargeBuffer:
        """Return the spare buffer if it is large enough and at most four times too large, else a new one. A larger
        spare is kept for a larger response."""
        spare = self._spare
        if spare is None or not size <= len(spare) <= 4 * size:
            return new_buffer(size)
        self._spare = None
        return spare

    async def send_only(self, request: Any, *, version: int | None = None) -> None:
        """Send a request that has no response (Produce with acks=0)."""
        key = request.API_KEY
        await self._write(
            encode_request(
                key, version if version is not None else self.version_of(key), self._next_id(), self._client_id, request
            )
        )

    def close(self) -> None:
        self._break(Disconnected("the connection is closed"))

    @property
    def is_open(self) -> bool:
        return self._broken is None

    def _next_id(self) -> int:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        return self._correlation_id

    async def _send(self, key: int, version: int, request: Any, waiter: Pending) -> int:
        if key not in _LOGIN_KEYS and (self._renewing.locked() or self._session_is_over):
            await self._renew_session()
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
        try:
            self._sending.acquire_nowait()  # Others are served only where another request is being sent.
        except trio.WouldBlock:
            await self._sending.acquire()
        try:
            await self._stream.send_all((frame,))
        except OSError as problem:
            failure = _failure(problem, f"sending failed: {problem}")
            self._break(failure)
            raise failure from problem
        except trio.Cancelled:
            self._break(Disconnected("a request was abandoned half sent"))
            raise
        finally:
            self._sending.release()

    async def _receive(self, waiter: Pending) -> None:
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

    def _hand_on(self, me: Pending) -> None:
        """Wake another waiting task to read, after this task's response has arrived."""
        for waiter in self._waiters.values():
            if waiter is not me and waiter.frame is None and waiter.is_awaited:
                waiter.event.set()
                return

    def _refuse_reading(self, me: Pending) -> None:
        """Pass the reading on, in case this task was chosen to read just as it stopped waiting."""
        if not self._reading:
            self._hand_on(me)

    async def _read_some(self) -> None:
        stream, assembler = self._stream, self._assembler
        target = assembler.target()
        buffer = self._scratch if target is None else target
        try:
            count = stream.receive_nowait(buffer)
            while count is None:
                await stream.wait_readable(assembler.expected)
                count = stream.receive_nowait(buffer)
        except OSError as problem:
            self._break(_failure(problem, f"receiving failed: {problem}"))
            return
        if count == 0:
            self._break(Disconnected("the node closed the connection"))
        elif target is None:
            self._receive_copy(self._scratch[:count])
        elif (whole := assembler.received(count)) is not None:
            self._answered(whole)

    def _receive_copy(self, chunk: memoryview) -> None:
        try:
            frames = self._assembler.feed(chunk)
        except ProtocolError as problem:
            self._break(Disconnected(f"what the node sent is no answer: {problem}"))
            return
        for frame in frames:
            self._answered(frame if frame.obj is not self._scratch.obj else memoryview(bytes(frame)))

    def _answered(self, frame: memoryview) -> None:
        if len(frame) < CORRELATION_BYTES:
            self._break(Disconnected(f"the node sent an answer of {len(frame)} bytes"))
            return
        waiter = self._waiters.get(int.from_bytes(frame[:CORRELATION_BYTES], "big", signed=True))
        if waiter is None:
            self.recycle(frame)  # Its caller has given up.
        else:
            waiter.frame = frame
            waiter.event.set()

    def _break(self, why: Disconnected) -> None:
        if self._broken is None:
            self._broken = why
            self._stream.close()
            for waiter in self._waiters.values():
                waiter.event.set()


def _failure(problem: OSError | ValueError, words: str) -> Disconnected:
    return NotAdmitted(words) if isinstance(problem, TlsHandshakeFailed | ValueError) else Disconnected(words)


def _decode(key: int, version: int, frame: memoryview) -> Any:
    position = 4 if api_keys.response_header_version(key, version) == 0 else skip_tagged_fields(frame, 4)
    return api_keys.response_class(key).decode(frame[position:], version)


@asynccontextmanager
async def connect(
    world: World, host: str, port: int, *, client_id: str = "kraft", timeout: float = 10.0
) -> AsyncIterator[ClientConnection]:
    """Open a connection with negotiated versions, and close it on exit. Raises Disconnected, TimeoutError."""
    connection = await open_connection(world, host, port, client_id=client_id, timeout=timeout)
    try:
        yield connection
    finally:
        connection.close()


async def open_connection(
    world: World, host: str, port: int, *, client_id: str = "kraft", timeout: float = 10.0
) -> ClientConnection:
    """Open a connection as `connect` does; the caller closes it. Raises TimeoutError; Disconnected, whose cause
    distinguishes a refused connection from other failures; and NotAdmitted if a retry is useless."""
    connection: ClientConnection | None = None
    with world.clock.move_on_after(timeout):
        try:
            stream = await (
                world.network.connect(host, port) if world.tls is None else world.network.connect(host, port, world.tls)
            )
        except (OSError, ValueError) as problem:
            raise _failure(problem, f"{host}:{port} cannot be reached: {problem}") from problem
        connection = ClientConnection(world, stream, client_id)
        try:
            await connection.negotiate()
            await connection.log_in()
        except BaseException:
            connection.close()
            raise
        return connection
    raise TimeoutError(f"{host}:{port} did not accept a connection within {timeout:g} s")
