"""The work that a step requests, and its order. Safety rests on the order: a vote or an acknowledgement leaves only
after the state that it promises is on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kraft.common.ids import OffsetAndEpoch
from kraft.raft.core.election_state import ElectionState
from kraft.raft.core.log_state import Batch
from kraft.raft.core.messages import Request, Response
from kraft.raft.core.voter_set import Endpoints


class Append(NamedTuple):
    """Write `batches` at the end of the log."""

    batches: tuple[Batch, ...]


class Truncate(NamedTuple):
    """Remove the records from `end_offset` on."""

    end_offset: int


class SnapshotChunk(NamedTuple):
    """Write a downloaded part of `snapshot` at `position`. With `last`, check the file, sync it, rename it to its final
    name, and report `SnapshotDownloaded`."""

    snapshot: OffsetAndEpoch
    position: int
    data: bytes | memoryview
    last: bool


class StartFromSnapshot(NamedTuple):
    """Remove all records. The log then starts and ends at `snapshot`."""

    snapshot: OffsetAndEpoch


class Flush(NamedTuple):
    """Sync the log up to `end_offset`, then report `LogFlushed` with the same values."""

    end_offset: int
    generation: int


LogOperation = Append | Truncate | SnapshotChunk | StartFromSnapshot


class Send(NamedTuple):
    """A request to the replica `to` (negative: a bootstrap server). The response is reported as an event with this
    correlation."""

    to: int
    endpoints: Endpoints
    correlation: int
    request: Request


class Reply(NamedTuple):
    """The response to the request with `token`. Its records or snapshot bytes are read when it is sent, and only while
    this replica still leads `epoch`."""

    token: object
    response: Response
    epoch: int = -1


Message = Send | Reply


class Apply(NamedTuple):
    """Everything before `high_watermark` is committed, so the state machine may apply it."""

    high_watermark: int


def is_replication(message: Message) -> bool:
    """Whether the message carries records or snapshot bytes from the leader. Such a message may leave before the
    leader's own sync, so that followers write and sync at the same time as the leader.

    It promises nothing about the leader's disk. The leader counts its own log only by `LogFlushed`, and may not lead
    the epoch again after a crash.
    """
    return isinstance(message, Reply) and message.epoch >= 0


Stage = ElectionState | LogOperation | Flush | Message | Apply


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """The driver's work, in the order of `stages`: persist and sync `election`; carry out `log`; send records to
    followers; sync the log; send the other `messages`; apply up to `high_watermark`.

    Effects of several steps may be merged and carried out together (`merge`). This is the group commit. Merging may
    sync a promise earlier than needed, but never sends it earlier.
    """

    election: ElectionState | None = None
    log: tuple[LogOperation, ...] = ()
    flush: Flush | None = None
    messages: tuple[Message, ...] = ()
    high_watermark: int | None = None

    def __bool__(self) -> bool:
        return (
            bool(self.messages or self.log)
            or self.election is not None
            or self.flush is not None
            or self.high_watermark is not None
        )

    def stages(self) -> Iterator[Stage]:
        """Return the stages in the only safe order."""
        if self.election is not None:
            yield self.election
        yield from self.log
        if self.flush is not None:
            yield from (message for message in self.messages if is_replication(message))
            yield self.flush
            yield from (message for message in self.messages if not is_replication(message))
        else:
            yield from self.messages
        if self.high_watermark is not None:
            yield Apply(self.high_watermark)

    @staticmethod
    def merge(several: Iterable[Effects]) -> Effects:
        """Return one Effects equivalent to `several` in order."""
        election: ElectionState | None = None
        flush: Flush | None = None
        high_watermark: int | None = None
        log: list[LogOperation] = []
        messages: list[Message] = []
        for effects in several:
            election = effects.election if effects.election is not None else election
            flush = effects.flush if effects.flush is not None else flush
            high_watermark = effects.high_watermark if effects.high_watermark is not None else high_watermark
            log.extend(effects.log)
            messages.extend(effects.messages)
        return Effects(
            election=election, log=tuple(log), flush=flush, messages=tuple(messages), high_watermark=high_watermark
        )


NOTHING = Effects()
