"""How much work one step of an event loop does, for tests: counted in calls, which are the same on every machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import trio


class WorkOfSteps:
    """How often each of some functions is called in one step, at most, since `begin`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *functions: tuple[Any, str]) -> None:
        """`functions`: where each is found, and its name there."""
        self.most: Counter[str] = Counter()
        self._step: Counter[str] = Counter()
        self._at: tuple[object, int] | None = None
        for where, name in functions:
            monkeypatch.setattr(where, name, self._counted(getattr(where, name), name))

    def begin(self) -> None:
        """Forget what was counted. A step that runs counts from here."""
        self.most.clear()
        self._step.clear()

    def _counted(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def counted(*args: Any, **named: Any) -> Any:
            task = trio.lowlevel.current_task()
            # Trio counts the steps of each task.
            at = task, task._schedule_points
            if at != self._at:
                self._at = at
                self._step.clear()
            self._step[name] += 1
            self.most[name] = max(self.most[name], self._step[name])
            return function(*args, **named)

        return counted
