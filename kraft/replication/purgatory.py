"""Requests that wait for a partition to move: delayed produce (until the high watermark passes) and delayed fetch (until enough bytes are there).

A partition keeps its waiters in plain lists, made when the first one comes. Waking is a trio.Event; deadlines are the waiting task's own.
"""

from __future__ import annotations

import trio


class FetchWaiter:
    """One parked Fetch. `missing_bytes` counts down as its partitions grow; a change of leadership wakes it at once.

    A follower may read what is appended; a consumer, where there are followers, what is committed, so it is woken by the high watermark.
    """

    __slots__ = ("event", "is_follower", "missing_bytes")

    def __init__(self, missing_bytes: int, *, is_follower: bool = False) -> None:
        self.missing_bytes = missing_bytes
        self.is_follower = is_follower
        self.event = trio.Event()

    def grew(self, size: int) -> None:
        self.missing_bytes -= size
        if self.missing_bytes <= 0:
            self.event.set()

    def wake(self) -> None:
        self.event.set()


class ProduceWaiter:
    """One acks=all append that waits for `required_offset` (exclusive) to be at or below the high watermark."""

    __slots__ = ("event", "required_offset")

    def __init__(self, required_offset: int) -> None:
        self.required_offset = required_offset
        self.event = trio.Event()
