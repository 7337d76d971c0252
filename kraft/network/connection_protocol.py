"""Assembles request frames (int32 size, then that many bytes) from chunks of a byte stream. Pure.

The common case is one small frame that fills one chunk exactly. It is returned as a view of the receiver's scratch
buffer, without a copy. Any other frame is copied once into its own buffer, and the rest of it is received directly into
that buffer. The memory that a large frame uses grows as its bytes arrive. So a peer that announces a large frame and
sends little costs little memory.
"""

from __future__ import annotations

from collections.abc import Callable

from kraft.common.errors import ProtocolError
from kraft.network.frame_pool import GROWTH_STEP_BYTES
from kraft.world.memory import LargeBuffer

RECEIVED_AT_ONCE_BYTES = 512 << 10
"""Bytes received between two yields."""


class FrameAssembler:
    """Reassembles frames of one connection. Invariant: `_filled <= _held <= _size <= len(_body)` while a frame is
    open."""

    __slots__ = (
        "_acquire",
        "_body",
        "_filled",
        "_head",
        "_held",
        "_hold",
        "_limit",
        "_release",
        "_size",
        "_size_max",
        "_step",
    )

    def __init__(
        self,
        size_max: int,
        acquire: Callable[[int], LargeBuffer],
        release: Callable[[LargeBuffer, int], None],
        hold: Callable[[int], None] = lambda _: None,
        step: Callable[[], int] = lambda: GROWTH_STEP_BYTES,
        limit: str = "socket.request.max.bytes",
    ) -> None:
        """`step` returns how many bytes a new frame may hold beyond those received. `limit` names the config that sets
        `size_max`. `hold` is called with every byte that a frame may hold, `release` with all of them at the end."""
        self._size_max = size_max
        self._acquire = acquire
        self._release = release
        self._hold = hold
        self._step = step
        self._limit = limit
        self._head = b""
        self._body: LargeBuffer | None = None
        self._size = self._filled = self._held = 0

    def take_limit(self, size_max: int, limit: str) -> None:
        """Set the size limit for the next frames."""
        self._size_max, self._limit = size_max, limit

    @property
    def between_frames(self) -> bool:
        return self._body is None and not self._head

    @property
    def open_frame(self) -> tuple[int, int] | None:
        """(bytes received of the open frame, bytes that it may hold); None between frames."""
        return None if self._body is None else (self._filled, self._held)

    @property
    def expected(self) -> int:
        """Bytes that the open frame still lacks; 1 between frames."""
        return 1 if self._body is None else self._size - self._filled

    def target(self) -> memoryview | None:
        """Where to receive the rest of an open frame directly; None between frames (receive into scratch, then
        `feed`)."""
        if self._body is None:
            return None
        if self._filled == self._held:
            more = min(self._size, 2 * self._held) - self._held
            self._hold(more)
            self._held += more
        return memoryview(self._body)[self._filled : min(self._held, self._filled + RECEIVED_AT_ONCE_BYTES)]

    def received(self, count: int) -> memoryview | None:
        """Account for `count` bytes received into `target()`. Returns the frame once it is whole; the caller must
        `release` its buffer."""
        self._filled += count
        if self._filled < self._size:
            return None
        body = self._body
        assert body is not None
        self._body = None
        return memoryview(body)[: self._size]

    def feed(self, chunk: memoryview) -> list[memoryview]:
        """The whole frames in `chunk`; an unfinished last one is kept.

        A sole exact frame is a view of `chunk` itself. Raises ProtocolError for an impossible size.
        """
        if not self._head and len(chunk) >= 4:
            size = int.from_bytes(chunk[:4], "big", signed=True)
            if size == len(chunk) - 4:
                if not 0 < size <= self._size_max:
                    raise self._wrong_size(size)
                return [chunk[4:]]
        return self._feed_copy(self._head + bytes(chunk))

    def _feed_copy(self, data: bytes) -> list[memoryview]:
        self._head = b""
        view = memoryview(data)
        frames: list[memoryview] = []
        position = 0
        while len(data) - position >= 4:
            size = int.from_bytes(view[position : position + 4], "big", signed=True)
            if not 0 < size <= self._size_max:
                raise self._wrong_size(size)
            if len(data) - position - 4 < size:
                self._open(size, view[position + 4 :])
                return frames
            frames.append(view[position + 4 : position + 4 + size])
            position += 4 + size
        self._head = data[position:]
        return frames

    def _open(self, size: int, start: memoryview) -> None:
        body = self._acquire(size)
        body[: len(start)] = start
        self._body, self._size, self._filled = body, size, len(start)
        self._held = max(min(size, self._step()), len(start))
        self._hold(self._held)

    def _wrong_size(self, size: int) -> ProtocolError:
        return ProtocolError(
            f"frame size {size} is outside 1..{self._size_max} ({self._limit}); the peer may not speak "
            "the Kafka protocol"
        )

    def abandon(self) -> None:
        """Release an open frame's buffer when the connection ends."""
        if self._body is not None:
            self._release(self._body, self._held)
            self._body = None
