"""The disk space that a node for tests reserves for its metadata log."""

from __future__ import annotations

from typing import Final

RESERVE_KEY: Final = "kraft.metadata.reserve.bytes"
RESERVE_BYTES: Final = 256 << 10
"""Nodes of tests reserve less disk space: there are many, and their directories are kept for a while."""
