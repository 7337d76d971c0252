"""Counters of the writes of share states since the node started, as in Kafka's ShareCoordinatorMetrics."""

from __future__ import annotations

from kraft.common.windowed import Windowed
from kraft.world.ports import Clock


class ShareCoordinatorActivity:
    """The write counters and latencies of one share coordinator."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._latency = Windowed()
        self.writes = 0
        """Number of share partitions in write requests."""

    def wrote(self, partitions: int, seconds: float) -> None:
        """Count one durable write request: its number of share partitions, and its duration in seconds."""
        self.writes += partitions
        self._latency.record(seconds * 1000, self._clock.now())

    def latencies(self) -> dict[str, float]:
        """The recent average and maximum in milliseconds, by name. Empty if nothing was written recently."""
        now = self._clock.now()
        found = {"write_latency_avg": self._latency.average(now), "write_latency_max": self._latency.maximum(now)}
        return {name: value for name, value in found.items() if value is not None}
