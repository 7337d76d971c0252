"""Batches of producers, and the state that they are applied to."""

from __future__ import annotations

from kraft.protocol.records.control_record import TransactionMarker, build_marker_batch
from kraft.storage.log_append import LogAppendInfo
from kraft.storage.log_validator import AppendOrigin
from kraft.storage.unified_log import UnifiedLog
from tests.unit.storage.support import NOW_MS


def end(
    log: UnifiedLog,
    control_type: int,
    *,
    producer_id: int = 1,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    version: int = 0,
) -> LogAppendInfo:
    marker = TransactionMarker(control_type, coordinator_epoch)
    data = build_marker_batch(
        marker, offset=0, timestamp_ms=NOW_MS, leader_epoch=0, producer_id=producer_id, producer_epoch=epoch
    )
    return log.append_as_leader(data, 0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR, transaction_version=version)
