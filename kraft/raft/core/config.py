"""The configuration of a replica and its quorum. Times are in ms. Names and defaults are those of Kafka's
`controller.quorum.*` keys."""

from __future__ import annotations

from dataclasses import dataclass

from kraft.raft.core.voter_set import Endpoints, ReplicaKey

MIN_KRAFT_VERSION = 0
MAX_KRAFT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumConfig:
    local: ReplicaKey
    endpoints: Endpoints = ()  # The node's own controller listeners; empty for a broker.
    cluster_id: str | None = None
    can_be_voter: bool = True  # Has the controller role.
    auto_join: bool = False  # controller.quorum.auto.join.enable: an observer that can be a voter adds itself.
    bootstrap: tuple[Endpoints, ...] = ()  # controller.quorum.bootstrap.servers, asked when no leader is known.
    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_ms_max: int = 1000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_wait_ms_max: int = 500
    fetch_bytes_max: int = 1 << 20  # Most bytes that this replica requests in a Fetch.
    snapshot_bytes_max: int = 1 << 20  # Most bytes that this replica requests in a FetchSnapshot.
    # A pre-vote follows within this time at start, and when a leader is known to be dead or to have resigned.
    haste_ms_max: int = 150
    observer_expiry_ms: int = 300_000
    new_voter_silence_ms_max: int = 3_600_000  # A new voter must have been caught up within this time.

    @property
    def check_quorum_timeout_ms(self) -> int:
        """The time after which a leader resigns if a majority has not fetched from it (KIP-595)."""
        return self.fetch_timeout_ms * 3 // 2
