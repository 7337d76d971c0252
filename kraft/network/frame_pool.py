"""Buffers for large frames. A buffer's whole address range is reserved first, so it never moves. Its memory is used
only as bytes arrive, so a peer that announces a large frame and sends little costs little memory."""

from __future__ import annotations

from typing import Final

from kraft.world.memory import LargeBuffer, new_buffer

GROWTH_STEP_BYTES: Final = 1 << 20
SMALL_STEP_BYTES: Final = 16 << 10
GENEROUS_BYTES: Final = 64 << 20


class FramePool:
    """A pool of buffers, because fresh pages cost more than the copy into them. Keeps at most `keep_bytes` idle.

    `bytes_out` counts the bytes that frames hold: the size of a whole frame, and the allowance of an incomplete one.
    """

    __slots__ = ("_idle", "_idle_bytes", "_keep_bytes", "bytes_out")

    def __init__(self, keep_bytes: int = 32 << 20) -> None:
        self._idle: dict[int, list[LargeBuffer]] = {}
        self._idle_bytes = 0
        self._keep_bytes = keep_bytes
        self.bytes_out = 0

    def acquire(self, size: int) -> LargeBuffer:
        """Return a buffer of at least `size` bytes, with old content."""
        capacity = 1 << max(size - 1, 4095).bit_length()
        if capacity > self._keep_bytes:
            return new_buffer(size)
        idle = self._idle.get(capacity)
        if idle:
            self._idle_bytes -= capacity
            return idle.pop()
        return new_buffer(capacity)

    def hold(self, count: int) -> None:
        """Count `count` more bytes held by a frame."""
        self.bytes_out += count

    def step(self) -> int:
        """The bytes that a new frame may hold at first, beyond those received.

        It is large while frames hold few bytes in total, and small afterwards. This limits the memory of many peers
        that announce large frames and send little.
        """
        return GROWTH_STEP_BYTES if self.bytes_out < GENEROUS_BYTES else SMALL_STEP_BYTES

    def release(self, buffer: LargeBuffer, held: int) -> None:
        """Return a buffer of which a frame held `held` bytes."""
        self.bytes_out -= held
        capacity = len(buffer)
        if self._idle_bytes + capacity <= self._keep_bytes:
            self._idle_bytes += capacity
            self._idle.setdefault(capacity, []).append(buffer)
