"""How much work one step of an event loop does, for tests: counted in calls, which are the same on every machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import trio


class WorkOfSteps(trio.abc.Instrument):
    """How often each of some functions is called in one step, at most. Counts once it is added to a loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *functions: tuple[Any, str]) -> None:
        """`functions`: where each is found, and its name there."""
        self.most: Counter[str] = Counter()
        self._step: Counter[str] = Counter()
        for where, name in functions:
            monkeypatch.setattr(where, name, self._counted(getattr(where, name), name))

    def _counted(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def counted(*args: Any, **named: Any) -> Any:
            self._step[name] += 1
            return function(*args, **named)

        return counted

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._step.clear()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.most |= self._step
