"""An index over the deadlines of a shard's state. The state is authoritative; an entry only says when to check it.

A heartbeat extends its deadline at no cost here: the existing entry fires early, finds the later deadline, and moves.
So there is one entry per key, not per heartbeat.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator

from kraft.coordinator.shard import TimerKey


class TimerIndex:
    __slots__ = ("_heap", "_scheduled", "_sequence")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, TimerKey]] = []
        self._scheduled: dict[TimerKey, int] = {}
        # Entries of equal deadline fire in the order they came, never by comparing keys.
        self._sequence = 0

    def schedule(self, key: TimerKey, deadline_ms: int) -> bool:
        """Check `key` no later than `deadline_ms`. True if that is earlier than every other entry."""
        known = self._scheduled.get(key)
        if known is not None and known <= deadline_ms:
            return False
        earliest = self.next_ms()
        self._scheduled[key] = deadline_ms
        self._sequence += 1
        heapq.heappush(self._heap, (deadline_ms, self._sequence, key))
        return deadline_ms < earliest

    def reset(self, deadlines: Iterable[tuple[TimerKey, int]]) -> None:
        self._heap = []
        self._scheduled = {}
        for key, deadline_ms in deadlines:
            self.schedule(key, deadline_ms)

    def next_ms(self) -> float:
        """The time of the next check; infinity if there is none. May be early."""
        return self._heap[0][0] if self._heap else math.inf

    def due(self, now_ms: int, deadline_of: Callable[[TimerKey], int | None]) -> Iterator[TimerKey]:
        """Yield keys whose deadlines have passed. The state may change between two keys."""
        while self._heap and self._heap[0][0] <= now_ms:
            looked_at_ms, _, key = heapq.heappop(self._heap)
            if self._scheduled.get(key) != looked_at_ms:
                continue
            del self._scheduled[key]
            deadline_ms = deadline_of(key)
            if deadline_ms is None:
                continue
            if deadline_ms > now_ms:
                self.schedule(key, deadline_ms)
            else:
                yield key
