"""TLS of the HTTP admin's connections: each is handed to HTTP once both sides have agreed on keys.

A connection that has not come so far is a descriptor, too. How many there are is bounded, and how long each may take.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import ssl

HANDSHAKES_MAX: Final = 64
"""Connections that have not agreed on keys. Where there are more, the oldest of the address that has most gives way."""
HANDSHAKE_SECONDS_MAX: Final = 10.0

MakeConnection = Callable[..., asyncio.Protocol]


class Handshakes:
    """Those of one admin. Touched by its loop only."""

    def __init__(
        self, make: MakeConnection, context: Callable[[], ssl.SSLContext], report: Callable[[str, str], None]
    ) -> None:
        """`make` gives what speaks HTTP on a connection, `context` the keys for the next one. `report` hears the
        address of who did not agree on TLS, and why."""
        self._report = report
        self._make = make
        self._context = context
        self._waiting: dict[_Accepted, None] = {}

    def connection(self, **arguments: Any) -> asyncio.Protocol:
        """A connection that has been accepted, with the server's arguments for `make`."""
        return _Accepted(self, self._make(**arguments))

    async def handshake(self, accepted: _Accepted, transport: asyncio.Transport) -> None:
        """Hand the connection on, or close it."""
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
        """Close the oldest of the address that has most: whoever connects without end shuts out only itself."""
        counts = Counter(each.source for each in self._waiting)
        most = max(counts.values())
        spared = next(each for each in self._waiting if counts[each.source] == most)
        del self._waiting[spared]
        spared.give_up()


class _Accepted(asyncio.Protocol):
    """A connection without keys. Whatever came on it would be dropped here."""

    def __init__(self, handshakes: Handshakes, http: asyncio.Protocol) -> None:
        self.http = http
        self.source = ""
        """The address at its other end."""
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
    """What a client has sent with its last message of the handshake arrives before `start_tls` has returned."""

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
        """`http` goes on with the connection."""
        transport.set_protocol(http)
        http.connection_made(transport)
        if self._data:
            http.data_received(bytes(self._data))
        if self._has_ended:
            http.eof_received()
