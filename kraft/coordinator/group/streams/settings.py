"""The dynamic configuration of streams groups: a port."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

TASK_OFFSET_INTERVAL_MS: Final = 60_000
"""How often members report the offsets of their tasks. Kafka 4.4 has no public key for it."""
ACCEPTABLE_RECOVERY_LAG: Final = 10_000
"""The lag in records up to which a copy of a task counts as caught up. Kafka 4.4 has no public key for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupSettings:
    """One group's session timeout, heartbeat interval, minimum time between two assignments, delay of the first
    assignment, number of standby tasks for each stateful task, client tags that members must have, and the name of the
    assignor."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    initial_rebalance_delay_ms: int = 3_000
    standby_count: int = 0
    rack_aware_tags: tuple[str, ...] = ()
    assignor: str = "sticky"


class StreamsGroupConfigs(Protocol):
    def settings_of(self, group_id: str) -> StreamsGroupSettings:
        """The settings of a group. The group's own configuration (resource type GROUP) comes first, within the broker's
        bounds. The broker's configuration supplies the others."""
