"""What the driver measures of its quorum, as Kafka's KafkaRaftMetrics: how long commits and elections take, how fast
the log grows.

Commit latency is that of a batch that this node appended as the leader, from its write until the high watermark
passes it, divided by its records. Election latency is from the moment this node stands for election (the pre-vote
included) until it leads or knows who does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from kraft.raft.core.log_state import Batch
from kraft.raft.core.roles import Candidate, Follower, Leader, Prospective, Role
from kraft.raft.windowed import Windowed
from kraft.world.ports import Clock

UNCOMMITTED_MAX: Final = 10_000
"""Batches of which the latency is measured at a time; of more the oldest are not."""


class RaftMetrics:
    """Owned by the driver's tasks. Latencies are milliseconds, rates records a second."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.commit_latency = Windowed()
        self.election_latency = Windowed()
        self._appended = Windowed()
        self._fetched = Windowed()
        self._uncommitted: deque[tuple[int, int, float]] = deque(maxlen=UNCOMMITTED_MAX)
        self._standing_since: float | None = None
        self.state = "unattached"

    @property
    def append_records_rate(self) -> float:
        """Records appended as the leader."""
        return self._appended.rate(self._clock.now())

    @property
    def fetch_records_rate(self) -> float:
        """Records fetched from a leader."""
        return self._fetched.rate(self._clock.now())

    def wrote(self, batches: Sequence[Batch], is_leader: bool) -> None:
        """These are at the end of the log now."""
        now = self._clock.now()
        for batch in batches:
            records = batch.end_offset - batch.base_offset
            (self._appended if is_leader else self._fetched).record(records, now)
            if is_leader:
                self._uncommitted.append((batch.end_offset, records, now))

    def committed(self, high_watermark: int) -> None:
        now = self._clock.now()
        while self._uncommitted and self._uncommitted[0][0] <= high_watermark:
            _, records, since = self._uncommitted.popleft()
            self.commit_latency.record((now - since) * 1000 / max(1, records), now)

    def saw(self, role: Role) -> None:
        """What this node is in the quorum now. A lone voter is elected in the moment in which it stands."""
        former, self.state = self.state, type(role).__name__.lower()
        if self._standing_since is None and isinstance(role, Leader) and former != self.state:
            self._standing_since = self._clock.now()
        if isinstance(role, Prospective | Candidate):
            if self._standing_since is None:
                self._standing_since = self._clock.now()
        elif isinstance(role, Leader | Follower) and self._standing_since is not None:
            now = self._clock.now()
            self.election_latency.record((now - self._standing_since) * 1000, now)
            self._standing_since = None
        if not isinstance(role, Leader):
            self._uncommitted.clear()

    def latencies(self) -> dict[str, float]:
        """Averages and maxima by name, where there are any of late."""
        now = self._clock.now()
        found = {
            "commit_latency_avg": self.commit_latency.average(now),
            "commit_latency_max": self.commit_latency.maximum(now),
            "election_latency_avg": self.election_latency.average(now),
            "election_latency_max": self.election_latency.maximum(now),
        }
        return {name: value for name, value in found.items() if value is not None}
