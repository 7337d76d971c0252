"""Batches that are not committed yet, and the responses that depend on them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import trio

from kraft.common.errors import ApiError, KraftError
from kraft.common.ids import TopicPartition
from kraft.coordinator.coordinator_log import CoordinatorLog
from kraft.coordinator.errors import append_error
from kraft.coordinator.shard import LogRecord, Marker, Producer, Token
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.record_batch import HEADER_SIZE

S = TypeVar("S")

APPEND_BYTES_MAX = 512 * 1024
"""Limit of a batch of several operations, if max.message.bytes allows it."""
OPERATION_BYTES_MAX = 16 * 1024 * 1024
"""Limit of one operation. It is in one batch, which may exceed max.message.bytes: the assignment of some ten thousand
members does."""
RECORD_BYTES = 32
"""The most bytes of a record in a batch besides its key and value: two varint lengths, attributes, deltas."""


class Waiter:
    """Waits for the response of one request."""

    __slots__ = ("_answer", "_error", "_event", "answered")

    def __init__(self) -> None:
        self._event: trio.Event | None = None
        self._answer: Any = None
        self._error: ApiError | None = None
        self.answered = False

    def answer(self, response: Any, error: ApiError | None = None) -> None:
        assert not self.answered, "a request has one answer"
        self._answer, self._error, self.answered = response, error, True
        if self._event is not None:
            self._event.set()

    async def wait(self) -> Any:
        """Return the response. Raises the request's ApiError."""
        if not self.answered:
            self._event = trio.Event()
            await self._event.wait()
        if self._error is not None:
            raise self._error
        return self._answer


class Batch(Generic[S]):
    """Records appended together, the responses and effects that depend on them, and the state to restore if the append
    fails. Records of a producer's transaction, or a marker, are a batch of their own.

    `deadline_ms` is when waiting requests time out; it is valid only while there are any.
    """

    __slots__ = (
        "answers",
        "before",
        "deadline_ms",
        "effects",
        "first_token",
        "last_offset",
        "marker",
        "operations",
        "producer",
    )

    def __init__(
        self, before: S, first_token: Token, producer: Producer | None = None, marker: Marker | None = None
    ) -> None:
        self.before = before
        self.first_token = first_token
        self.producer = producer
        self.marker = marker
        self.deadline_ms = 0
        self.operations: list[list[LogRecord]] = []
        self.answers: list[tuple[Waiter, Any]] = []
        self.effects: list[Any] = []
        self.last_offset = -1

    @property
    def is_alone(self) -> bool:
        """Whether no other operation may share the batch."""
        return self.producer is not None or self.marker is not None

    def fail(self, error: ApiError) -> None:
        """Fail every waiting request."""
        answers, self.answers = self.answers, []
        for waiter, _ in answers:
            waiter.answer(None, error)


class PendingBatches(Generic[S]):
    """All batches not yet committed, oldest first: appended but above the high watermark, being appended (at most one),
    and waiting. `perform` is called with each effect of a committed batch."""

    __slots__ = ("_perform", "appended", "appending", "waiting")

    def __init__(self, perform: Callable[[Any], None]) -> None:
        self.appended: deque[Batch[S]] = deque()
        self.appending: Batch[S] | None = None
        self.waiting: deque[Batch[S]] = deque()
        self._perform = perform

    @property
    def oldest(self) -> Batch[S] | None:
        if self.appended:
            return self.appended[0]
        return self.appending or (self.waiting[0] if self.waiting else None)

    @property
    def newest(self) -> Batch[S] | None:
        if self.waiting:
            return self.waiting[-1]
        return self.appending or (self.appended[-1] if self.appended else None)

    def append(self, batch: Batch[S]) -> None:
        """Add a `batch` that is in the log up to its `last_offset`. For a marker that was already in the log, this is
        the log's end at the time."""
        before = self.appended[-1].last_offset if self.appended else -1
        end = batch.last_offset
        assert end >= before, f"a batch that ends at {end}, behind one that does at {before}"
        self.appended.append(batch)

    def advance(self, high_watermark: int) -> None:
        """Complete the batches below the new high watermark: release their responses and effects."""
        while self.appended and self.appended[0].last_offset < high_watermark:
            committed = self.appended.popleft()
            for waiter, response in committed.answers:
                waiter.answer(response)
            for effect in committed.effects:
                self._perform(effect)

    def fail_unappended(self, error: ApiError, later: ApiError) -> None:
        """Drop the batches not in the log and fail their requests: with `error` for the batch being appended, with
        `later` for those after it."""
        if self.appending is not None:
            self.appending.fail(error)
        self.appending = None
        while self.waiting:
            self.waiting.popleft().fail(later)

    def fail_all(self, error: ApiError) -> None:
        self.fail_unappended(error, error)
        while self.appended:
            self.appended.popleft().fail(error)

    def time_out(self, now_ms: int, error: ApiError) -> None:
        """Fail requests whose replication takes too long. Their records stay in the log and may still be committed."""
        for batch in self.appended:
            if batch.answers and batch.deadline_ms <= now_ms:
                batch.fail(error)

    def next_deadline_ms(self) -> float:
        return min((batch.deadline_ms for batch in self.appended if batch.answers), default=math.inf)


def require_room(records: Sequence[LogRecord], log: CoordinatorLog, partition: TopicPartition) -> None:
    """Reject an operation with a record too large, or with too many records, for one batch, before it joins others.
    Raises the ApiError for its client."""
    try:
        batch_bytes_max, append_bytes_max = log.batch_bounds(partition)
    except KraftError as problem:
        raise append_error(problem) from problem
    record_room = batch_bytes_max - HEADER_SIZE
    room = min(OPERATION_BYTES_MAX, append_bytes_max - HEADER_SIZE)
    size = _size(records)
    if size > record_room and (largest := max(_size((record,)) for record in records)) > record_room:
        raise _too_large(f"a record of {largest} bytes is too large for a batch of {partition}")
    if size > room:
        raise _too_large(f"{len(records)} records of {size} bytes are too much for one batch of {partition}")


def _too_large(what: str) -> ApiError:
    return append_error(ApiError(ErrorCode.MESSAGE_TOO_LARGE, what))


def _size(records: Sequence[LogRecord]) -> int:
    """An upper bound of the records' size in a batch, in bytes, without the batch header."""
    return sum([len(key) + len(value or b"") + RECORD_BYTES for key, value in records])


def chunks(operations: list[list[LogRecord]], batch_bytes_max: int) -> Iterator[list[LogRecord]]:
    """Group operations into batches, without splitting any. An operation too large to share a batch gets its own,
    whatever its size: a reader of the log must never see part of an operation."""
    if len(operations) == 1:
        yield operations[0]
        return
    room = min(APPEND_BYTES_MAX, batch_bytes_max - HEADER_SIZE)
    chunk: list[LogRecord] = []
    size = 0
    for records in operations:
        needed = _size(records)
        if chunk and size + needed > room:
            yield chunk
            chunk, size = [], 0
        chunk += records
        size += needed
    if chunk:
        yield chunk
