"""Large buffers. They are not a port: memory is the same and deterministic in every world.

The event loop is blocked while it fills or copies a hundred megabytes. The kernel allocates a large buffer's pages when
they are first written, so creating one costs nothing, and filling it costs only the bytes written.
"""

from __future__ import annotations

import contextlib
import mmap
from typing import Final, TypeAlias

FILLED_BYTES_MAX: Final = 1 << 20
SMALL_PAGES_BYTES: Final = 4 << 20
"""This number of bytes at the start of a buffer is on pages of the usual size. The rest is on large pages, if the
system has them, because fewer pages must then be mapped and unmapped."""

LargeBuffer: TypeAlias = bytearray | mmap.mmap


def new_buffer(size: int) -> LargeBuffer:
    """At least `size` writable bytes. Takes no longer for a large buffer than for a megabyte."""
    if size <= FILLED_BYTES_MAX:
        return bytearray(size)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    buffer = mmap.mmap(-1, size, flags=flags)
    if size > SMALL_PAGES_BYTES and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # A kernel without large pages.
            buffer.madvise(mmap.MADV_HUGEPAGE, SMALL_PAGES_BYTES, size - SMALL_PAGES_BYTES)
    return buffer
