"""The RPCs of KRaft as the core sees them: one partition, no framing. `kraft/raft/wire.py` converts them to and from
Kafka's messages.

They are named tuples: immutable, comparable, and cheap enough for a million in a test run. Where a response carries
bytes (records, a part of a snapshot) the core names the range and whoever sends the response reads it.
"""

from __future__ import annotations

from typing import NamedTuple

from kraft.common.ids import ZERO_UUID, OffsetAndEpoch
from kraft.protocol.error_codes import ErrorCode
from kraft.raft.core.election_state import NO_LEADER
from kraft.raft.core.log_state import Batch
from kraft.raft.core.voter_set import Endpoints, ReplicaKey, Voter

NONE = ErrorCode.NONE
UNKNOWN_HIGH_WATERMARK = (1 << 63) - 1  # A fetcher that does not say what it knows (before KIP-1166).


class LeaderHint(NamedTuple):
    """The leader as far as the answering replica knows. It is part of every response."""

    leader_id: int = NO_LEADER
    epoch: int = 0
    endpoints: Endpoints = ()


class VoteRequest(NamedTuple):
    """Vote (52): `epoch` is the candidate's; in a pre-vote, the one it is in without having raised it (KIP-996)."""

    epoch: int
    candidate: ReplicaKey
    last_epoch: int
    end_offset: int
    pre_vote: bool = False
    voter_id: int = NO_LEADER
    voter_directory_id: bytes = ZERO_UUID
    cluster_id: str | None = None


class VoteResponse(NamedTuple):
    hint: LeaderHint
    granted: bool = False
    error: int = NONE


class BeginQuorumEpochRequest(NamedTuple):
    """BeginQuorumEpoch (53): "I lead `epoch`", sent until the voter fetches."""

    epoch: int
    leader_id: int
    endpoints: Endpoints = ()
    voter_id: int = NO_LEADER
    voter_directory_id: bytes = ZERO_UUID
    cluster_id: str | None = None


class BeginQuorumEpochResponse(NamedTuple):
    hint: LeaderHint
    error: int = NONE


class EndQuorumEpochRequest(NamedTuple):
    """EndQuorumEpoch (54): "I no longer lead `epoch`"; who should stand first."""

    epoch: int
    leader_id: int
    preferred: tuple[ReplicaKey, ...] = ()
    endpoints: Endpoints = ()
    cluster_id: str | None = None


class EndQuorumEpochResponse(NamedTuple):
    hint: LeaderHint
    error: int = NONE


class FetchRequest(NamedTuple):
    """Fetch (1) of the metadata partition. `offset` acknowledges everything before it: it is on the sender's disk,
    synced."""

    replica: ReplicaKey
    epoch: int
    offset: int
    last_fetched_epoch: int
    high_watermark: int = UNKNOWN_HIGH_WATERMARK
    max_wait_ms: int = 0
    max_bytes: int = 1 << 20
    cluster_id: str | None = None


class FetchResponse(NamedTuple):
    """At most one of three things: the records of [offset, end_offset), a diverging epoch, or a snapshot to fetch
    instead. The sender fills in `batches`, for a receiver of the same epoch."""

    hint: LeaderHint
    error: int = NONE
    high_watermark: int = -1
    log_start_offset: int = -1
    offset: int = -1
    end_offset: int = -1
    max_bytes: int = 0
    diverging: OffsetAndEpoch | None = None
    snapshot: OffsetAndEpoch | None = None
    batches: tuple[Batch, ...] = ()


class FetchSnapshotRequest(NamedTuple):
    """FetchSnapshot (59): bytes of one snapshot from `position`."""

    replica: ReplicaKey
    epoch: int
    snapshot: OffsetAndEpoch
    position: int = 0
    max_bytes: int = 1 << 20
    cluster_id: str | None = None


class FetchSnapshotResponse(NamedTuple):
    """`size` (of the whole snapshot) and `data` are filled in by the sender."""

    hint: LeaderHint
    error: int = NONE
    snapshot: OffsetAndEpoch | None = None
    position: int = 0
    max_bytes: int = 0
    size: int = -1
    data: bytes | memoryview = b""


class AddVoterRequest(NamedTuple):
    voter: Voter
    timeout_ms: int = 30_000
    ack_when_committed: bool = True
    cluster_id: str | None = None


class RemoveVoterRequest(NamedTuple):
    key: ReplicaKey
    timeout_ms: int = 30_000
    cluster_id: str | None = None


class UpdateVoterRequest(NamedTuple):
    epoch: int
    voter: Voter
    cluster_id: str | None = None


class UpdateVersionRequest(NamedTuple):
    """Raise kraft.version (by UpdateFeatures; local to the leader, no RPC of its own)."""

    kraft_version: int
    timeout_ms: int = 30_000
    validate_only: bool = False


class VoterResponse(NamedTuple):
    """Answer to the four requests above."""

    hint: LeaderHint
    error: int = NONE
    message: str = ""


class ProbeVersionsRequest(NamedTuple):
    """ApiVersions (18), asked of a future voter for its range of kraft.version."""


class ProbeVersionsResponse(NamedTuple):
    min_version: int = 0
    max_version: int = 0
    error: int = NONE


Request = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | AddVoterRequest
    | RemoveVoterRequest
    | UpdateVoterRequest
    | UpdateVersionRequest
    | ProbeVersionsRequest
)
Response = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | VoterResponse
    | ProbeVersionsResponse
)
