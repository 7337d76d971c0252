"""The minimum time between two computed assignments of a group."""

from __future__ import annotations

from kraft.coordinator.group.consumer.consumer_group import NEVER_ASSIGNED_MS


def may_assign(timestamp_ms: int, interval_ms: int, wall_ms: int) -> bool:
    """Whether the assignment interval has passed since the last assignment, at `timestamp_ms`. True also for a
    timestamp in the future: the clock was set back."""
    since_ms = wall_ms - timestamp_ms
    return timestamp_ms == NEVER_ASSIGNED_MS or since_ms >= interval_ms or since_ms < 0
