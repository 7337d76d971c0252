"""Quarantine of items whose background work failed unexpectedly.

A loop over many items (transactions that time out, logs to clean, deadlines) does not end with one of them: that item
is quarantined, reported in the log and in the node's health, and counted; the others continue. When the work reaches
the item again and succeeds, it is released.

Only the boundary of an item is guarded. Expected errors (a rejection, a full disk) are handled where they occur, and an
unhandled disk failure still stops the role: that is no defect of the program.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from kraft.common.errors import StorageError

ITEMS_MAX: Final = 1_000
"""The number of items that are remembered. Further ones are only logged and counted."""
TRACE_LINES_MAX: Final = 12


class WallClock(Protocol):
    def wall_ms(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Failed:
    """A quarantined item: `work` on it has failed `count` times since `since_ms`, the last time with `error`."""

    work: str
    item: str
    since_ms: int
    count: int
    error: str


class Quarantine:
    """The quarantined items of one worker. `note` receives events for the node's log. `failures` is the number of
    failures by kind of work, including those of released items."""

    def __init__(self, clock: WallClock, note: Callable[[Mapping[str, Any]], None]) -> None:
        self._clock = clock
        self._note = note
        self._failed: dict[tuple[str, str], Failed] = {}
        self.failures: dict[str, int] = {}

    @contextmanager
    def guard(self, work: str, item: str, passing: tuple[type[Exception], ...] = ()) -> Iterator[None]:
        """Do one item's work. Exceptions are reported and suppressed, except for disk failures and `passing`, which the
        caller handles, and those that stop the node (cancellation, an interrupt)."""
        try:
            yield
        except Exception as problem:  # The boundary of an item: the others go on, and it is told.
            if isinstance(_cause_of(problem), (OSError, StorageError, *passing)):
                raise
            self._set_aside(work, item, problem)
        else:
            self._failed.pop((work, item), None)

    def keep(self, work: str, items: Collection[str]) -> None:
        """Release the items of this work that are not among `items`: nothing is left to do for them."""
        for key in [key for key in self._failed if key[0] == work and key[1] not in items]:
            del self._failed[key]

    def items(self) -> list[Failed]:
        """The quarantined items, oldest first."""
        return list(self._failed.values())

    def _set_aside(self, work: str, item: str, problem: Exception) -> None:
        self.failures[work] = self.failures.get(work, 0) + 1
        known = self._failed.get((work, item))
        since_ms = self._clock.wall_ms() if known is None else known.since_ms
        count = 1 if known is None else known.count + 1
        cause = _cause_of(problem)
        error = f"{type(cause).__name__}: {cause}"
        if known is not None or len(self._failed) < ITEMS_MAX:
            self._failed[work, item] = Failed(work, item, since_ms, count, error)
        trace = traceback.format_exception(problem)[-TRACE_LINES_MAX:]
        fields = {"work": work, "item": item, "count": count, "error": error, "trace": "".join(trace)}
        self._note({"event": "background_work_failed", "level": "error", **fields})


def _cause_of(problem: BaseException) -> BaseException:
    """The single error within the exception groups of nurseries, else the group."""
    while isinstance(problem, BaseExceptionGroup) and len(problem.exceptions) == 1:
        problem = problem.exceptions[0]
    return problem
