"""The topics of a simulated cluster that stay from the beginning to the end."""

from __future__ import annotations

from typing import Final

from jepsen.checker.operations import Partition

EVENTS: Final = "events"
TRIMMED: Final[Partition] = ("trimmed", 0)
COMPACTED: Final[Partition] = ("compacted", 0)
MOVED: Final[tuple[Partition, ...]] = ((EVENTS, 0), (EVENTS, 1))
PLACES: Final[tuple[Partition, ...]] = (*MOVED, TRIMMED, COMPACTED)
ALL_TOPICS: Final = {"min.insync.replicas": "2", "internal.segment.bytes": "20000"}
TOPICS: Final = {
    EVENTS: (2, ALL_TOPICS),
    TRIMMED[0]: (1, ALL_TOPICS),
    "paid": (2, ALL_TOPICS),
    COMPACTED[0]: (
        1,
        {**ALL_TOPICS, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "2000"},
    ),
}
TIERED: Final = (EVENTS, TRIMMED[0], "paid")
"""In runs that have tiered topics, with the one that is made anew."""
