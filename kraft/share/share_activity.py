"""Counters of the share partitions that a broker leads, since it started. They are read at a scrape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kraft.common.metrics import Histogram
from kraft.coordinator.share.share_state import SharePartitionKey
from kraft.share.acknowledgement import ACCEPT, REJECT, RELEASE, RENEW, Acknowledgement

ACKNOWLEDGEMENT_TYPES: Final = {ACCEPT: "Accept", RELEASE: "Release", REJECT: "Reject", RENEW: "Renew"}
"""Kafka's names of the acknowledgement types that are counted. Gaps are not counted, since they have no record."""
LOAD_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Histogram bounds in seconds."""
TIMED_OUT_MAX: Final = 1000
"""Limit of share partitions with a counter of expired locks of their own. Beyond it, the oldest counter is dropped."""


class ShareActivity:
    """The counters of one broker. Owned by the broker's loop."""

    def __init__(self) -> None:
        self.acknowledged = dict.fromkeys(ACKNOWLEDGEMENT_TYPES, 0)
        """Number of records by type of acknowledgement."""
        self.load_seconds = Histogram(LOAD_BOUNDS)
        """Durations of loading share partitions."""
        self.locks_timed_out = 0
        """Number of records whose lock expired."""
        self.timed_out: dict[SharePartitionKey, int] = {}
        """Number of records whose lock expired, by share partition."""

    def count_acknowledgements(self, acknowledgements: Sequence[Acknowledgement]) -> None:
        """Count the records of acknowledgements that are durable."""
        for first, last, types in acknowledgements:
            for kind in types:
                if kind in self.acknowledged:
                    self.acknowledged[kind] += last + 1 - first if len(types) == 1 else 1

    def count_timeouts(self, key: SharePartitionKey, records: int) -> None:
        """Count records that are available again because their lock expired."""
        self.locks_timed_out += records
        if key not in self.timed_out and len(self.timed_out) >= TIMED_OUT_MAX:
            del self.timed_out[next(iter(self.timed_out))]
        self.timed_out[key] = self.timed_out.get(key, 0) + records
