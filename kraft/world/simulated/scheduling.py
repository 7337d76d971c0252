"""Trio's order of tasks, made to follow from a seed.

Trio shuffles what is runnable. With both of its private knobs set it sorts the batch by task number first and
shuffles with a generator that can be seeded; with one alone, ties stay random (addresses of objects). So does the
order in which a cancellation reaches tasks, whose waits it ends at once, until cancel scopes keep them in order. All
this is why tests/constraints.txt pins trio exactly, and why this module refuses to go on without it.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

from trio._core import _run

KNOBS = ("_ALLOW_DETERMINISTIC_SCHEDULING", "_r")
FACTORIES = ("__attr_factory__tasks", "__attr_factory__children")
"""What makes the sets, of tasks and of inner scopes, that a cancellation goes through."""


class _InOrder(dict[Any, None]):
    """A set that is gone through in the order of insertion, as far as `CancelStatus` uses it."""

    def add(self, member: object) -> None:
        self[member] = None

    def remove(self, member: object) -> None:
        del self[member]


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


@contextlib.contextmanager
def seeded_scheduling(seed: str) -> Iterator[None]:
    """Trio runs begun inside schedule their tasks as `seed` says; afterwards chance has it back."""
    check_knobs()
    factories = _run.CancelStatus.__init__.__globals__
    before, sets = _run._ALLOW_DETERMINISTIC_SCHEDULING, {name: factories[name] for name in FACTORIES}
    state = _run._r.getstate()
    setattr(_run, KNOBS[0], True)  # It is declared Final: setattr, so that the type checker lets us.
    _run._r.seed(seed)
    factories.update(dict.fromkeys(FACTORIES, _InOrder))
    try:
        yield
    finally:
        setattr(_run, KNOBS[0], before)
        _run._r.setstate(state)
        factories.update(sets)
