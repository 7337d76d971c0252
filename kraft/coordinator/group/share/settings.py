"""The dynamic configuration of share groups, as their coordinator uses it: a port."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMembershipSettings:
    """One group's session timeout, heartbeat interval and minimum time between two assignments."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000


class ShareMembershipConfigs(Protocol):
    def settings_of(self, group_id: str) -> ShareMembershipSettings:
        """The settings of a group. The group's own configuration (resource type GROUP) comes first, within the broker's
        bounds. The broker's configuration supplies the others."""
