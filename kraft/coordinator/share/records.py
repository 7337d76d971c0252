"""`ShareSnapshot` and `ShareUpdate`, the records of `__share_group_state`.

A snapshot is the whole state, an update adds to it, and a snapshot key without a value deletes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kraft.coordinator.records.serde import SHARE_RECORDS, UnknownRecordType, encode_key, encode_value
from kraft.coordinator.records.share_snapshot_key import ShareSnapshotKey
from kraft.coordinator.records.share_snapshot_value import ShareSnapshotValue
from kraft.coordinator.records.share_snapshot_value import StateBatch as SnapshotBatch
from kraft.coordinator.records.share_update_key import ShareUpdateKey
from kraft.coordinator.records.share_update_value import ShareUpdateValue
from kraft.coordinator.records.share_update_value import StateBatch as UpdateBatch
from kraft.coordinator.shard import LogRecord
from kraft.coordinator.share.share_state import SharePartitionKey, ShareState, StateBatch, combine


def snapshot_record(key: SharePartitionKey, state: ShareState) -> LogRecord:
    value = ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.create_timestamp_ms,
        write_timestamp=state.write_timestamp_ms,
        state_batches=[
            SnapshotBatch(first_offset=first, last_offset=last, delivery_state=delivery, delivery_count=count)
            for first, last, delivery, count in state.batches
        ],
    )
    return _key(key), encode_value(value, 0)


def update_record(key: SharePartitionKey, update: ShareUpdateValue) -> LogRecord:
    name = ShareUpdateKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
    return encode_key(name), encode_value(update, 0)


def update_value(
    snapshot_epoch: int, leader_epoch: int, start_offset: int, complete_count: int, batches: Iterable[StateBatch]
) -> ShareUpdateValue:
    return ShareUpdateValue(
        snapshot_epoch=snapshot_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=complete_count,
        state_batches=[
            UpdateBatch(first_offset=first, last_offset=last, delivery_state=delivery, delivery_count=count)
            for first, last, delivery, count in batches
        ],
    )


def tombstone(key: SharePartitionKey) -> LogRecord:
    return _key(key), None


def _key(key: SharePartitionKey) -> bytes:
    return encode_key(ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition))


def decode(
    key: bytes, value: bytes | None
) -> tuple[SharePartitionKey, ShareSnapshotValue | ShareUpdateValue | None] | None:
    """Decode a share partition and its record (None: deleted). Returns None for records of another type, and for an
    update without a value, which Kafka never writes. Raises ProtocolError."""
    try:
        record = SHARE_RECORDS.decode(key, value)
    except UnknownRecordType:
        return None
    name = record.key
    assert isinstance(name, ShareSnapshotKey | ShareUpdateKey)
    if record.value is None and isinstance(name, ShareUpdateKey):
        return None
    assert record.value is None or isinstance(record.value, ShareSnapshotValue | ShareUpdateValue)
    return SharePartitionKey(name.group_id, bytes(name.topic_id), name.partition), record.value


def after_snapshot(before: ShareState | None, value: ShareSnapshotValue, updates_max: int) -> ShareState:
    """Return the state that a snapshot record sets. Overlapping batches in it are combined."""
    updates = 0 if before is None else before.update_count
    return ShareState(
        snapshot_epoch=value.snapshot_epoch,
        state_epoch=value.state_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        delivery_complete_count=value.delivery_complete_count,
        batches=combine((), map(_batch, value.state_batches), value.start_offset),
        create_timestamp_ms=value.create_timestamp,
        write_timestamp_ms=value.write_timestamp,
        latest_leader_epoch=max(value.leader_epoch, 0 if before is None else before.latest_leader_epoch),
        latest_state_epoch=max(value.state_epoch, 0 if before is None else before.latest_state_epoch),
        update_count=0 if updates >= updates_max else updates,
    )


def after_update(before: ShareState | None, value: ShareUpdateValue) -> ShareState:
    """Return the state after an update record. `before` is None if the log begins with the update, because the snapshot
    before it was deleted."""
    if before is None:
        before = ShareState(
            value.snapshot_epoch, 0, value.leader_epoch, value.start_offset, value.delivery_complete_count
        )
    start_offset = before.start_offset if value.start_offset == -1 else value.start_offset
    leader_epoch = before.leader_epoch if value.leader_epoch == -1 else value.leader_epoch
    return replace(
        before,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=value.delivery_complete_count,
        batches=combine(before.batches, map(_batch, value.state_batches), start_offset),
        latest_leader_epoch=max(before.latest_leader_epoch, leader_epoch),
        update_count=before.update_count + 1,
    )


def _batch(batch: SnapshotBatch | UpdateBatch) -> StateBatch:
    return StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
