"""Answers that take a question to every broker, kept for a moment: pages that look again every few seconds, in however
many windows, ask the brokers once."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

T = TypeVar("T")

KEPT_SECONDS: Final = 2.0
"""Counted from when the answer came."""
ANSWERS_MAX: Final = 64
"""Kept, or on their way. What is asked beyond is asked by everybody alone."""


def loop_seconds() -> float:
    """The clock of the event loop that calls."""
    return asyncio.get_running_loop().time()


@dataclass(slots=True)
class _Answer:
    task: asyncio.Task[Any]
    until: float = math.inf


class ResponseCache:
    """Used by the tasks of one event loop. A key names everything that the answer depends on, permissions included."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._answers: dict[Hashable, _Answer] = {}

    async def of(self, key: Hashable, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What `ask` gives; or what it gave to somebody else under this key just now, or will. It goes on if the one
        who began goes away. A failure is raised to all who wait for it, and not kept."""
        now = self._now()
        self._answers = {each: answer for each, answer in self._answers.items() if answer.until > now}
        answer = self._answers.get(key)
        if answer is None:
            if len(self._answers) >= ANSWERS_MAX:
                return await ask()
            answer = self._answers[key] = _Answer(asyncio.create_task(ask()))
            answer.task.add_done_callback(lambda task: self._keep(answer))
        told: Awaitable[T] = asyncio.shield(answer.task)
        return await told

    def _keep(self, answer: _Answer) -> None:
        failed = answer.task.cancelled() or answer.task.exception() is not None
        answer.until = -math.inf if failed else self._now() + KEPT_SECONDS
