"""The topic-level configuration of a log, as one value.

Names are Kafka's topic keys with underscores. Times are in ms, sizes in bytes; -1 means no limit where Kafka allows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

LONG_MAX = 0x7FFFFFFFFFFFFFFF
FOLLOWS_RETENTION = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The effective configuration of one topic's logs (topic over broker over default), with Kafka 4.3's defaults.
    Shared by all partitions of a topic; never changed in place."""

    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    index_interval_bytes: int = 4096
    local_retention_bytes: int = -2
    local_retention_ms: int = -2
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    validate_records: bool = True
    """kraft.produce.validate.records: check every record of a Produce instead of the header alone."""

    compact: bool = field(init=False, compare=False)
    delete: bool = field(init=False, compare=False)
    log_append_time: bool = field(init=False, compare=False)
    segment_ms_max: int = field(init=False, compare=False)
    """Segments of a compacted topic are also rolled in time for max.compaction.lag.ms: the active one is not cleaned
    (KIP-354)."""

    def __post_init__(self) -> None:
        """Compute derived values once, because each append uses them."""
        compact = "compact" in self.cleanup_policy
        for name, value in (
            ("compact", compact),
            ("delete", "delete" in self.cleanup_policy),
            ("log_append_time", self.message_timestamp_type == "LogAppendTime"),
            ("segment_ms_max", min(self.segment_ms, self.max_compaction_lag_ms) if compact else self.segment_ms),
        ):
            object.__setattr__(self, name, value)

    @property
    def local_retention(self) -> tuple[int, int]:
        """Local retention (ms, bytes) of a tiered log, for segments that are also in the remote tier; -1 means no
        limit."""
        return (
            self.retention_ms if self.local_retention_ms == FOLLOWS_RETENTION else self.local_retention_ms,
            self.retention_bytes if self.local_retention_bytes == FOLLOWS_RETENTION else self.local_retention_bytes,
        )

    @property
    def remote_tier_to_be_deleted(self) -> bool:
        """Whether tiering is off and the topic's data in the remote tier is to be deleted."""
        return self.remote_log_delete_on_disable and not self.remote_storage_enable

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> LogConfig:
        """Build a LogConfig from parsed values under Kafka's topic keys (`segment.bytes` ...). Keys that a log does not
        use are ignored. Missing keys get Kafka's default."""
        known = {each.name for each in fields(cls) if each.init}
        chosen = {name: value for key, value in values.items() if (name := _field_of(key)) in known}
        policy = chosen.get("cleanup_policy")
        if policy is not None:
            chosen["cleanup_policy"] = _names(policy)
        return cls(**chosen)


def _field_of(key: str) -> str:
    return "validate_records" if key == "kraft.produce.validate.records" else key.replace(".", "_")


def _names(value: str | Sequence[str]) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    return tuple(name.strip() for name in names if name.strip())
