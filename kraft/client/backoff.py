"""How long to wait before the next attempt (KIP-580): twice as long each time up to a bound, and never in step with
other clients."""

from __future__ import annotations

import random

FIRST_SECONDS = 0.1
MOST_SECONDS = 1.0
JITTER = 0.2


class Backoff:
    """The waits of one operation. `chance` varies each by a fifth either way."""

    __slots__ = ("_chance", "_most", "_next")

    def __init__(self, chance: random.Random, first: float = FIRST_SECONDS, most: float = MOST_SECONDS) -> None:
        self._chance = chance
        self._next = first
        self._most = most

    def next(self) -> float:
        """Seconds to wait now."""
        wait = self._next * self._chance.uniform(1 - JITTER, 1 + JITTER)
        self._next = min(self._most, self._next * 2)
        return wait
