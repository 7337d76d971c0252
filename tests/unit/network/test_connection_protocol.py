"""Frames come out as they went in, however the stream is cut."""

from __future__ import annotations

import mmap
import resource
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.common.errors import ProtocolError
from kraft.network.connection_protocol import RECEIVED_AT_ONCE_BYTES, FrameAssembler
from kraft.network.frame_pool import GENEROUS_BYTES, SMALL_STEP_BYTES, FramePool
from kraft.world.memory import LargeBuffer

FRAMES = st.lists(st.binary(min_size=1, max_size=9000), min_size=1, max_size=8)


def assemble(stream: bytes, cuts: list[int], pool: FramePool, size_max: int = 1 << 20) -> list[bytes]:
    """Feed `stream` in chunks as a connection does: into scratch between frames, into the frame's own buffer within
    one."""
    assembler = FrameAssembler(size_max, pool.acquire, pool.release, pool.hold)
    frames: list[bytes] = []
    position = turn = 0
    while position < len(stream):
        size = cuts[turn % len(cuts)]
        turn += 1
        target = assembler.target()
        if target is None:
            chunk = stream[position : position + size]
            frames += [bytes(frame) for frame in assembler.feed(memoryview(bytearray(chunk)))]
        else:
            chunk = stream[position : position + min(size, len(target))]
            target[: len(chunk)] = chunk
            whole = assembler.received(len(chunk))
            if whole is not None:
                frames.append(bytes(whole))
                pool.release(whole.obj, len(whole))
        position += len(chunk)
    assert assembler.between_frames
    return frames


@given(frames=FRAMES, cuts=st.lists(st.integers(min_value=1, max_value=5000), min_size=1, max_size=10))
def test_frames_are_the_same_however_the_stream_is_split(frames: list[bytes], cuts: list[int]) -> None:
    pool = FramePool()
    stream = b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)
    assert assemble(stream, cuts, pool) == frames
    assert pool.bytes_out == 0


def test_a_single_complete_frame_is_returned_without_a_copy() -> None:
    pool = FramePool()
    scratch = bytearray(struct.pack(">i", 3) + b"abc")
    (frame,) = FrameAssembler(100, pool.acquire, pool.release, pool.hold).feed(memoryview(scratch))
    scratch[4] = ord("x")
    assert bytes(frame) == b"xbc"


@pytest.mark.parametrize("size", [0, -1, 101, 2**31 - 1])
def test_an_invalid_frame_size_is_refused_immediately(size: int) -> None:
    pool = FramePool()
    assembler = FrameAssembler(100, pool.acquire, pool.release, pool.hold)
    with pytest.raises(ProtocolError, match=r"socket\.request\.max\.bytes"):
        assembler.feed(memoryview(struct.pack(">i", size) + b"rest"))


def test_a_large_announced_frame_allocates_only_for_received_bytes() -> None:
    pool = FramePool()
    assembler = FrameAssembler(100 << 20, pool.acquire, pool.release, pool.hold)
    assembler.feed(memoryview(struct.pack(">i", 100 << 20) + b"x"))
    assert pool.bytes_out <= 1 << 20


def test_a_large_frame_grows_its_buffer_and_arrives_complete() -> None:
    pool = FramePool()
    payload = bytes(range(256)) * (20 << 10)
    assert assemble(struct.pack(">i", len(payload)) + payload, [65536, 1000], pool, 10 << 20) == [payload]
    assert pool.bytes_out == 0


def test_a_frame_buffer_is_never_copied_or_cleared() -> None:
    """A hundred megabytes, counted in pages that the process is given meanwhile."""
    pool, size = FramePool(), 100 << 20
    acquired: list[int] = []

    def acquire(wanted: int) -> LargeBuffer:
        acquired.append(wanted)
        return pool.acquire(wanted)

    assembler = FrameAssembler(size, acquire, pool.release, pool.hold)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    assembler.feed(memoryview(struct.pack(">i", size) + b"x"))
    frame, taken = None, 1
    while frame is None:
        target = assembler.target()
        assert target is not None
        assert len(target) <= RECEIVED_AT_ONCE_BYTES
        frame = assembler.received(len(target))
        taken += len(target)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < size / mmap.PAGESIZE / 10
    assert (acquired, taken, len(frame)) == ([size], size, size)
    assert pool.bytes_out == size
    pool.release(frame.obj, len(frame))  # type: ignore[arg-type]  # The view's owner is the pool's buffer.
    assert pool.bytes_out == 0


def test_an_abandoned_frame_returns_its_buffer() -> None:
    pool = FramePool()
    assembler = FrameAssembler(1 << 20, pool.acquire, pool.release, pool.hold)
    assembler.feed(memoryview(struct.pack(">i", 5000) + b"x"))
    assert pool.bytes_out > 0
    assembler.abandon()
    assert pool.bytes_out == 0


def test_the_buffer_pool_stays_within_its_limit() -> None:
    pool = FramePool(keep_bytes=8192)
    buffers = [pool.acquire(4096) for _ in range(5)]
    for buffer in buffers:
        pool.release(buffer, 4096)
    assert pool._idle_bytes == 8192


def test_many_announced_frames_take_little_memory() -> None:
    pool = FramePool()
    assemblers = [FrameAssembler(100 << 20, pool.acquire, pool.release, pool.hold, pool.step) for _ in range(1_000)]
    for assembler in assemblers:
        assembler.feed(memoryview((100 << 20).to_bytes(4, "big") + b"x"))
    assert pool.bytes_out <= GENEROUS_BYTES + 1_000 * SMALL_STEP_BYTES
    for assembler in assemblers:
        assembler.abandon()
    assert pool.bytes_out == 0


def test_a_small_buffer_grows_to_its_frame_size() -> None:
    pool = FramePool()
    pool.bytes_out = GENEROUS_BYTES
    assembler = FrameAssembler(100 << 20, pool.acquire, pool.release, pool.hold, pool.step)
    content = bytes(range(256)) * 2_000
    assert assembler.feed(memoryview(len(content).to_bytes(4, "big") + content[:100])) == []
    position, frame = 100, None
    while frame is None:
        target = assembler.target()
        assert target is not None
        count = len(content[position : position + len(target)])
        target[:count] = content[position : position + count]
        position += count
        frame = assembler.received(count)
    assert frame == content
