"""`TransactionLogKey` and `TransactionLogValue`, the records of `__transaction_state`."""

from __future__ import annotations

from typing import Final

from kraft.common.errors import ProtocolError
from kraft.common.ids import TopicPartition
from kraft.coordinator.records.serde import TRANSACTION_RECORDS, UnknownRecordType, encode_key, encode_value
from kraft.coordinator.records.transaction_log_key import TransactionLogKey
from kraft.coordinator.records.transaction_log_value import PartitionsSchema, TransactionLogValue
from kraft.coordinator.transaction.transaction import State, Transaction

FLEXIBLE: Final = 1
"""First transaction.version whose values have tagged fields."""


def key_of(transactional_id: str) -> bytes:
    return encode_key(TransactionLogKey(transactional_id=transactional_id))


def value_of(transaction: Transaction, level: int) -> bytes:
    """The transaction's value in the log, in the format of transaction.version `level`."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        by_topic.setdefault(topic, []).append(partition)
    partitions = [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in by_topic.items()]
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        next_producer_epoch=transaction.next_producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=int(transaction.state),
        transaction_partitions=None if transaction.state is State.EMPTY else partitions,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        client_transaction_version=transaction.client_version,
    )
    if level < FLEXIBLE:  # Version 0 has no room for these.
        value.previous_producer_id = value.next_producer_id = value.next_producer_epoch = -1
        value.client_transaction_version = 0
    return encode_value(value, 1 if level >= FLEXIBLE else 0)


def decode(key: bytes, value: bytes | None) -> tuple[str, Transaction | None] | None:
    """Decode a transactional id and its transaction (None: deleted). Returns None for records of another type. Raises
    ProtocolError."""
    try:
        record = TRANSACTION_RECORDS.decode(key, value)
    except UnknownRecordType:
        return None
    assert isinstance(record.key, TransactionLogKey)
    if record.value is None:
        return record.key.transactional_id, None
    found = record.value
    assert isinstance(found, TransactionLogValue)
    try:
        state = State(found.transaction_status)
    except ValueError as problem:
        raise ProtocolError(
            f"transactional id {record.key.transactional_id!r} has the unknown status {found.transaction_status}"
        ) from problem
    return record.key.transactional_id, Transaction(
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        timeout_ms=found.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(each.topic, partition)
            for each in found.transaction_partitions or ()
            for partition in each.partition_ids
        ),
        started_ms=found.transaction_start_timestamp_ms,
        updated_ms=found.transaction_last_update_timestamp_ms,
        previous_producer_id=found.previous_producer_id,
        next_producer_id=found.next_producer_id,
        client_version=found.client_transaction_version,
        next_producer_epoch=found.next_producer_epoch,
    )
