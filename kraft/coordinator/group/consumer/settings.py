"""What can be configured of a consumer group while it lives: a port onto the dynamic configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupSettings:
    """One group's session timeout, heartbeat interval and shortest time between two assignments."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000


class ConsumerGroupConfigs(Protocol):
    def settings_of(self, group_id: str) -> ConsumerGroupSettings:
        """As the group's configuration says (resource type GROUP), within the bounds that the broker's sets; where it
        says nothing, as the broker's says."""
