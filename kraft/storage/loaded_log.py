"""What comes of loading a partition's directory (`log_loader`)."""

from __future__ import annotations

from dataclasses import dataclass, field

from kraft.storage.leader_epoch_cache import LeaderEpochCache
from kraft.storage.log_segment import LogSegment
from kraft.storage.producer_state_manager import ProducerStateManager


@dataclass(slots=True)
class LoadReport:
    """What loading found and did, for the log of a person: one sentence an event, and bytes cut or dropped."""

    events: list[str] = field(default_factory=list)
    bytes_cut: int = 0
    segments_recovered: int = 0


@dataclass(slots=True, kw_only=True)
class LoadedLog:
    """A log's state after loading."""

    segments: list[LogSegment]
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    epochs: LeaderEpochCache
    producers: ProducerStateManager
    report: LoadReport
    clean: bool
    epochs_on_disk: bool
