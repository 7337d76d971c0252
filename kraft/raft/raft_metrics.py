"""Metrics of the quorum, as in Kafka's KafkaRaftMetrics: latencies of commits and elections, and rates of appended and
fetched records.

The commit latency of a batch that this node appended as leader is the time from its write until the high watermark
passes it, divided by its number of records. The election latency is the time from the start of an election (including
the pre-vote) until this node leads or knows the leader.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from kraft.common.windowed import Windowed
from kraft.raft.core.log_state import Batch
from kraft.raft.core.roles import Candidate, Follower, Leader, Prospective, Role
from kraft.world.ports import Clock

UNCOMMITTED_MAX: Final = 10_000
"""Limit of uncommitted batches whose latency is measured. Beyond it the oldest are dropped."""


class RaftMetrics:
    """The metrics of one node. Owned by the driver's tasks. Latencies are in milliseconds, rates in records per
    second."""

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
        """Records appended as leader, per second."""
        return self._appended.rate(self._clock.now())

    @property
    def fetch_records_rate(self) -> float:
        """Records fetched from a leader, per second."""
        return self._fetched.rate(self._clock.now())

    def wrote(self, batches: Sequence[Batch], is_leader: bool) -> None:
        """Count batches that were written at the end of the log."""
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
        """Record the current role of this node. A sole voter is elected in the moment in which it starts an
        election."""
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
        """Return recent averages and maxima by name. Names without recent values are left out."""
        now = self._clock.now()
        found = {
            "commit_latency_avg": self.commit_latency.average(now),
            "commit_latency_max": self.commit_latency.maximum(now),
            "election_latency_avg": self.election_latency.average(now),
            "election_latency_max": self.election_latency.maximum(now),
        }
        return {name: value for name, value in found.items() if value is not None}
