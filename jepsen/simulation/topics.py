"""The topics of a simulated cluster that are never deleted."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final

from jepsen.checker.operations import Partition
from jepsen.simulation.digests import Digest, of_batches, of_committed, of_nothing
from jepsen.simulation.tiering import Tiering

EVENTS: Final = "events"
TRIMMED: Final[Partition] = ("trimmed", 0)
COMPACTED: Final[Partition] = ("compacted", 0)
MOVED: Final[tuple[Partition, ...]] = ((EVENTS, 0), (EVENTS, 1))
PLACES: Final[tuple[Partition, ...]] = (*MOVED, TRIMMED, COMPACTED)
ALL_TOPICS: Final = {"min.insync.replicas": "2", "internal.segment.bytes": "20000"}
COMPACTING: Final = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "2000"}
FORGETTING: Final = {**COMPACTING, "segment.ms": "500", "delete.retention.ms": "0"}
FORGETTING_RATE: Final = 0.5
PAID: Final[tuple[Partition, ...]] = (("paid", 0), ("paid", 1))
"""Partitions of a topic that is only written in transactions, with a unique key for every record."""


class StandingTopics:
    """The topics of one run that are never deleted. In half of the runs without a store the cleaner compacts `PAID`: it
    removes aborted records, and then their markers as soon as it may."""

    def __init__(self, tiering: Tiering, chance: random.Random) -> None:
        self._tiering = tiering
        self._forgets = not tiering.is_on and chance.random() < FORGETTING_RATE

    def wanted(self) -> list[tuple[str, int, Mapping[str, str]]]:
        """The name, partition count and configs of each topic."""
        kept = self._tiering.configs(ALL_TOPICS)
        return [
            (EVENTS, 2, kept),
            (TRIMMED[0], 1, kept),
            (PAID[0][0], len(PAID), {**kept, **(FORGETTING if self._forgets else {})}),
            (COMPACTED[0], 1, {**ALL_TOPICS, **COMPACTING}),
        ]

    def traits(self) -> dict[str, tuple[str, ...]]:
        """By topic, the settings that `visits` counts for it in addition to those of the whole run."""
        if self._tiering.is_on:
            return dict.fromkeys((EVENTS, TRIMMED[0], PAID[0][0]), ("tiered topics",))
        return {PAID[0][0]: ("compaction",)} if self._forgets else {}

    def digest_of(self, place: Partition) -> Digest:
        """The digest that must be equal on all replicas of a partition."""
        if place == COMPACTED:
            return of_nothing
        return of_committed if self._forgets and place in PAID else of_batches
