"""What trio does at every step for features that no simulation uses, made cheap: deadlines of its own, instruments, and
an outcome for each task that is woken with nothing.

Nothing here changes what happens, or in which order. Each is a tenth or so of what a step of trio's loop costs, and a
cluster takes thousands of steps a simulated second.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any, Final

import trio
from trio._core import _run
from trio._core._instrumentation import Instruments

RESCHEDULES: Final = (_run.Runner.reschedule, trio.lowlevel.reschedule)
"""The one default of both is what a task is woken with."""
DEADLINE_CHANGE: Final = "_might_change_registered_deadline"


class _Nothing:
    """The outcome None. Trio makes one for each waking, as its own may be used once."""

    __slots__ = ()

    def unwrap(self) -> None:
        return None


NOTHING: Final = _Nothing()
_change_deadline: Any = getattr(_run.CancelScope, DEADLINE_CHANGE)


class _DeadlineChange:
    """What trio does around a change of a cancel scope, left out where the scope has no deadline."""

    __slots__ = ("_scope",)

    def __init__(self, scope: Any) -> None:
        self._scope = scope

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        scope = self._scope
        if scope._deadline != math.inf or scope._registered_deadline != math.inf:
            with _change_deadline(scope):
                pass


def _deadline_change(scope: Any) -> _DeadlineChange:
    return _DeadlineChange(scope)


def _check() -> None:
    """Raises RuntimeError unless trio wakes tasks as this module knows."""
    for reschedule in RESCHEDULES:
        if reschedule.__defaults__ not in ((_run._NO_SEND,), (NOTHING,)):
            raise RuntimeError("what trio wakes tasks with is not the one default of its reschedule any more")


def _wake_with(outcome: Any) -> None:
    for reschedule in RESCHEDULES:
        reschedule.__defaults__ = (outcome,)


@contextlib.contextmanager
def shortcuts() -> Iterator[None]:
    """Trio runs inside take them; afterwards trio is as it was. Raises RuntimeError where trio is another."""
    _check()
    _wake_with(NOTHING)
    setattr(_run.CancelScope, DEADLINE_CHANGE, _deadline_change)
    try:
        yield
    finally:
        setattr(_run.CancelScope, DEADLINE_CHANGE, _change_deadline)
        _wake_with(_run._NO_SEND)


class _NoInstruments(dict[str, Any]):
    """A run's instruments until the first is added: trio asks it by hook, many times a step, whether it has any."""

    __slots__ = ("_runner",)

    def __init__(self, runner: Any) -> None:
        self._runner = runner

    def add_instrument(self, instrument: trio.abc.Instrument) -> None:
        """From now on trio's own are asked."""
        self._runner.instruments = Instruments([])
        self._runner.instruments.add_instrument(instrument)

    def remove_instrument(self, instrument: trio.abc.Instrument) -> None:
        """Raises KeyError, as trio's do: none was added."""
        raise KeyError(instrument)


def without_instruments() -> None:
    """While trio's present run has none, a plain dict says so."""
    runner: Any = _run.GLOBAL_RUN_CONTEXT.runner
    if not runner.instruments["_all"]:
        runner.instruments = _NoInstruments(runner)
