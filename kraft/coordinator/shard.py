"""The contract between a coordinator's state machine and the runtime that hosts it.

A state machine implements `CoordinatorShard`; its operations are functions over a `Draft`. The state value is
immutable: a draft starts from it and produces the next one. Restoring an old value undoes everything, including
deadlines, because deadlines are part of the value. The host only keeps an index of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from kraft.storage.producers.verification import Verification

TimerKey = tuple[str, ...]
Token = int
LogRecord = tuple[bytes, bytes | None]
"""Key and value of one record to append; a value of None is a tombstone."""


class Producer(NamedTuple):
    """The producer that writes an operation's records in a transaction. `guard` is the verification that the log
    requires before it opens the transaction; None where it is open already."""

    producer_id: int
    producer_epoch: int
    guard: Verification | None = None


class Marker(NamedTuple):
    """The end of a producer's transaction on one partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int


Operation = Callable[[Any], Any]
"""Takes the shard's draft; returns the response or PARKED; raises ApiError to refuse."""


class Deferred:
    """The type of `PARKED`: the answer comes later, as a completion under the draft's token."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "PARKED"


PARKED: Final = Deferred()

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)


class Moment:
    """The time of an operation: `now_ms` on the node's monotonic clock (for deadlines), `wall_ms` since the Unix epoch
    (for timestamps in records)."""

    __slots__ = ("now_ms", "wall_ms")

    def __init__(self, now_ms: int, wall_ms: int) -> None:
        self.now_ms = now_ms
        self.wall_ms = wall_ms


class Draft(Protocol[S_co]):
    """The changes of one operation. Discarded if the operation raises."""

    @property
    def records(self) -> list[LogRecord]:
        """Records to append, in order; the draft's state already includes them."""

    @property
    def completions(self) -> list[tuple[Token, Any]]:
        """Responses to parked requests, of earlier operations or this one."""

    @property
    def timers(self) -> list[TimerKey]:
        """Keys whose deadlines this operation set. The deadlines are read from the state."""

    @property
    def effects(self) -> list[Any]:
        """Actions to perform once everything written so far is committed. The host passes each to the runtime's
        `perform`, possibly again after a reload."""

    @property
    def notes(self) -> list[dict[str, Any]]:
        """Events to log once the operation is adopted."""

    def finish(self) -> S_co:
        """The state after the operation."""


class CoordinatorShard(Protocol[S]):
    """A state machine over one log partition.

    `is_compacted`: a record replaces the earlier ones of its key, so those need not be replayed. Otherwise every record
    is replayed.
    """

    @property
    def is_compacted(self) -> bool: ...
    def empty(self) -> S: ...
    def replay(self, state: S, key: bytes, value: bytes | None, producer: Producer | None = None) -> S:
        """The state after one record of the log, while loading. `producer` is the producer in whose transaction it was
        written, if any. Unknown record types are ignored. Raises ProtocolError for unreadable bytes."""

    def replay_marker(self, state: S, marker: Marker) -> S:
        """The state after a transaction marker. A marker of an unknown transaction is ignored."""

    def draft(
        self, state: S, token: Token, moment: Moment, producer: Producer | None = None, committed: S | None = None
    ) -> Any:
        """Create a draft (of this shard's own type) from `state`. `producer` is the producer in whose transaction its
        records are written. `committed` is the state as of the high watermark; None if that is `state`."""

    def loaded(self, draft: Any) -> None:
        """Called once, after the whole log was replayed and before the first operation. Restarts sessions.

        The host then indexes every deadline of the state, so `draft.timers` may stay empty.
        """

    def deadlines(self, state: S) -> Iterable[tuple[TimerKey, int]]:
        """Every deadline in the state, in monotonic milliseconds."""

    def deadline_of(self, state: S, key: TimerKey) -> int | None: ...
    def expire(self, draft: Any, key: TimerKey) -> None:
        """Handle the passed deadline of `key`. Afterwards the draft's state must not have a passed deadline
        for `key`."""
