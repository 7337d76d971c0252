"""Narrow a batch read by filters on topic, partition, offset or timestamp. Pure.

Spark still applies every filter. So the bounds here may admit more rows than the filter, but never fewer. An upper
bound on timestamps narrows nothing, because timestamps need not rise with offsets. A lower bound does, because a broker
finds the first record at or after a time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from kraft.spark.source.ranges import OFFSET_MAX, OffsetRange

PUSHING = "pyspark.sql.worker.data_source_pushdown_filters"


def is_pushing_down() -> bool:
    """Whether this is the process in which Spark passes filters to the reader. In any other process a reader must not
    declare pushFilters unless spark.sql.python.filterPushdown.enabled is set, and Spark does not expose that setting.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return PUSHING in sys.modules or getattr(main, "name", "") == PUSHING


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds on the rows that a query can return: inclusive below, exclusive above. None means unbounded."""

    topics: frozenset[str] | None = None
    partition_low: int = 0
    partition_high: int = OFFSET_MAX
    partitions: frozenset[int] | None = None
    offset_low: int = 0
    offset_high: int = OFFSET_MAX
    timestamp_ms_low: int | None = None

    def allows(self, each: OffsetRange) -> bool:
        """Whether the partition may hold rows that pass the filters."""
        chosen = self.partitions is None or each.partition in self.partitions
        return (
            chosen
            and self.partition_low <= each.partition < self.partition_high
            and (self.topics is None or each.topic in self.topics)
        )

    def narrow(self, each: OffsetRange) -> OffsetRange:
        start = min(max(each.start, self.offset_low), each.end)
        return each._replace(start=start, end=max(start, min(each.end, self.offset_high)))


def bounds_of(filters: Iterable[Any]) -> Bounds:
    """Return the bounds that all `filters` (pyspark's, combined by AND) imply."""
    found = Bounds()
    for each in filters:
        found = tightened(found, type(each).__name__, getattr(each, "attribute", ()), getattr(each, "value", None))
    return found


def tightened(found: Bounds, kind: str, attribute: tuple[str, ...], value: Any) -> Bounds:
    if len(attribute) != 1:
        return found
    name = attribute[0].lower()
    if name == "topic":
        chosen = frozenset([value]) if kind == "EqualTo" else frozenset(value) if kind == "In" else None
        return (
            found
            if chosen is None
            else replace(found, topics=chosen if found.topics is None else found.topics & chosen)
        )
    if name == "partition" and kind == "In":
        chosen = frozenset(value)
        return replace(found, partitions=chosen if found.partitions is None else found.partitions & chosen)
    if name == "timestamp":
        return later(found, kind, value)
    if name not in ("partition", "offset") or isinstance(value, bool) or not isinstance(value, int):
        return found
    low, high = interval(kind, value)
    if name == "partition":
        return replace(
            found, partition_low=max(found.partition_low, low), partition_high=min(found.partition_high, high)
        )
    return replace(found, offset_low=max(found.offset_low, low), offset_high=min(found.offset_high, high))


def interval(kind: str, value: int) -> tuple[int, int]:
    """Return the integers that pass one comparison, as [low, high)."""
    if kind in ("EqualTo", "EqualNullSafe"):
        return value, value + 1
    if kind == "GreaterThan":
        return value + 1, OFFSET_MAX
    if kind == "GreaterThanOrEqual":
        return value, OFFSET_MAX
    if kind == "LessThan":
        return 0, value
    return (0, value + 1) if kind == "LessThanOrEqual" else (0, OFFSET_MAX)


def later(found: Bounds, kind: str, value: Any) -> Bounds:
    if (
        kind not in ("GreaterThan", "GreaterThanOrEqual", "EqualTo")
        or not isinstance(value, datetime)
        or value.tzinfo is None
    ):
        return found
    low = int(value.timestamp() * 1000)
    if low <= 0:
        return found  # Every record or nearly: and what is below zero would ask for something else (-1 is the end).
    return replace(found, timestamp_ms_low=low if found.timestamp_ms_low is None else max(found.timestamp_ms_low, low))
