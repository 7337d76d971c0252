"""Watches trio's event loop for long steps, by a trio instrument.

Instruments are called for every step, so this one does as little as it can: one reading of the clock, one comparison.
The time that the loop waits for something to do is added up, too.
A step is measured from the end of the one before it, or from the end of the loop's wait; trio's own work between two
steps counts too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import trio

from kraft.world.ports import LONG_STEP_SECONDS, StepWatcher


class RealLoop:
    """Implements `kraft.world.ports.Loop`."""

    __slots__ = ("_clock",)

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """`clock` returns seconds. A test on a busy machine passes `time.thread_time`: then a step is as long as its
        CPU time."""
        self._clock = clock

    @contextmanager
    def watch(self, watcher: StepWatcher) -> Iterator[None]:
        instrument = _StepInstrument(watcher, self._clock)
        trio.lowlevel.add_instrument(instrument)
        try:
            yield
        finally:
            with suppress(KeyError):  # trio removes an instrument that raised.
                trio.lowlevel.remove_instrument(instrument)


class _StepInstrument(trio.abc.Instrument):
    __slots__ = ("_clock", "_ended", "_watcher")

    def __init__(self, watcher: StepWatcher, clock: Callable[[], float]) -> None:
        self._watcher = watcher
        self._clock = clock
        self._ended = clock()

    def after_io_wait(self, timeout: float) -> None:
        now = self._clock()
        if timeout > 0:
            self._watcher.idle_seconds += now - self._ended
        self._ended = now

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        now = self._clock()
        if now - self._ended >= LONG_STEP_SECONDS:
            self._watcher.long_step(task.name, now - self._ended)
            now = self._clock()
        self._ended = now
