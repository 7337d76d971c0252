"""All events of a replica. Passing time is an event too: `Tick`, or the `now_ms` of any other event."""

from __future__ import annotations

from typing import NamedTuple

from kraft.common.ids import OffsetAndEpoch
from kraft.raft.core.messages import Request, Response
from kraft.raft.core.voter_set import VoterSet


class Tick(NamedTuple):
    """The deadline `RaftNode.deadline_ms` may have passed."""


class RequestReceived(NamedTuple):
    """A request arrived. The `Reply` to it has the same `token`, perhaps much later."""

    token: object
    request: Request


class ResponseReceived(NamedTuple):
    """The response to the `Send` with that correlation. Ignored if the core no longer waits for it."""

    correlation: int
    response: Response


class RequestFailed(NamedTuple):
    """A request failed without a response. `refused` means that the peer's port refused or closed the connection, which
    proves that its process is gone."""

    correlation: int
    refused: bool = False


class LogFlushed(NamedTuple):
    """The `Flush` with these values is complete. `generation` identifies a flush from before a truncation, which says
    nothing about later writes."""

    end_offset: int
    generation: int


class SnapshotDownloaded(NamedTuple):
    """The snapshot of a finished `SnapshotChunk(last=True)` is on disk under its final name, synced, and contains these
    voters."""

    snapshot: OffsetAndEpoch
    voters: VoterSet | None
    kraft_version: int


class SnapshotDownloadFailed(NamedTuple):
    """The downloaded file is not a whole snapshot. It is fetched again."""

    snapshot: OffsetAndEpoch


class SnapshotCreated(NamedTuple):
    """The state machine has frozen its own snapshot."""

    snapshot: OffsetAndEpoch


class LogStartAdvanced(NamedTuple):
    """Retention has removed everything before `snapshot`."""

    snapshot: OffsetAndEpoch


class ResignRequested(NamedTuple):
    """The state machine cannot continue to lead `epoch`."""

    epoch: int


class ShutdownRequested(NamedTuple):
    """Leave the quorum gracefully. A leader sends the voters its preferred successors."""


Event = (
    Tick
    | RequestReceived
    | ResponseReceived
    | RequestFailed
    | LogFlushed
    | SnapshotDownloaded
    | SnapshotDownloadFailed
    | SnapshotCreated
    | LogStartAdvanced
    | ResignRequested
    | ShutdownRequested
)
