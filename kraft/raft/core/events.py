"""Everything that can happen to a replica. Passing time is an event too: `Tick`, or simply the `now_ms` of any
other."""

from __future__ import annotations

from typing import NamedTuple

from kraft.common.ids import OffsetAndEpoch
from kraft.raft.core.messages import Request, Response
from kraft.raft.core.voter_set import VoterSet


class Tick(NamedTuple):
    """A deadline that `RaftNode.deadline_ms` named may have passed."""


class RequestReceived(NamedTuple):
    """`token` comes back in the `Reply` that answers, perhaps much later."""

    token: object
    request: Request


class ResponseReceived(NamedTuple):
    """Answer to the `Send` of that correlation. One that the core no longer waits for is ignored."""

    correlation: int
    response: Response


class RequestFailed(NamedTuple):
    """No answer will come. `refused` means that the peer's port refused or closed the connection, which proves that its
    process is gone."""

    correlation: int
    refused: bool = False


class LogFlushed(NamedTuple):
    """The `Flush` of these values is done. `generation` tells a flush from before a truncation, which says nothing
    about what was written since."""

    end_offset: int
    generation: int


class SnapshotDownloaded(NamedTuple):
    """The snapshot of a finished `SnapshotChunk(last=True)` is on disk under its name, synced, and holds these
    voters."""

    snapshot: OffsetAndEpoch
    voters: VoterSet | None
    kraft_version: int


class SnapshotDownloadFailed(NamedTuple):
    """The downloaded file is not a whole snapshot. It is fetched again."""

    snapshot: OffsetAndEpoch


class SnapshotCreated(NamedTuple):
    """The state machine has frozen a snapshot of its own."""

    snapshot: OffsetAndEpoch


class LogStartAdvanced(NamedTuple):
    """Retention has dropped what lies before `snapshot`."""

    snapshot: OffsetAndEpoch


class ResignRequested(NamedTuple):
    """The state machine cannot go on leading `epoch`."""

    epoch: int


class ShutdownRequested(NamedTuple):
    """Leave gracefully: a leader tells the voters who should follow."""


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
