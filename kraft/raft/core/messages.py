"""KRaft's RPCs as the core sees them: one partition, no framing. `kraft/raft/wire_requests.py` and
`kraft/raft/wire_responses.py` convert them to and from Kafka's messages.

They are named tuples: immutable, comparable, and cheap enough for a million in a test run. For a response with bytes
(records, a part of a snapshot) the core names the range, and the sender reads the bytes.
"""

from __future__ import annotations

from typing import NamedTuple

from kraft.common.ids import ZERO_UUID, OffsetAndEpoch
from kraft.protocol.error_codes import ErrorCode
from kraft.raft.core.election_state import NO_LEADER
from kraft.raft.core.log_state import Batch
from kraft.raft.core.voter_set import Endpoints, ReplicaKey, Voter

NONE = ErrorCode.NONE
UNKNOWN_HIGH_WATERMARK = (1 << 63) - 1  # A fetcher that does not report its high watermark (before KIP-1166).


class LeaderHint(NamedTuple):
    """The leader that the responding replica knows. Every response has it."""

    leader_id: int = NO_LEADER
    epoch: int = 0
    endpoints: Endpoints = ()


class VoteRequest(NamedTuple):
    """Vote (52). `epoch` is the candidate's epoch. In a pre-vote the candidate has not raised it (KIP-996)."""

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
    """BeginQuorumEpoch (53): announces the leader of `epoch`, and is repeated until the voter fetches."""

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
    """EndQuorumEpoch (54): announces that the sender no longer leads `epoch`, and names the `preferred` successors."""

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
    """The response to a Fetch. It has at most one of: the records of [offset, end_offset), a diverging epoch, or a
    snapshot to fetch instead.

    The sender fills in `batches`, for a receiver of the same epoch.
    """

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
    """FetchSnapshot (59): requests bytes of one snapshot from `position`."""

    replica: ReplicaKey
    epoch: int
    snapshot: OffsetAndEpoch
    position: int = 0
    max_bytes: int = 1 << 20
    cluster_id: str | None = None


class FetchSnapshotResponse(NamedTuple):
    """The response to FetchSnapshot. The sender fills in `size` (of the whole snapshot) and `data`."""

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
    """Raises kraft.version. Comes from UpdateFeatures on the leader; it is no RPC of its own."""

    kraft_version: int
    timeout_ms: int = 30_000
    validate_only: bool = False


class VoterResponse(NamedTuple):
    """The response to AddVoter, RemoveVoter, UpdateVoter and UpdateVersion."""

    hint: LeaderHint
    error: int = NONE
    message: str = ""


class ProbeVersionsRequest(NamedTuple):
    """ApiVersions (18), sent to a future voter to learn its range of kraft.version."""


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
