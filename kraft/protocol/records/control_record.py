"""Control records: records that brokers and controllers write into a log, and that are never delivered to applications.

The key is version i16 and type i16. A transaction marker's value is version i16 and coordinator epoch i32 (KIP-98). The
quorum's control records (KIP-595, KIP-630, KIP-853) have a message of their schema as value, encoded by the caller. A
batch with a transaction marker has exactly one record. A batch of the quorum may have several control records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from struct import error as StructError
from typing import Any, Protocol

from kraft.protocol.records.builder import build_batch, build_control_record_batch
from kraft.protocol.records.record import InvalidRecord, Record

_KEY = Struct(">hh")
_MARKER = Struct(">hi")
_MARKER_RECORD = Struct(">5s hh c hi c")
_MARKER_HEAD, _MARKER_SIZE, _MARKER_END = b"\x20\0\0\0\x08", b"\x0c", b"\0"
"""A marker as every broker writes it: a record of 16 bytes, a key of 4, a value of 6, no headers. Other forms are
decoded record by record."""


class ControlRecordType:
    """The type of a control record, as in its key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


def control_key(control_type: int) -> bytes:
    """Return the key of a control record."""
    return _KEY.pack(0, control_type)


def control_type_of(key: bytes | None) -> int:
    """Return the type in a control record's key, which may be unknown to this release. Raises InvalidRecord if the
    bytes are not such a key."""
    if key is None or len(key) < _KEY.size:
        raise InvalidRecord(f"a control record with the key {key!r}")
    version, control_type = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecord(f"a control record of version {version}")
    return int(control_type)


class TransactionMarker:
    """A marker that ends a transaction: `control_type` is ABORT or COMMIT."""

    __slots__ = ("control_type", "coordinator_epoch")

    def __init__(self, control_type: int, coordinator_epoch: int) -> None:
        self.control_type = control_type
        self.coordinator_epoch = coordinator_epoch


class ControlBatch(Protocol):
    """The part of a batch that is read to find its marker; `RecordBatch` is one."""

    @property
    def is_control(self) -> bool: ...
    @property
    def count(self) -> int: ...
    def records(self) -> Iterable[KeyAndValue]: ...
    def payload(self) -> bytes | memoryview: ...


class KeyAndValue(Protocol):
    @property
    def key(self) -> Any: ...
    @property
    def value(self) -> Any: ...


def is_abort_marker(batch: ControlBatch) -> bool:
    """Whether a control batch ends an aborted transaction. False for a batch of which the cleaner has left only the
    header. Raises InvalidRecord."""
    return any(control_type_of(record.key) == ControlRecordType.ABORT for record in batch.records())


def marker_of(batch: ControlBatch) -> TransactionMarker | None:
    """Return the transaction marker in a control batch; None if the batch is of another kind or empty. Raises
    InvalidRecord."""
    if not batch.is_control or batch.count == 0:
        return None
    payload = batch.payload()
    if len(payload) == _MARKER_RECORD.size:
        head, _, control_type, size, _, coordinator_epoch, end = _MARKER_RECORD.unpack(payload)
        is_usual = head == _MARKER_HEAD and size == _MARKER_SIZE and end == _MARKER_END
        if is_usual and control_type in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
            return TransactionMarker(control_type, coordinator_epoch)
    record = next(iter(batch.records()))
    control_type = control_type_of(record.key)
    if control_type not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        return None
    try:
        _, coordinator_epoch = _MARKER.unpack_from(record.value or b"")
    except StructError as problem:
        raise InvalidRecord(f"a transaction marker with the value {record.value!r}") from problem
    return TransactionMarker(control_type, coordinator_epoch)


def build_marker_batch(
    marker: TransactionMarker,
    *,
    offset: int,
    timestamp_ms: int,
    leader_epoch: int,
    producer_id: int,
    producer_epoch: int,
) -> bytes:
    """Build the one-record batch that commits or aborts a producer's transaction in one partition."""
    return build_control_record_batch(
        _KEY.pack(0, marker.control_type),
        _MARKER.pack(0, marker.coordinator_epoch),
        timestamp_ms,
        offset=offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def build_control_batch(
    entries: Sequence[tuple[int, bytes]], *, base_offset: int, timestamp_ms: int, leader_epoch: int
) -> bytes:
    """Build a batch of the quorum's control records, each given as (type, encoded message)."""
    records = [
        Record(base_offset + index, timestamp_ms, control_key(control_type), value)
        for index, (control_type, value) in enumerate(entries)
    ]
    return build_batch(records, leader_epoch=leader_epoch, is_control=True)
