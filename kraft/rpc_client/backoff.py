"""The wait before the next attempt (KIP-580): doubled each time up to a maximum, with jitter between clients."""

from __future__ import annotations

import random

FIRST_SECONDS = 0.1
MOST_SECONDS = 1.0
JITTER = 0.2


class Backoff:
    """The waits of one operation. `chance` varies each wait by up to a fifth."""

    __slots__ = ("_chance", "_most", "_next")

    def __init__(self, chance: random.Random, first: float = FIRST_SECONDS, most: float = MOST_SECONDS) -> None:
        self._chance = chance
        self._next = first
        self._most = most

    def next(self) -> float:
        """Return the seconds to wait before the next attempt."""
        wait = self._next * self._chance.uniform(1 - JITTER, 1 + JITTER)
        self._next = min(self._most, self._next * 2)
        return wait
