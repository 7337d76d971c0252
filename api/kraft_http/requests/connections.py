"""The HTTP admin's connections: their largest number, and the timeouts of slow clients. Each connection takes a file
descriptor of the node's process, which log files and Kafka clients need as well.

A client that connects and then does nothing cannot block others: beyond the limit, the connection that has waited
longest for its client is closed in favour of the new one.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from kraft_http.records.framing import StrictBuffer
from kraft_http.requests.scopes import CERTIFICATE, SOURCE, is_streamed

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

CONNECTIONS_MAX: Final = 256
CONNECTIONS_PER_SOURCE_MAX: Final = 128
HEAD_SECONDS_MAX: Final = 30.0
"""From the connection's start, or from its last response, until the next request's head is complete."""
BODY_SECONDS_MAX: Final = 60.0
"""Until a body that is read as one document is complete."""
SILENCE_SECONDS_MAX: Final = 600.0
"""The longest time in which a stream of records sends no byte. The stream itself has no time limit."""
TAKING_SECONDS_MAX: Final = 60.0
"""The longest time in which a client reads no byte of a response that has filled the buffers."""

LOOK_SECONDS: Final = 10.0
"""The interval at which a running request is checked. No event reports that a request waits for its body again."""


class Waiting(IntEnum):
    """The data that a connection expects from its client. Connections with smaller values are closed first."""

    HEAD = 0
    BODY = 1
    STREAM = 2
    TAKING = 3


class BoundedConnection(H11Protocol):
    """A connection that is closed when its client is idle for too long, or when there are too many connections and its
    client has been idle longest."""

    _waiting: Waiting | None = None
    """None while a request is in progress."""
    _since = 0.0
    _left_bytes = 0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn has it.
        super().connection_made(transport)
        self.conn._receive_buffer = StrictBuffer()  # h11 has no option for it. A test fails if h11 stops using it.
        self.app_state = {**self.app_state, SOURCE: self.source, CERTIFICATE: _certificate(transport)}
        self._look()
        others = [other for other in self.connections if other is not self and isinstance(other, BoundedConnection)]
        from_here = [other for other in others if other.source == self.source]
        if len(from_here) >= CONNECTIONS_PER_SOURCE_MAX:
            self._make_room(from_here)
        elif len(others) >= CONNECTIONS_MAX:
            self._make_room(others)

    @property
    def source(self) -> str | None:
        return None if self.client is None else self.client[0]

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._waiting == Waiting.STREAM:
            self._since = self.loop.time()
        self._look()

    def send_400_response(self, msg: str) -> None:
        """Reject an invalid request and close the connection. If a response has been started, only close."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._look()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._look()

    def _make_room(self, others: Iterable[BoundedConnection]) -> None:
        """Close the most idle of `others`, or this connection if all of them are serving requests."""
        spared = min((other for other in others if other._waiting is not None), key=_patience, default=self)
        spared.drop()

    def drop(self) -> None:
        """Close immediately, and no longer count against the limit."""
        self.connections.discard(self)
        self.transport.abort()

    def _look(self) -> None:
        """Update what the connection waits for, and since when."""
        waiting = self._waits_for()
        if waiting != self._waiting or self._timer is None or (waiting == Waiting.TAKING and self._progressed()):
            self._waiting, self._since = waiting, self.loop.time()
            self._left_bytes = self.transport.get_write_buffer_size()
            self._look_again(_seconds_max(waiting))

    def _look_again(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds, self._time_is_up)

    def _time_is_up(self) -> None:
        if self.transport.is_closing():
            return
        self._look()
        left = self._since + _seconds_max(self._waiting) - self.loop.time()
        if left > 0:
            self._look_again(left)
        elif self._waiting is None:
            self._look_again(LOOK_SECONDS)
        else:
            self.drop()

    def _waits_for(self) -> Waiting | None:
        if self.flow.write_paused:
            return Waiting.TAKING
        if self.cycle is None or self.cycle.response_complete:
            return Waiting.HEAD
        if not self.cycle.more_body or self.flow.read_paused:
            return None
        return Waiting.STREAM if is_streamed(self.cycle.scope) else Waiting.BODY

    def _progressed(self) -> bool:
        return self.transport.get_write_buffer_size() < self._left_bytes


def _certificate(transport: asyncio.Transport) -> bytes | None:
    """The client's TLS certificate (DER), or None."""
    tls = transport.get_extra_info("ssl_object")
    shown: bytes | None = None if tls is None else tls.getpeercert(True)
    return shown


def _patience(connection: BoundedConnection) -> tuple[Waiting, float]:
    assert connection._waiting is not None
    return connection._waiting, connection._since


def _seconds_max(waiting: Waiting | None) -> float:
    match waiting:
        case None:
            return LOOK_SECONDS
        case Waiting.HEAD:
            return HEAD_SECONDS_MAX
        case Waiting.BODY:
            return BODY_SECONDS_MAX
        case Waiting.STREAM:
            return SILENCE_SECONDS_MAX
        case Waiting.TAKING:
            return TAKING_SECONDS_MAX
