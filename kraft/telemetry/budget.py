"""The budget of a broker for reading pushes: bytes a second, for all clients together.

The push interval limits a client by its instance id. A client that sends each push under a new instance id evades it,
so this limit does not depend on ids. A push over it gets THROTTLING_QUOTA_EXCEEDED, and clients push again after their
interval (KIP-714).
"""

from __future__ import annotations

from typing import Final

BYTES_A_SECOND: Final = 4 << 20
"""Limit of decompressed bytes a second. Ten thousand clients that push 20 KiB a minute need 3.3 MiB."""
BYTES_AT_ONCE: Final = 64 << 20
"""Capacity of the bucket: the bytes that may be read at once when it is full."""


class PushBudget:
    """A token bucket of bytes. One push may take more bytes than are left. Times are monotonic milliseconds."""

    __slots__ = ("_bytes", "_filled_ms")

    def __init__(self) -> None:
        self._bytes = float(BYTES_AT_ONCE)
        self._filled_ms: int | None = None

    def is_left(self, now_ms: int) -> bool:
        """Whether another push may be read now."""
        if self._filled_ms is not None:
            filled = self._bytes + (now_ms - self._filled_ms) * BYTES_A_SECOND / 1000
            self._bytes = min(filled, float(BYTES_AT_ONCE))
        self._filled_ms = now_ms
        return self._bytes > 0

    def spend(self, size: int) -> None:
        """Take the bytes of a push that was read."""
        self._bytes -= size
