"""A shard's groups and offsets, sorted and split into portions, one for each step of a sweep."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TypeVar

from kraft.common.ids import TopicPartition
from kraft.coordinator.group.shard_state import GroupShardState

K = TypeVar("K", str, TopicPartition)

PORTION = 64
"""Groups and offsets processed between two yields: less than a millisecond."""

Portion = list[tuple[str, TopicPartition | None]]
"""Pairs of a group and one of its partitions. After the last partition of a group follows a pair of the group and
None."""


def portions(state: GroupShardState, group_ids: Iterable[str]) -> Iterator[Portion]:
    """Yield portions of the groups with all their offsets, including pending ones. A portion may be empty, because
    sorting is also done step by step."""
    entries = _entries(state, group_ids)
    while part := list(islice(entries, PORTION)):
        yield [entry for entry in part if entry is not None]


def _entries(state: GroupShardState, group_ids: Iterable[str]) -> Iterator[tuple[str, TopicPartition | None] | None]:
    for group_id in in_order(group_ids):
        if group_id is None:
            yield None
            continue
        offsets, pending = state.offsets_of(group_id), state.pending.of_group(group_id)
        only_pending = (partition for partition in pending if partition not in offsets)
        for partition in in_order(chain(offsets, only_pending)):
            yield None if partition is None else (group_id, partition)
        yield group_id, None


def in_order(keys: Iterable[K]) -> Iterator[K | None]:
    """Yield the keys sorted, by sorting runs and merging them. Yields None for each full run."""
    unsorted = iter(keys)
    runs: list[list[K]] = []
    while run := list(islice(unsorted, PORTION)):
        runs.append(sorted(run))
        if len(run) == PORTION:
            yield None
    yield from heapq.merge(*runs)
