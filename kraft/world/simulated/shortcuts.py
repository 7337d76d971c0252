"""Shorter forms of work that trio does at every step for features that no simulation uses. These are deadlines of
trio's own, instruments, an outcome object for each task that is woken without a value, cancel scopes that are entered
and left without a cancellation, and asking the kernel for events at every turn (`loop`).

The shorter forms change neither what happens nor the order. A cluster takes thousands of steps per simulated second,
and enters hundreds of scopes.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any, Final

import trio
from trio._core import _run
from trio._core._instrumentation import Instruments

from kraft.world.simulated import loop

RESCHEDULES: Final = (_run.Runner.reschedule, trio.lowlevel.reschedule)
"""The functions that wake a task. The only default of each is the value with which the task is woken."""
DEADLINE_CHANGE: Final = "_might_change_registered_deadline"


class _Nothing:
    """The outcome None, shared by all wakings. Trio creates one for each waking, because its own outcomes can be used
    only once."""

    __slots__ = ()

    def unwrap(self) -> None:
        return None


NOTHING: Final = _Nothing()
_change_deadline: Any = getattr(_run.CancelScope, DEADLINE_CHANGE)
_enter_any: Any = _run.CancelScope.__enter__
_leave_any: Any = _run.CancelScope.__exit__
_check_deadlines: Any = _run.CancelScope.__attrs_post_init__
_new_status: Any = _run.CancelStatus.__new__


class _DeadlineChange:
    """A context manager for a change of a cancel scope. Trio's own update runs only if the scope has a deadline."""

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


def _made(scope: Any) -> None:
    if scope._deadline != math.inf or scope._relative_deadline != math.inf:
        _check_deadlines(scope)


@trio.lowlevel.enable_ki_protection
def _enter(scope: Any) -> Any:
    """Enter a cancel scope. If the scope has a deadline, trio's own code enters it. Otherwise the steps that deal with
    a cancellation are skipped, unless this scope or a surrounding one is cancelled."""
    if scope._has_been_entered or scope._deadline != math.inf or scope._relative_deadline != math.inf:
        return _enter_any(scope)
    scope._has_been_entered = True
    context = _run.GLOBAL_RUN_CONTEXT
    task: Any = context.task
    context.runner.clock.current_time()  # Trio reads it here, too, and each reading advances simulated time.
    parent = task._cancel_status
    if parent is None or parent.effectively_cancelled or scope._cancel_called:
        scope._cancel_status = _run.CancelStatus(scope=scope, parent=parent)
        task._activate_cancel_status(scope._cancel_status)
        return scope
    new_set = type(parent._tasks)
    scope._cancel_status = status = _new_status(_run.CancelStatus)
    status._scope, status._parent = scope, parent
    status._children, status._tasks = new_set(), new_set()
    status.effectively_cancelled = status.abandoned_by_misnesting = False
    parent._children.add(status)
    parent._tasks.remove(task)
    status._tasks.add(task)
    task._cancel_status = status
    return scope


@trio.lowlevel.enable_ki_protection
def _leave(scope: Any, kind: Any, error: Any, traceback: Any) -> Any:
    """Exit a cancel scope. The short way is for a scope without a deadline that was not cancelled, and that is the
    innermost scope of the task which entered it. In all other cases trio's own code exits the scope."""
    status, task = scope._cancel_status, _run.GLOBAL_RUN_CONTEXT.task
    if (
        status is None
        or task._cancel_status is not status
        or status.effectively_cancelled
        or status._parent is None
        or status._children
        or len(status._tasks) != 1
        or scope._registered_deadline != math.inf
    ):
        return _leave_any(scope, kind, error, traceback)
    parent = task._cancel_status = status._parent
    status._tasks.remove(task)
    parent._tasks.add(task)
    parent._children.remove(status)
    status._parent = scope._cancel_status = None
    return error is None


SHORTER: Final[tuple[tuple[str, Any, Any], ...]] = (
    (DEADLINE_CHANGE, _deadline_change, _change_deadline),
    ("__attrs_post_init__", _made, _check_deadlines),
    ("__enter__", _enter, _enter_any),
    ("__exit__", _leave, _leave_any),
)
"""The replaced methods of a cancel scope: name, shorter form, trio's own form."""


def _check() -> None:
    """Raise RuntimeError unless trio wakes tasks in the way that this module knows."""
    for reschedule in RESCHEDULES:
        if reschedule.__defaults__ not in ((_run._NO_SEND,), (NOTHING,)):
            raise RuntimeError("what trio wakes tasks with is not the one default of its reschedule any more")


def _wake_with(outcome: Any) -> None:
    for reschedule in RESCHEDULES:
        reschedule.__defaults__ = (outcome,)


@contextlib.contextmanager
def shortcuts() -> Iterator[None]:
    """Let trio runs in this context use the shorter forms; restore trio afterwards. Raises RuntimeError if trio differs
    from the known version."""
    _check()
    _wake_with(NOTHING)
    for name, shorter, _ in SHORTER:
        setattr(_run.CancelScope, name, shorter)
    setattr(_run, loop.LOOP, loop.of_run)
    try:
        yield
    finally:
        setattr(_run, loop.LOOP, loop.of_any)
        for name, _, own in SHORTER:
            setattr(_run.CancelScope, name, own)
        _wake_with(_run._NO_SEND)


class _NoInstruments(dict[str, Any]):
    """The instruments of a run until the first is added. Trio looks up each hook in it, many times per step."""

    __slots__ = ("_runner",)

    def __init__(self, runner: Any) -> None:
        self._runner = runner

    def add_instrument(self, instrument: trio.abc.Instrument) -> None:
        """Replace this object by trio's own instruments, and add the instrument."""
        self._runner.instruments = Instruments([])
        self._runner.instruments.add_instrument(instrument)

    def remove_instrument(self, instrument: trio.abc.Instrument) -> None:
        """Raise KeyError, as trio does for an instrument that was not added."""
        raise KeyError(instrument)


def without_instruments() -> None:
    """Replace the instruments of trio's present run by an empty dict, if there are none."""
    runner: Any = _run.GLOBAL_RUN_CONTEXT.runner
    if not runner.instruments["_all"]:
        runner.instruments = _NoInstruments(runner)
