"""A bad cable delays, repeats and reorders as it was told, loses nothing but what it has no room for, and counts
what it did."""

from __future__ import annotations

import random

from jepsen.wire import WAITING_MAX, Counts, Quality, Queue


def carried(quality: Quality, count: int = 200) -> tuple[list[bytes], Counts]:
    """Frames put in a millisecond apart, taken out when due."""
    queue, out = Queue(quality, random.Random(1)), []
    for number in range(count):
        queue.put(number / 1000, 0, b"%d" % number)
        out += queue.due(number / 1000)
    out += queue.due(1e9)
    return [frame for _, frame in out], queue.counts


FRAMES = [b"%d" % number for number in range(200)]


def test_a_wire_without_faults_forwards_immediately() -> None:
    assert carried(Quality()) == (FRAMES, Counts(frames=200))


def test_delay_and_jitter_keep_the_order() -> None:
    assert carried(Quality(delay=0.02, jitter=0.05)) == (FRAMES, Counts(frames=200, late=200))


def test_no_frame_leaves_before_its_delay() -> None:
    queue = Queue(Quality(delay=0.02), random.Random(1))
    queue.put(1.0, 1, b"frame")
    assert queue.due(1.019) == []
    assert round(queue.wait_seconds(1.0) or 0, 3) == 0.02
    assert queue.due(1.021) == [(1, b"frame")]
    assert queue.wait_seconds(2.0) is None


def test_frames_are_reordered_and_none_is_lost() -> None:
    frames, counts = carried(Quality(jitter=0.01, overtaken=0.2))
    assert frames != FRAMES
    assert sorted(frames) == sorted(FRAMES)
    assert counts.overtaken > 10


def test_frames_are_duplicated() -> None:
    frames, counts = carried(Quality(twice=0.2))
    assert len(frames) == 200 + counts.twice
    assert 10 < counts.twice < 80


def test_the_two_directions_do_not_wait_for_each_other() -> None:
    queue = Queue(Quality(), random.Random(1))
    queue.put(1.0, 0, b"there")
    queue.put(1.0, 1, b"back")
    assert (queue.due(1.0), queue.counts.overtaken) == ([(0, b"there"), (1, b"back")], 0)


def test_a_full_queue_drops_frames() -> None:
    queue = Queue(Quality(delay=9.0), random.Random(1))
    for _ in range(WAITING_MAX + 3):
        queue.put(0.0, 0, b"")
    assert queue.counts.lost == 3
