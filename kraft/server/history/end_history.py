"""A group's lag in seconds: how long ago the partition's end was at the group's offset.

Each read of the end offsets is a sample. Between two samples records are assumed to arrive evenly.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from kraft.common.ids import TopicPartition
from kraft.world.steps import Steps
from kraft.world.turns import TURN_ITEMS

SAMPLES_MAX: Final = 16
"""Limit of samples of a partition. Beyond it every second one is dropped, so that the history reaches further back with
less detail."""
PARTITIONS_MAX: Final = 20_000
"""Limit of partitions with samples (16 MB)."""
SECONDS_BETWEEN: Final = 5.0
"""Minimum time between two samples. A sample that follows sooner replaces the previous one."""


class EndHistory:
    """Samples of the end offsets of partitions for which groups have committed offsets."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: dict[TopicPartition, tuple[list[float], list[int]]] = {}

    def take(
        self, ends: Mapping[TopicPartition, int], now: float, untold: Iterable[TopicPartition] = ()
    ) -> Steps[None]:
        """Add a sample. Partitions whose ends are unknown now, `untold`, keep their samples: otherwise, once their
        leader answers again, a group would seem to have fallen behind only just then. Samples of all other partitions
        are dropped. Yields after every thousand. Calls must not overlap, and `now` must not decrease."""
        kept: dict[TopicPartition, tuple[list[float], list[int]]] = {}
        for count, (place, end) in enumerate(islice(ends.items(), PARTITIONS_MAX), 1):
            kept[place] = self._with(place, end, now)
            if count % TURN_ITEMS == 0:
                yield None
        for count, place in enumerate(untold, 1):
            if place not in kept and place in self._samples and len(kept) < PARTITIONS_MAX:
                kept[place] = self._samples[place]
            if count % TURN_ITEMS == 0:
                yield None
        self._samples = kept

    def _with(self, place: TopicPartition, end: int, now: float) -> tuple[list[float], list[int]]:
        times, values = self._samples.get(place) or ([], [])
        if values and end < values[-1]:  # Another partition of that name, or an election that lost records.
            times, values = [], []
        if len(times) > 1 and (values[-2] == end or times[-1] - times[-2] < SECONDS_BETWEEN):
            times[-1], values[-1] = now, end
            return times, values
        times.append(now)
        values.append(end)
        return (times[::2], values[::2]) if len(times) > SAMPLES_MAX else (times, values)

    def seconds_behind(self, place: TopicPartition, offset: int, now: float) -> float | None:
        """The time in seconds from when the partition's end was at `offset` to `now`, interpolated between samples. 0
        at the current end. If the first sample is already beyond `offset`, the time since the first sample. None
        without samples."""
        found = self._samples.get(place)
        if found is None:
            return None
        times, values = found
        if offset >= values[-1]:
            return 0.0
        after = bisect_right(values, offset)
        if after == 0:
            return max(0.0, now - times[0])
        before = after - 1
        share = (offset - values[before]) / (values[after] - values[before])
        return max(0.0, now - (times[before] + share * (times[after] - times[before])))
