"""What the quorum needs from those above it, and what it gives them, as types.

Everything here is implemented elsewhere: serde and listeners by metadata and controller, the channel by the server.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kraft.protocol.schema import Message

if TYPE_CHECKING:
    from kraft.raft.snapshot.snapshot_reader import SnapshotReader


class RecordSerde(Protocol):
    """Metadata records as bytes. Raft never looks inside a record."""

    def encode(self, record: Any) -> bytes: ...
    def decode(self, value: bytes) -> Any:
        """Raises ProtocolError."""


class CommittedBatch(NamedTuple):
    """Committed records with consecutive offsets from `base_offset`; a batch is applied whole or not at all.

    A control batch has no records but takes up offsets.
    """

    base_offset: int
    last_offset: int
    epoch: int
    append_timestamp_ms: int
    records: tuple[Any, ...]
    size: int

    @property
    def end_offset(self) -> int:
        return self.last_offset + 1


class LeaderAndEpoch(NamedTuple):
    """The leader of `epoch`; -1 if it is not known."""

    leader_id: int
    epoch: int

    def is_leader(self, node_id: int) -> bool:
        return self.leader_id == node_id


class RaftListener(Protocol):
    """A state machine over the committed log. Calls come one at a time, in order; one that returns an awaitable is
    awaited before the next."""

    def handle_commit(self, batches: list[CommittedBatch]) -> Awaitable[None] | None: ...
    def handle_load_snapshot(self, reader: SnapshotReader) -> Awaitable[None] | None:
        """Forget everything and start from this snapshot. Commits go on at `reader.snapshot.offset`."""

    def handle_leader_change(self, leader: LeaderAndEpoch) -> Awaitable[None] | None:
        """Our own leadership is told only after everything up to our LEADER_CHANGE has been given to
        `handle_commit`."""


class RaftChannel(Protocol):
    """Sends one request to one controller and waits for the answer; versions are negotiated inside."""

    async def send(self, node_id: int, host: str, port: int, request: Message, timeout_s: float) -> Message:
        """`node_id` is negative for a bootstrap server. Raises ConnectionRefusedError only when the peer's port
        refused (its process is gone), OSError or KraftError otherwise; ApiError with UNSUPPORTED_VERSION when the
        peer serves no version that can carry the request.
        """
