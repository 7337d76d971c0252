"""The first records of a new active controller.

An empty log gets the bootstrap records in a metadata transaction (KIP-868), so that no node applies only a part of
them. Below 3.6-IV1, which has no transactions, they are one batch. If the previous controller left a transaction open,
it is aborted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kraft.common.config.resource_type import ResourceType
from kraft.common.metadata_versions import metadata_version_of
from kraft.controller.controller_view import MIN_IN_SYNC_REPLICAS, ControllerView
from kraft.metadata.image.features_image import ELIGIBLE_LEADER_REPLICAS_VERSION, METADATA_VERSION
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
    level = _level(bootstrap, METADATA_VERSION)
    has_transactions = level is None or metadata_version_of(level).serves_metadata_transactions
    if has_transactions:
        records.append(BeginTransactionRecord(name="Bootstrap records"))
    records += bootstrap
    if (_level(bootstrap, ELIGIBLE_LEADER_REPLICAS_VERSION) or 0) > 0:
        value = str(view.schema.static_min_in_sync_replicas())
        records.append(
            ConfigRecord(resource_type=ResourceType.BROKER, resource_name="", name=MIN_IN_SYNC_REPLICAS, value=value)
        )
    if has_transactions:
        records.append(EndTransactionRecord())
    return records


def _level(bootstrap: Sequence[Any], feature: str) -> int | None:
    """Return the level that the records finalize for a feature, None if they do not name it."""
    levels = [
        record.feature_level
        for record in bootstrap
        if isinstance(record, FeatureLevelRecord) and record.name == feature
    ]
    return levels[-1] if levels else None
