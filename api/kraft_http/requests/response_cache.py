"""A short-lived cache of responses that need every broker: pages that refresh every few seconds, in any number of
windows, cause one round of requests."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

T = TypeVar("T")

KEPT_SECONDS: Final = 2.0
"""Age at which a response is dropped."""
ANSWERS_MAX: Final = 64
"""Limit of responses that are cached or in progress. Further requests are not shared."""


def loop_seconds() -> float:
    """The clock of the running event loop."""
    return asyncio.get_running_loop().time()


@dataclass(slots=True)
class _Answer:
    task: asyncio.Task[Any]
    until: float = math.inf


class ResponseCache:
    """Used by the tasks of one event loop. A key holds everything that the response depends on, permissions
    included."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._answers: dict[Hashable, _Answer] = {}

    async def of(self, key: Hashable, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of `ask`, or a recent or pending one under the same key. The call continues if its first client
        disconnects. A failure is raised to all waiting requests and not cached."""
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
