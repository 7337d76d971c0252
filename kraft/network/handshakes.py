"""TLS handshakes in progress. The peers are not authenticated, so their number and time are limited.

Idle clients must not lock out others: if there are too many, the longest silent are closed. A burst of clients that do
complete handshakes waits in the listener's backlog.
"""

from __future__ import annotations

from dataclasses import dataclass

import trio

from kraft.world.ports import Clock, Stream

HANDSHAKES_MAX = 256
HANDSHAKE_SECONDS_MAX = 10.0
CROWDED_SECONDS_MAX = 1.0
"""Timeout of a handshake while other connections wait to start theirs."""


@dataclass(eq=False, slots=True)
class _Handshake:
    began: float
    scope: trio.CancelScope


class Handshakes:
    """The handshakes of one listener."""

    __slots__ = ("_clock", "_places_left", "_places_max", "_under_way")

    def __init__(self, clock: Clock, places_max: int = HANDSHAKES_MAX) -> None:
        self._clock = clock
        self._places_max = places_max
        self._under_way: dict[_Handshake, None] = {}
        """Handshakes in progress, oldest first."""
        self._places_left = trio.Event()

    async def until_room(self) -> None:
        """Return once another handshake may start."""
        while len(self._under_way) >= self._places_max:
            oldest = next(iter(self._under_way))
            with self._clock.move_on_at(oldest.began + CROWDED_SECONDS_MAX) as waiting:
                await self._places_left.wait()
            if waiting.cancelled_caught and oldest in self._under_way:
                self._leave(oldest)
                oldest.scope.cancel()

    async def run(self, stream: Stream) -> None:
        """Do the handshake. Raises ConnectionError with the reason, TimeoutError if it takes too long."""
        handshake = _Handshake(self._clock.now(), trio.CancelScope())
        self._under_way[handshake] = None
        try:
            with handshake.scope, self._clock.move_on_after(HANDSHAKE_SECONDS_MAX):
                await stream.handshake()
                return
        finally:
            self._leave(handshake)
        raise TimeoutError(f"no TLS handshake within {self._clock.now() - handshake.began:.1f} s")

    def _leave(self, handshake: _Handshake) -> None:
        if self._under_way.pop(handshake, self) is None:
            self._places_left.set()
            self._places_left = trio.Event()
