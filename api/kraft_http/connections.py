"""The HTTP admin's connections: how many there may be, and how long one may take to ask. Each is a descriptor of the
node's process, which its files and Kafka's clients need as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

CONNECTIONS_MAX: Final = 256
ASKING_SECONDS_MAX: Final = 30.0


class BoundedConnection(H11Protocol):
    """Closed at once when there are too many; closed when it has not finished a request's head within one to two
    times ASKING_SECONDS_MAX, from its start or from its last answer."""

    _seen: Any = None
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn has it.
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS_MAX:
            transport.abort()
        else:
            self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def _look_later(self) -> None:
        self._seen = self.cycle
        self._timer = self.loop.call_later(ASKING_SECONDS_MAX, self._look)

    def _look(self) -> None:
        is_asking = self.cycle is None or self.cycle.response_complete
        if is_asking and self.cycle is self._seen:
            self.transport.close()
        else:
            self._look_later()
