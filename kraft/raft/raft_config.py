"""The driver's configuration: the quorum's timings and identity, and the location of its files. Comments name Kafka's
keys."""

from __future__ import annotations

from dataclasses import dataclass, field

from kraft.raft.core.config import QuorumConfig
from kraft.raft.core.voter_set import Endpoint, ReplicaKey, Voter, VoterSet


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftConfig:
    quorum: QuorumConfig
    metadata_log_directory: str  # metadata.log.dir, or the first of log.dirs; holds __cluster_metadata-0.
    # controller.quorum.voters; counts only where no voters were formatted or logged.
    static_voters: VoterSet = field(default_factory=VoterSet)
    # The first of controller.listener.names: the listener at which voters are reached.
    listener_name: str = "CONTROLLER"
    segment_bytes: int = 1 << 30  # metadata.log.segment.bytes
    retention_bytes: int = 100 << 20  # metadata.max.retention.bytes; -1 for no bound.
    retention_ms: int = 7 * 24 * 3600 * 1000  # metadata.max.retention.ms; -1 for no bound.
    reserve_bytes: int = 0  # kraft.metadata.reserve.bytes
    batch_bytes_max: int = 8 << 20
    shutdown_timeout_s: float = 5.0  # How long a leader that leaves waits for the voters' acknowledgements.


def static_voter(node_id: int, host: str, port: int, listener_name: str = "CONTROLLER") -> Voter:
    """Return a voter from controller.quorum.voters. Its directory id is not known."""
    return Voter(ReplicaKey(node_id), (Endpoint(listener_name, host, port),))
