"""The interfaces between the quorum and the rest of the node, as types.

They are implemented elsewhere: serde and listeners by metadata and controller, the channel by the server.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kraft.protocol.schema import Message

if TYPE_CHECKING:
    from kraft.raft.snapshot.snapshot_reader import SnapshotReader


class RecordSerde(Protocol):
    """Encodes and decodes metadata records. Raft never looks inside a record."""

    def encode(self, record: Any, level: int | None) -> bytes:
        """Encode a record for nodes at this level of metadata.version, None before one is finalized. Raises
        ProtocolError."""

    def decode(self, value: bytes) -> Any:
        """Decode a record. Raises ProtocolError."""


class CommittedBatch(NamedTuple):
    """Committed records with consecutive offsets from `base_offset`. A batch is applied as a whole or not at all. A
    control batch has no records but takes up offsets."""

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
    """A state machine on the committed log. Calls are made one at a time, in order. If a call returns an awaitable, it
    is awaited before the next call."""

    def handle_commit(self, batches: list[CommittedBatch]) -> Awaitable[None] | None: ...
    def handle_load_snapshot(self, reader: SnapshotReader) -> Awaitable[None] | None:
        """Drop all state and start from this snapshot. The next commit starts at `reader.snapshot.offset`."""

    def handle_leader_change(self, leader: LeaderAndEpoch) -> Awaitable[None] | None:
        """Handle a new leader. If this node is the leader, everything up to its LEADER_CHANGE has been delivered to
        `handle_commit` before."""


class RaftChannel(Protocol):
    """Sends one request to one controller and waits for the response. It negotiates versions."""

    async def send(self, node_id: int, host: str, port: int, request: Message, timeout_s: float) -> Message:
        """Send a request. `node_id` is negative for a bootstrap server.

        Raises ConnectionRefusedError only if the peer's port refused the connection (its process is gone), else OSError
        or KraftError. Raises ApiError UNSUPPORTED_VERSION if no version of the peer can carry the request.
        """
