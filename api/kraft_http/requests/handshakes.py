"""TLS handshakes of the HTTP admin. A connection is passed to the HTTP protocol after its handshake.

A connection in its handshake takes a file descriptor, too. Their number and the time of each are limited.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import ssl

HANDSHAKES_MAX: Final = 64
"""Limit of connections in a TLS handshake. Beyond it, the oldest of the address with the most is closed."""
HANDSHAKE_SECONDS_MAX: Final = 10.0

MakeConnection = Callable[..., asyncio.Protocol]


class Handshakes:
    """The handshakes of one admin. Used only by its event loop."""

    def __init__(
        self, make: MakeConnection, context: Callable[[], ssl.SSLContext], report: Callable[[str, str], None]
    ) -> None:
        """`make` creates the HTTP protocol of a connection, `context` returns the TLS context for the next one.
        `report` is called with the client's address and the reason when a handshake fails."""
        self._report = report
        self._make = make
        self._context = context
        self._waiting: dict[_Accepted, None] = {}

    def connection(self, **arguments: Any) -> asyncio.Protocol:
        """The protocol of an accepted connection. The server's arguments are passed to `make`."""
        return _Accepted(self, self._make(**arguments))

    async def handshake(self, accepted: _Accepted, transport: asyncio.Transport) -> None:
        """Perform the handshake, then pass the connection to HTTP, or close it."""
        self._waiting[accepted] = None
        if len(self._waiting) > HANDSHAKES_MAX:
            self._make_room()
        early = _Early()
        try:
            encrypted = await asyncio.get_running_loop().start_tls(
                transport, early, self._context(), server_side=True, ssl_handshake_timeout=HANDSHAKE_SECONDS_MAX
            )
        except (OSError, asyncio.CancelledError) as problem:  # The errors of TLS are OSErrors.
            transport.abort()
            # Probes and port scans come and go all the time.
            if isinstance(problem, OSError) and not isinstance(problem, ConnectionResetError):
                self._report(accepted.source, str(problem))
            return
        finally:
            self._waiting.pop(accepted, None)
        if encrypted is not None and not early.is_lost:
            early.hand_over(encrypted, accepted.http)

    def _make_room(self) -> None:
        """Close the oldest handshake of the address that has most: a client that opens connections without end blocks
        only itself."""
        counts = Counter(each.source for each in self._waiting)
        most = max(counts.values())
        spared = next(each for each in self._waiting if counts[each.source] == most)
        del self._waiting[spared]
        spared.give_up()


class _Accepted(asyncio.Protocol):
    """A connection before its handshake. It drops any data received."""

    def __init__(self, handshakes: Handshakes, http: asyncio.Protocol) -> None:
        self.http = http
        self.source = ""
        """Remote address."""
        self._handshakes = handshakes
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.source = transport.get_extra_info("peername", ("",))[0]
        # The task runs before anything is read from the socket, and `start_tls` then pauses reading until TLS does it.
        self._task = asyncio.create_task(self._handshakes.handshake(self, transport))

    def give_up(self) -> None:
        """Close the connection."""
        if self._task is not None:
            self._task.cancel()


class _Early(asyncio.Protocol):
    """Keeps the data that a client sends with the last message of its handshake: it arrives before `start_tls`
    returns."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._has_ended = False
        self.is_lost = False

    def data_received(self, data: bytes) -> None:
        self._data += data

    def eof_received(self) -> None:
        self._has_ended = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True

    def hand_over(self, transport: asyncio.Transport, http: asyncio.Protocol) -> None:
        """Pass the connection and the data received so far to `http`."""
        transport.set_protocol(http)
        http.connection_made(transport)
        if self._data:
            http.data_received(bytes(self._data))
        if self._has_ended:
            http.eof_received()
