"""The disk space that a node for tests reserves for its metadata log."""

from __future__ import annotations

from typing import Final

RESERVE_KEY: Final = "kraft.metadata.reserve.bytes"
RESERVE_BYTES: Final = 256 << 10
"""A node for tests keeps less of the disk: there are many of them, and their directories stay for a while."""
