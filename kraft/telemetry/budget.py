"""The budget of a broker for reading pushes: bytes a second, for all clients together.

A client that makes up an instance id for each push keeps to no interval. So there is a limit that does not depend on
ids. A push over it gets THROTTLING_QUOTA_EXCEEDED, and clients push again after their interval (KIP-714).
"""

from __future__ import annotations

from typing import Final

BYTES_A_SECOND: Final = 4 << 20
"""After decompression. Ten thousand clients that push 20 KiB a minute need 3.3 MiB."""
BYTES_AT_ONCE: Final = 64 << 20
"""Bytes that may be read immediately after a quiet time."""


class PushBudget:
    """A bucket of bytes that fills over time. The last push may overdraw it. Times are monotonic milliseconds."""

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
        """A push of this size is read."""
        self._bytes -= size
