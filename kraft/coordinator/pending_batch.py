"""Records on their way into the log, and the answers that rest on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import trio

from kraft.common.errors import ApiError
from kraft.coordinator.shard import LogRecord, Token

S = TypeVar("S")

APPEND_BYTES_MAX = 512 * 1024
"""How much goes into one batch: well below max.message.bytes, whatever the framing adds."""


class Waiter:
    """Where one request waits for its answer."""

    __slots__ = ("_answer", "_error", "_event", "answered")

    def __init__(self) -> None:
        self._event: trio.Event | None = None
        self._answer: Any = None
        self._error: ApiError | None = None
        self.answered = False

    def answer(self, response: Any, error: ApiError | None = None) -> None:
        self._answer, self._error, self.answered = response, error, True
        if self._event is not None:
            self._event.set()

    async def wait(self) -> Any:
        """The response. Raises the ApiError it failed with."""
        if not self.answered:
            self._event = trio.Event()
            await self._event.wait()
        if self._error is not None:
            raise self._error
        return self._answer


class Batch(Generic[S]):
    """Records that are on their way: collected, being appended, or waiting for the high watermark; with the answers that rest on them, and the state to go back
    to."""

    __slots__ = ("answers", "before", "deadline_ms", "first_token", "last_offset", "operations")

    def __init__(self, before: S, first_token: Token, deadline_ms: float) -> None:
        self.before = before
        self.first_token = first_token
        self.deadline_ms = deadline_ms
        self.operations: list[list[LogRecord]] = []
        self.answers: list[tuple[Waiter, Any]] = []
        self.last_offset = -1


def chunks(operations: list[list[LogRecord]]) -> Iterator[list[LogRecord]]:
    """Records in groups that make a batch each: whole operations together as far as they fit; one that alone is too large is split."""
    chunk: list[LogRecord] = []
    size = 0
    for records in operations:
        needed = sum(_size(record) for record in records)
        if chunk and size + needed > APPEND_BYTES_MAX:
            yield chunk
            chunk, size = [], 0
        for record in records:
            if chunk and size + _size(record) > APPEND_BYTES_MAX:
                yield chunk
                chunk, size = [], 0
            chunk.append(record)
            size += _size(record)
    if chunk:
        yield chunk


def _size(record: LogRecord) -> int:
    """An upper bound of the record's bytes in a batch: two varint lengths, attributes, deltas."""
    return len(record[0]) + (len(record[1]) if record[1] is not None else 0) + 32
