"""The first records of a new active controller.

An empty log gets the bootstrap records in a metadata transaction (KIP-868), so that no node applies only a part of
them. If the previous controller left a transaction open, it is aborted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kraft.common.config.resource_type import ResourceType
from kraft.controller.controller_view import MIN_IN_SYNC_REPLICAS, ControllerView
from kraft.metadata.image.features_image import ELIGIBLE_LEADER_REPLICAS_VERSION
from kraft.metadata.records.abort_transaction_record import AbortTransactionRecord
from kraft.metadata.records.begin_transaction_record import BeginTransactionRecord
from kraft.metadata.records.config_record import ConfigRecord
from kraft.metadata.records.end_transaction_record import EndTransactionRecord
from kraft.metadata.records.feature_level_record import FeatureLevelRecord


def activation_records(view: ControllerView, *, transaction_is_open: bool, bootstrap: Sequence[Any]) -> list[Any]:
    """Return the activation records, possibly none. `bootstrap` are the records that formatting left for the first
    controller: at least the level of metadata.version."""
    records: list[Any] = [AbortTransactionRecord(reason="Controller failover")] if transaction_is_open else []
    if not view.image.is_empty:
        return records
    records.append(BeginTransactionRecord(name="Bootstrap records"))
    records += bootstrap
    if _elr_level(bootstrap) > 0:
        value = str(view.schema.static_min_in_sync_replicas())
        records.append(
            ConfigRecord(resource_type=ResourceType.BROKER, resource_name="", name=MIN_IN_SYNC_REPLICAS, value=value)
        )
    records.append(EndTransactionRecord())
    return records


def _elr_level(bootstrap: Sequence[Any]) -> int:
    levels = [
        record.feature_level
        for record in bootstrap
        if isinstance(record, FeatureLevelRecord) and record.name == ELIGIBLE_LEADER_REPLICAS_VERSION
    ]
    return levels[-1] if levels else 0
