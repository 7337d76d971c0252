"""Chunks of a byte stream to request frames (int32 size, then that many bytes). Pure: never heard of a socket.

The common case is one small frame that fills one chunk exactly: it is handed out in place, as a view of the
receiver's scratch buffer. Everything else is copied once into a buffer of the frame's own, into which the rest is
then received directly. A large frame's buffer grows as its bytes arrive, so a peer that announces much and sends
little costs little.
"""

from __future__ import annotations

from collections.abc import Callable

from kraft.common.errors import ProtocolError

GROWTH_STEP_BYTES = 1 << 20
SMALL_STEP_BYTES = 16 << 10
GENEROUS_BYTES = 64 << 20


class FrameAssembler:
    """Reassembles frames of one connection. Invariant: `_filled <= len(_body) <= _size` while a frame is open."""

    __slots__ = ("_acquire", "_body", "_filled", "_head", "_limit", "_release", "_size", "_size_max", "_step")

    def __init__(
        self,
        size_max: int,
        acquire: Callable[[int], bytearray],
        release: Callable[[bytearray], None],
        step: Callable[[], int] = lambda: GROWTH_STEP_BYTES,
        limit: str = "socket.request.max.bytes",
    ) -> None:
        """`step` tells how many bytes the buffer of a new frame may have beyond what has come, `limit` what sets
        `size_max`, for a person."""
        self._size_max = size_max
        self._acquire = acquire
        self._release = release
        self._step = step
        self._limit = limit
        self._head = b""
        self._body: bytearray | None = None
        self._size = 0
        self._filled = 0

    def take_limit(self, size_max: int, limit: str) -> None:
        """Frames from the next on may have so many bytes."""
        self._size_max, self._limit = size_max, limit

    @property
    def between_frames(self) -> bool:
        return self._body is None and not self._head

    @property
    def open_frame(self) -> tuple[int, int] | None:
        """Bytes of the open frame that have come, and bytes of its buffer; None between frames."""
        return None if self._body is None else (self._filled, len(self._body))

    @property
    def expected(self) -> int:
        """Bytes that the open frame still lacks; 1 between frames."""
        return 1 if self._body is None else self._size - self._filled

    def target(self) -> memoryview | None:
        """Where to receive the rest of an open frame directly; None between frames (receive into scratch, then
        `feed`)."""
        if self._body is None:
            return None
        if self._filled == len(self._body):
            self._grow()
        return memoryview(self._body)[self._filled : min(len(self._body), self._size)]

    def _grow(self) -> None:
        assert self._body is not None
        larger = self._acquire(min(self._size, 2 * len(self._body)))
        larger[: self._filled] = memoryview(self._body)[: self._filled]
        self._release(self._body)
        self._body = larger

    def received(self, count: int) -> memoryview | None:
        """Account for `count` bytes received into `target()`; returns the frame once it is whole. Give it back with
        `release`."""
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
                self._check(size)
                return [chunk[4:]]
        return self._feed_copy(self._head + bytes(chunk))

    def _feed_copy(self, data: bytes) -> list[memoryview]:
        self._head = b""
        view = memoryview(data)
        frames: list[memoryview] = []
        position = 0
        while len(data) - position >= 4:
            size = int.from_bytes(view[position : position + 4], "big", signed=True)
            self._check(size)
            if len(data) - position - 4 < size:
                self._open(size, view[position + 4 :])
                return frames
            frames.append(view[position + 4 : position + 4 + size])
            position += 4 + size
        self._head = data[position:]
        return frames

    def _open(self, size: int, start: memoryview) -> None:
        body = self._acquire(max(min(size, self._step()), len(start)))
        body[: len(start)] = start
        self._body, self._size, self._filled = body, size, len(start)

    def _check(self, size: int) -> None:
        if not 0 < size <= self._size_max:
            raise ProtocolError(
                f"frame size {size} is outside 1..{self._size_max} ({self._limit}); the peer may not speak "
                "the Kafka protocol"
            )

    def abandon(self) -> None:
        """Give an open frame's buffer back: the connection is over."""
        if self._body is not None:
            self._release(self._body)
            self._body = None


class FramePool:
    """Recycled buffers for large frames:

    fresh pages cost more than the copy into them. Bounded: keeps at most `keep_bytes` idle, and counts all that is out.
    """

    __slots__ = ("_idle", "_idle_bytes", "_keep_bytes", "bytes_out")

    def __init__(self, keep_bytes: int = 32 << 20) -> None:
        self._idle: dict[int, list[bytearray]] = {}
        self._idle_bytes = 0
        self._keep_bytes = keep_bytes
        self.bytes_out = 0

    def acquire(self, size: int) -> bytearray:
        """A buffer of at least `size` bytes, with old contents in it."""
        capacity = 1 << max(size - 1, 4095).bit_length()
        self.bytes_out += capacity
        idle = self._idle.get(capacity)
        if idle:
            self._idle_bytes -= capacity
            return idle.pop()
        return bytearray(capacity)

    def step(self) -> int:
        """How large a new frame's buffer begins.

        Generous while little is out, since growing copies; then small: peers that announce much and send little must
        not make up a large sum.
        """
        return GROWTH_STEP_BYTES if self.bytes_out < GENEROUS_BYTES else SMALL_STEP_BYTES

    def release(self, buffer: bytearray) -> None:
        capacity = len(buffer)
        self.bytes_out -= capacity
        if self._idle_bytes + capacity <= self._keep_bytes:
            self._idle_bytes += capacity
            self._idle.setdefault(capacity, []).append(buffer)
