"""Changes that a client can safely retry: requests with the same Idempotency-Key are carried out once."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kraft_http.requests.errors import ApiProblem

T = TypeVar("T")

KEPT_SECONDS: Final = 3600.0
"""How long a response is kept."""
KEYS_MAX: Final = 1_000
"""Limit of kept responses. The oldest are dropped."""
KEY_CHARACTERS_MAX: Final = 255


@dataclass(slots=True)
class _Change:
    digest: bytes
    task: asyncio.Task[Any]
    until: float = math.inf


class IdempotencyKeys:
    """The keys that this node has received, in memory. Used by the tasks of one event loop."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._changes: dict[tuple[str, str], _Change] = {}

    async def of(self, principal: str, key: str, body: bytes, change: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run `change` once for this key, and return its result to every request with the key. It continues if the
        client disconnects. A failure is raised to all waiting requests and not kept, so a retry runs the change again.

        Raises ApiProblem 422 for a key that was used with another body, 503 while the table is full of running changes.
        """
        now, digest = self._now(), hashlib.blake2b(body).digest()
        self._changes = {each: begun for each, begun in self._changes.items() if begun.until > now}
        begun = self._changes.get((principal, key))
        if begun is None:
            self._make_room()
            begun = self._changes[principal, key] = _Change(digest, asyncio.create_task(change()))
            begun.task.add_done_callback(lambda task: self._keep(begun))
        elif begun.digest != digest:
            raise ApiProblem(
                422, "This Idempotency-Key was already used with another body.", hint="Use a new key for each change."
            )
        told: Awaitable[T] = asyncio.shield(begun.task)
        return await told

    def _make_room(self) -> None:
        if len(self._changes) < KEYS_MAX:
            return
        oldest = next((each for each, begun in self._changes.items() if begun.task.done()), None)
        if oldest is None:
            raise ApiProblem(503, f"{KEYS_MAX} changes with an Idempotency-Key are in progress.")
        del self._changes[oldest]

    def _keep(self, begun: _Change) -> None:
        failed = begun.task.cancelled() or begun.task.exception() is not None
        begun.until = -math.inf if failed else self._now() + KEPT_SECONDS
