"""Memory for large frames: taken at once, and used up only as bytes come.

The event loop serves nobody while it fills or copies a hundred megabytes. The system has a large buffer's pages ready
when they are first written to, so such a buffer costs nothing when it is made, never moves, and costs little for a
peer that announces much and sends little.
"""

from __future__ import annotations

import mmap
from typing import Final, TypeAlias

GROWTH_STEP_BYTES: Final = 1 << 20
SMALL_STEP_BYTES: Final = 16 << 10
GENEROUS_BYTES: Final = 64 << 20
SMALL_PAGES_BYTES: Final = 4 << 20
"""So much of a buffer has pages of the usual size. What is behind has large ones, where the system offers them: there
are few of them to take and to give back."""

FrameBuffer: TypeAlias = bytearray | mmap.mmap


def new_buffer(size: int) -> FrameBuffer:
    """At least `size` writable bytes. However many they are, this takes no longer than for a megabyte."""
    if size <= GROWTH_STEP_BYTES:
        return bytearray(size)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    buffer = mmap.mmap(-1, size, flags=flags)
    if size > SMALL_PAGES_BYTES and hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            buffer.madvise(mmap.MADV_HUGEPAGE, SMALL_PAGES_BYTES, size - SMALL_PAGES_BYTES)
        except OSError:
            pass  # A kernel without large pages.
    return buffer


class FramePool:
    """Recycled buffers: fresh pages cost more than the copy into them. Bounded: keeps at most `keep_bytes` idle.

    `bytes_out` counts the bytes that frames hold: of a whole one its size, of one in the making what it may have.
    """

    __slots__ = ("_idle", "_idle_bytes", "_keep_bytes", "bytes_out")

    def __init__(self, keep_bytes: int = 32 << 20) -> None:
        self._idle: dict[int, list[FrameBuffer]] = {}
        self._idle_bytes = 0
        self._keep_bytes = keep_bytes
        self.bytes_out = 0

    def acquire(self, size: int) -> FrameBuffer:
        """A buffer of at least `size` bytes, with old contents in it."""
        capacity = 1 << max(size - 1, 4095).bit_length()
        if capacity > self._keep_bytes:
            return new_buffer(size)
        idle = self._idle.get(capacity)
        if idle:
            self._idle_bytes -= capacity
            return idle.pop()
        return new_buffer(capacity)

    def hold(self, count: int) -> None:
        """A frame holds `count` bytes more of its buffer."""
        self.bytes_out += count

    def step(self) -> int:
        """How many bytes a new frame may have at first, beyond what has come.

        Generous while little is out; then small: peers that announce much and send little must not make up a large
        sum.
        """
        return GROWTH_STEP_BYTES if self.bytes_out < GENEROUS_BYTES else SMALL_STEP_BYTES

    def release(self, buffer: FrameBuffer, held: int) -> None:
        """Take back a buffer of which a frame held `held` bytes."""
        self.bytes_out -= held
        capacity = len(buffer)
        if self._idle_bytes + capacity <= self._keep_bytes:
            self._idle_bytes += capacity
            self._idle.setdefault(capacity, []).append(buffer)
