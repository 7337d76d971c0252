"""Trio's order of tasks, made to follow from a seed.

Trio shuffles what is runnable. With both of its private knobs set it sorts the batch by task number first and
shuffles with a generator that can be seeded; with one alone, ties stay random (addresses of objects). So does the
order in which a cancellation reaches tasks, whose waits it ends at once, until cancel scopes keep them in order. All
this is why tests/constraints.txt pins trio exactly, and why this module refuses to go on without it.
"""

from __future__ import annotations

import contextlib
import inspect
import random
import threading
from collections.abc import Iterator
from typing import Any

from trio._core import _run

KNOBS = ("_ALLOW_DETERMINISTIC_SCHEDULING", "_r")
FACTORIES = ("__attr_factory__tasks", "__attr_factory__children")
"""What makes the sets, of tasks and of inner scopes, that a cancellation goes through."""


class _InOrder(dict[Any, None]):
    """A set that is gone through in the order of insertion, as far as `CancelStatus` uses it."""

    add = dict.setdefault
    remove = dict.__delitem__


def check_knobs() -> None:
    """Raises RuntimeError unless trio's loop still reads both knobs, and its cancel scopes make their sets as we
    know it."""
    for factory in FACTORIES:
        if _run.CancelStatus.__init__.__globals__.get(factory) not in (set, _InOrder):
            raise RuntimeError(
                f"trio's CancelStatus has no {factory}: a simulation under this trio would not be repeatable"
            )
    loop = inspect.getsource(_run.unrolled_run)
    for knob in KNOBS:
        if not hasattr(_run, knob) or knob not in loop:
            raise RuntimeError(f"trio._core._run.{knob} is gone: a simulation under this trio would not be repeatable")


class _ByThread:
    """The generator of trio's loops: `seeded` for the thread that made this, `others` for loops of other threads.

    Without it a cluster that serves on another thread draws from the seeded generator, too, and two runs differ.
    """

    def __init__(self, seed: str, others: random.Random) -> None:
        self._thread, self._seeded, self._others = threading.get_ident(), random.Random(seed), others

    def shuffle(self, batch: list[Any]) -> None:
        """Most batches are of one task, and draw nothing."""
        if len(batch) > 1:
            (self._seeded if threading.get_ident() == self._thread else self._others).shuffle(batch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._seeded if threading.get_ident() == self._thread else self._others, name)


@contextlib.contextmanager
def seeded_scheduling(seed: str) -> Iterator[None]:
    """Trio runs begun inside, on this thread, schedule their tasks as `seed` says; afterwards chance has it back."""
    check_knobs()
    factories = _run.CancelStatus.__init__.__globals__
    before = {name: getattr(_run, name) for name in KNOBS}
    sets = {name: factories[name] for name in FACTORIES}
    for name, value in zip(KNOBS, (True, _ByThread(seed, _run._r)), strict=True):
        setattr(_run, name, value)  # One is declared Final: setattr, so that the type checker lets us.
    factories.update(dict.fromkeys(FACTORIES, _InOrder))
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(_run, name, value)
        factories.update(sets)
