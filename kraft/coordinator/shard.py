"""The contract between a coordinator's state machine and the runtime that hosts it.

A state machine implements `CoordinatorShard`; its operations are functions over a `Draft`. The state value is
immutable: a draft starts from it and yields the next one, so putting an old value back undoes everything, deadlines
included, because deadlines are part of the value. The host only keeps an index of them.
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
    """When an operation runs: `now_ms` on the node's monotonic clock (deadlines), `wall_ms` since the Unix epoch
    (timestamps in records)."""

    __slots__ = ("now_ms", "wall_ms")

    def __init__(self, now_ms: int, wall_ms: int) -> None:
        self.now_ms = now_ms
        self.wall_ms = wall_ms


class Draft(Protocol[S_co]):
    """One operation's work in progress. Thrown away when the operation raises."""

    @property
    def records(self) -> list[LogRecord]:
        """Records to append, in order; the draft's state already includes them."""

    @property
    def completions(self) -> list[tuple[Token, Any]]:
        """Answers for requests parked before (or by this very operation)."""

    @property
    def timers(self) -> list[TimerKey]:
        """Keys whose deadline this operation set. The deadline itself is read from the state."""

    @property
    def effects(self) -> list[Any]:
        """What is to be done beyond the log, once everything written so far is committed. The host hands each to the
        runtime's `perform`, once or, where a coordinator comes back, again."""

    @property
    def notes(self) -> list[dict[str, Any]]:
        """Events for the node's log, once the operation is adopted."""

    def finish(self) -> S_co:
        """The state after the operation."""


class CoordinatorShard(Protocol[S]):
    """A state machine over one log partition, which is compacted: whoever replays it may leave out a record that a
    later one of the same key supersedes."""

    def empty(self) -> S: ...
    def replay(self, state: S, key: bytes, value: bytes | None, producer: Producer | None = None) -> S:
        """The state after one record of the log; used while loading. `producer`: whose transaction it belongs to, if
        any. Unknown record types change nothing. Raises ProtocolError on bytes that cannot be read."""

    def replay_marker(self, state: S, marker: Marker) -> S:
        """The state after the end of a producer's transaction. One that is not known here changes nothing."""

    def draft(
        self, state: S, token: Token, moment: Moment, producer: Producer | None = None, committed: S | None = None
    ) -> Any:
        """A draft (this shard's own kind of `Draft`) that starts from `state`. `producer`: whose transaction its
        records belong to. `committed`: the state as of the high watermark; None where that is `state`."""

    def loaded(self, draft: Any) -> None:
        """Called once, when the whole log has been replayed and before the first operation: sessions start afresh.

        The host indexes every deadline of the state afterwards, so `draft.timers` may stay empty."""

    def deadlines(self, state: S) -> Iterable[tuple[TimerKey, int]]:
        """Every deadline in the state, in monotonic milliseconds."""

    def deadline_of(self, state: S, key: TimerKey) -> int | None: ...
    def expire(self, draft: Any, key: TimerKey) -> None:
        """The deadline of `key` has passed. The draft's state must no longer hold a deadline for `key` that has
        passed already."""
