"""The settings of the group coordinator, under Kafka's names with dots as underscores."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class MigrationPolicy(Enum):
    """The allowed conversions of groups with members between the classic and the consumer protocol
    (group.consumer.migration.policy). A value is (upgrade allowed, downgrade allowed)."""

    DISABLED = (False, False)
    UPGRADE = (True, False)
    DOWNGRADE = (False, True)
    BIDIRECTIONAL = (True, True)

    @property
    def upgrades(self) -> bool:
        return self.value[0]

    @property
    def downgrades(self) -> bool:
        return self.value[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCoordinatorConfig:
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2_147_483_647
    group_consumer_max_size: int = 2_147_483_647
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """The assignors that the coordinator offers. The first one is the default."""
    group_consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    group_share_max_size: int = 200
    group_streams_max_size: int = 2_147_483_647
    group_consumer_regex_refresh_interval_ms: int = 600_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    offsets_commit_timeout_ms: int = 5_000
    new_member_join_timeout_ms: int = 300_000
    """The time after which a new member is removed while its JoinGroup is parked. The member does not know its id yet,
    so it cannot send heartbeats. Not configurable in Kafka either."""

    @property
    def offsets_retention_ms(self) -> int:
        return self.offsets_retention_minutes * 60_000
