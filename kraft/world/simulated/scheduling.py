"""Trio's order of tasks, made to follow from a seed.

Trio shuffles what is runnable. With both of its private knobs set it sorts the batch by task number first and shuffles with a generator that can be seeded;
with one alone, ties stay random (addresses of objects). The knobs are why pyproject pins trio exactly, and why this module refuses to go on without them.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator

from trio._core import _run

KNOBS = ("_ALLOW_DETERMINISTIC_SCHEDULING", "_r")


def check_knobs() -> None:
    """Raises RuntimeError unless trio's loop still reads both knobs."""
    loop = inspect.getsource(_run.unrolled_run)
    for knob in KNOBS:
        if not hasattr(_run, knob) or knob not in loop:
            raise RuntimeError(f"trio._core._run.{knob} is gone: a simulation under this trio would not be repeatable")


@contextlib.contextmanager
def seeded_scheduling(seed: str) -> Iterator[None]:
    """Trio runs begun inside schedule their tasks as `seed` says; afterwards chance has it back."""
    check_knobs()
    before = _run._ALLOW_DETERMINISTIC_SCHEDULING
    state = _run._r.getstate()
    setattr(_run, KNOBS[0], True)  # It is declared Final: setattr, so that the type checker lets us.
    _run._r.seed(seed)
    try:
        yield
    finally:
        setattr(_run, KNOBS[0], before)
        _run._r.setstate(state)
