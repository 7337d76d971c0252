"""Garbage collection of a node: what lives long is not looked at again and again, and no garbage is kept for ever."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Literal

from kraft.cli.heap import NEW_MAX, SECONDS_MAX, Heap


class Collector:
    """Counts objects instead of keeping them."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[Literal["start", "stop"], dict[str, int]], object]] = []
        self.watched = 0
        self.frozen = 0
        self.is_enabled = False
        self.new_max = 0
        self.now = 0.0

    def freeze(self) -> None:
        self.frozen += self.watched
        self.watched = 0

    def unfreeze(self) -> None:
        self.watched += self.frozen
        self.frozen = 0

    def get_objects(self, generation: int) -> list[None]:
        assert generation == 2
        return [None] * self.watched

    def get_freeze_count(self) -> int:
        return self.frozen

    def set_threshold(self, threshold0: int, /) -> None:
        self.new_max = threshold0

    def enable(self) -> None:
        self.is_enabled = True

    def disable(self) -> None:
        self.is_enabled = False

    def collect(self, generation: int, seconds: float, garbage: int = 0) -> int:
        """How many objects it went over."""
        seen = self.watched
        for callback in self.callbacks:
            callback("start", {"generation": generation})
        self.now += seconds
        self.watched -= garbage
        for callback in self.callbacks:
            callback("stop", {"generation": generation})
        return seen


def begun(alive: int) -> Collector:
    collector = Collector()
    collector.watched = alive
    Heap(collector, lambda: collector.now).begin()
    assert collector.is_enabled
    assert collector.new_max == NEW_MAX
    return collector


SHORT, LONG = SECONDS_MAX / 2, SECONDS_MAX * 2


def test_objects_made_during_the_start_are_frozen() -> None:
    collector = begun(alive=1000)
    assert (collector.frozen, collector.watched) == (1000, 0)


def test_only_survivors_of_a_long_full_collection_are_frozen() -> None:
    collector = begun(alive=1000)
    collector.watched = 100
    collector.collect(2, SHORT)
    collector.collect(1, LONG)
    assert (collector.frozen, collector.watched) == (1000, 100)
    collector.collect(2, LONG, garbage=30)
    assert (collector.frozen, collector.watched) == (1070, 0)


def test_all_objects_are_collected_again_once_as_many_were_frozen() -> None:
    collector = begun(alive=1000)
    collector.watched = 1001
    collector.collect(2, LONG)
    assert (collector.frozen, collector.watched) == (0, 2001)
    assert collector.collect(2, SHORT, garbage=901) == 2001
    assert (collector.frozen, collector.watched) == (1100, 0)
    collector.watched = 1000
    collector.collect(2, LONG)
    assert collector.frozen == 2100, "1,100 are alive: not before 2,200"


def test_frozen_objects_freed_by_reference_counting_do_not_count() -> None:
    collector = begun(alive=1000)
    for _ in range(10):
        collector.watched = 900
        collector.collect(2, LONG)
        assert collector.frozen == 1900
        collector.frozen -= 900


def test_memory_is_bounded_however_many_frozen_objects_are_dropped() -> None:
    collector = begun(alive=1000)
    dead = most = 0
    for _ in range(1000):
        collector.watched += 300
        garbage = dead if collector.frozen == 0 else 0
        dead = dead - garbage + 300  # All of them end in a cycle after they were set aside.
        collector.collect(2, LONG, garbage)
        most = max(most, collector.frozen + collector.watched)
    assert most <= 2 * (1000 + 300) + 300


REAL = """
import gc, weakref
from kraft.cli.heap import Heap

class Node:
    pass

gc.disable()
moments = iter(range(10**9))
Heap(gc, lambda: next(moments)).begin()
cycle = Node()
cycle.itself = cycle
seen = weakref.ref(cycle)
kept = [Node() for _ in range(1000)]
gc.collect()
assert not gc.get_objects(), "what lives is set aside"
del cycle
gc.collect()
assert seen() is not None, "and not looked at"
for _ in range(100):
    kept += [Node() for _ in range(10_000)]
    gc.collect()
assert seen() is None, "until as much was set aside again"
print(gc.get_freeze_count() > len(kept))
"""


def test_the_collector_of_this_interpreter_behaves_like_the_model() -> None:
    done = subprocess.run([sys.executable, "-c", REAL], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_what_is_imported_later_is_frozen_without_a_collection_meanwhile() -> None:
    collector = begun(100)
    heap = Heap(collector, lambda: collector.now)
    with heap.growing():
        assert not collector.is_enabled
        collector.watched += 50
    assert (collector.is_enabled, collector.watched, collector.frozen) == (True, 0, 150)
