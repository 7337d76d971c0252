"""The records in flight of a share partition, as people are shown them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from kraft.coordinator.share.share_state import ACKNOWLEDGED, ARCHIVED, ARCHIVING, AVAILABLE
from kraft.share.share_partition import SharePartition
from kraft.share.window import ACQUIRED, CHANGING

NAMES: Final = {
    AVAILABLE: "available",
    ACQUIRED: "acquired",
    CHANGING: "acknowledging",
    ACKNOWLEDGED: "acknowledged",
    ARCHIVING: "archiving",
    ARCHIVED: "archived",
}
"""Kafka's names of the states in lower case; `acknowledging` is one whose change is not durable yet."""


class RangeInFlight(NamedTuple):
    """Records in the same state, `last` inclusive. Acquired ones have the member that holds them, and the time (ms)
    that is left of its lock."""

    first: int
    last: int
    state: str
    delivery_count: int
    member_id: str | None
    lock_ms: int | None


def ranges_in_flight(partition: SharePartition, now_ms: int) -> Iterator[RangeInFlight]:
    """Yield the ranges from the start offset to the end offset, in order. The window must not change meanwhile."""
    holders = partition.holders()
    for tile in partition.tiles():
        is_held = tile.state in (ACQUIRED, CHANGING)
        yield RangeInFlight(
            tile.first,
            tile.end - 1,
            NAMES[tile.state],
            tile.delivery_count,
            holders.get(tile.owner) if is_held else None,
            max(0, tile.deadline_ms - now_ms) if tile.state == ACQUIRED else None,
        )
