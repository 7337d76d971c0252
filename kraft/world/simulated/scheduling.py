"""Make trio's order of tasks depend on a seed.

Trio shuffles the runnable tasks. If both of its private knobs are set, it first sorts the batch by task number, and
then shuffles with a generator that can be seeded. With only one of them, ties stay random (addresses of objects). The
order in which a cancellation reaches tasks is also random, until cancel scopes keep their tasks in order. These are
private parts of trio, so tests/constraints.txt pins trio exactly, and this module raises an error if they are missing.
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
"""The default factories of the two sets over which a cancellation iterates: the tasks and the inner scopes of a cancel
scope."""


class _InOrder(dict[Any, None]):
    """A set with iteration in the order of insertion. It has only the methods that `CancelStatus` uses."""

    add = dict.setdefault
    remove = dict.__delitem__


def check_knobs() -> None:
    """Raise RuntimeError unless trio's loop still reads both knobs, and its cancel scopes still create their sets by
    the known factories."""
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
    """The random generator of trio's loops: `seeded` for the thread that created this object, `others` for loops of
    other threads.

    Otherwise a cluster that runs on another thread would draw from the seeded generator, too, and two runs would
    differ.
    """

    def __init__(self, seed: str, others: random.Random) -> None:
        self._thread, self._seeded, self._others = threading.get_ident(), random.Random(seed), others

    def shuffle(self, batch: list[Any]) -> None:
        """Shuffle a batch. Most batches have one task, and draw no random number."""
        if len(batch) > 1:
            (self._seeded if threading.get_ident() == self._thread else self._others).shuffle(batch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._seeded if threading.get_ident() == self._thread else self._others, name)


@contextlib.contextmanager
def seeded_scheduling(seed: str) -> Iterator[None]:
    """Let trio runs that start in this context, on this thread, schedule their tasks by `seed`. Afterwards the order is
    random again."""
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
