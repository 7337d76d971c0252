"""The durable state of one share partition: a group's window over one partition. Pure values."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

AVAILABLE: Final = 0
ACKNOWLEDGED: Final = 2
ARCHIVING: Final = 3
ARCHIVED: Final = 4
"""Stored delivery states. Acquired records (1) are available again after a restart."""
NO_OFFSET: Final = -1
"""Start offset that is not initialized. The partition's leader initializes it by `share.auto.offset.reset`."""
NO_COUNT: Final = -1
"""Unknown delivery complete count."""


class SharePartitionKey(NamedTuple):
    """A group and a partition: the key of a share state."""

    group_id: str
    topic_id: bytes
    partition: int


class StateBatch(NamedTuple):
    """The delivery state of the records from `first_offset` to `last_offset` (inclusive)."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


@dataclass(frozen=True, slots=True)
class ShareState:
    """The state of a share partition.

    `latest_leader_epoch` and `latest_state_epoch` are the highest ever recorded: requests of lower ones are fenced.
    `update_count` is the number of update records since the count last reached its limit. `batches` are disjoint and
    ascend; records from `start_offset` on that are in none of them are available and were never delivered.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...] = ()
    create_timestamp_ms: int = 0
    write_timestamp_ms: int = 0
    latest_leader_epoch: int = 0
    latest_state_epoch: int = 0
    update_count: int = 0

    def __post_init__(self) -> None:
        assert all(before.last_offset < after.first_offset for before, after in pairwise(self.batches))
        assert not self.batches or self.batches[0].first_offset >= self.start_offset


def combine(known: Sequence[StateBatch], newer: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """Return the batches of both, disjoint and ascending, without records below `start_offset`.

    Where they overlap, the higher delivery count wins; at equal counts, the higher state. So a state never goes back,
    in whatever order requests arrive. Adjacent batches with the same state are merged.
    """
    edges: list[tuple[int, bool, tuple[int, int]]] = []
    for batches in (known, newer):
        for batch in batches:
            first = max(batch.first_offset, start_offset)
            if first <= batch.last_offset:
                rank = batch.delivery_count, batch.delivery_state
                edges.append((first, True, rank))
                edges.append((batch.last_offset + 1, False, rank))
    edges.sort()
    combined: list[StateBatch] = []
    open_ranks: list[tuple[int, int]] = []
    position = start_offset
    for offset, begins, rank in edges:
        if open_ranks and offset > position:
            count, state = open_ranks[-1]
            last = combined[-1] if combined else None
            if last is not None and last.last_offset == position - 1 and last[2:] == (state, count):
                combined[-1] = StateBatch(last.first_offset, offset - 1, state, count)
            else:
                combined.append(StateBatch(position, offset - 1, state, count))
        position = offset
        if begins:
            insort(open_ranks, rank)
        else:
            open_ranks.remove(rank)
    return tuple(combined)
