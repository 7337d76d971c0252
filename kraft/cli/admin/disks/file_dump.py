"""The content of a file of a log directory, one object for each element: batches and records of segments and snapshots,
entries of indexes and of producer snapshots.

Nothing is locked or written, so the file may belong to a running node: a batch that the node is appending looks
truncated. Files are read a batch at a time.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, Final

from kraft.common.errors import CorruptData, KraftError, ProtocolError
from kraft.common.ids import uuid_to_text
from kraft.coordinator.records.serde import (
    GROUP_RECORDS,
    TRANSACTION_RECORDS,
    CoordinatorRecords,
    UnknownRecordType,
)
from kraft.metadata.record_serde import MetadataRecordSerde
from kraft.protocol.records.control_record import control_type_of
from kraft.protocol.records.record import CorruptBatch, Record
from kraft.protocol.records.record_batch import HEADER_SIZE, LOG_OVERHEAD, RecordBatch
from kraft.protocol.schema import Field, fields_of
from kraft.protocol.schema import Struct as Fields
from kraft.storage.indexes.offset_index import OffsetIndex
from kraft.storage.indexes.time_index import TimeIndex
from kraft.storage.indexes.transaction_index import TransactionIndex
from kraft.storage.producers.producer_snapshot import decode_snapshot

BATCH_BYTES_MAX: Final = 1 << 30
"""A batch with a larger length field is damaged."""
INDEX_BYTES_MAX: Final = 1 << 30
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
CONTROL_NAMES: Final = {
    0: "abort",
    1: "commit",
    2: "leader change",
    3: "snapshot header",
    4: "snapshot footer",
    5: "kraft version",
    6: "voters",
}
Thing = dict[str, Any]
Decode = Callable[[Record], Thing]


class Damaged(KraftError):
    """Raised at the `position` in the file from which it cannot be read."""

    def __init__(self, path: str, position: int, what: str) -> None:
        super().__init__(f"{path}: damaged from byte {position} on: {what}")
        self.position = position


def things_of(path: str, *, with_records: bool, with_data: bool) -> Iterator[Thing]:
    """The elements of the file, by its suffix: `.log`, `.checkpoint`, `.index`, `.timeindex`, `.txnindex`, `.snapshot`,
    also followed by `.deleted` or `.cleaned`.

    `with_records` adds records to batches; `with_data` adds keys and values, decoded for Kafka's own topics. Raises
    OSError; KraftError for another suffix; Damaged after the elements before the damage.
    """
    name = os.path.basename(path)
    for ending in (".deleted", ".cleaned", ".swap", ".part"):
        name = name.removesuffix(ending)
    kind = name.rpartition(".")[2]
    if kind in ("log", "checkpoint"):
        yield from _batches(path, decoder_for(path), with_records=with_records or with_data, with_data=with_data)
        return
    entries = _ENTRIES.get(kind)
    if entries is None:
        known = ", ".join(f".{known}" for known in ("log", "checkpoint", *_ENTRIES))
        raise KraftError(f"{path}: the kind of content follows from the file name, which must end with one of {known}")
    with open(path, "rb") as file:
        content = file.read(INDEX_BYTES_MAX)
    try:
        yield from entries(path, name, content)
    except CorruptData as problem:
        raise Damaged(path, 0, str(problem)) from problem


def decoder_for(path: str) -> Decode:
    """The decoder for records of the file's topic, which is taken from the directory's name."""
    topic = os.path.basename(os.path.dirname(os.path.abspath(path))).rpartition("-")[0]
    if topic == "__cluster_metadata":
        return _metadata_record
    if topic == "__consumer_offsets":
        return lambda record: _coordinator_record(GROUP_RECORDS, record)
    if topic == "__transaction_state":
        return lambda record: _coordinator_record(TRANSACTION_RECORDS, record)
    return _plain_record


def _batches(path: str, decode: Decode, *, with_records: bool, with_data: bool) -> Iterator[Thing]:
    for batch, position in batches_of(path):
        yield _batch(batch, position)
        if with_records:
            try:
                yield from _records(batch, decode, with_data=with_data)
            except ProtocolError as problem:
                raise Damaged(path, position, str(problem)) from problem


def batches_of(path: str) -> Iterator[tuple[RecordBatch, int]]:
    """Every batch of a segment or a snapshot, with its position. CRCs are not checked. Raises OSError; Damaged after
    the batches before the damage."""
    position = 0
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        while position < size:
            head = os.pread(file.fileno(), HEADER_SIZE, position)
            if not any(head):
                raise Damaged(path, position, f"zeros up to byte {size}: preallocated or lost space")
            try:
                length = RecordBatch(head).size
                if not HEADER_SIZE <= length <= BATCH_BYTES_MAX:
                    raise CorruptBatch(f"a batch of {length} bytes")
                batch = RecordBatch(os.pread(file.fileno(), length, position))
                batch.check_frame()
            except ProtocolError as problem:
                raise Damaged(path, position, str(problem)) from problem
            yield batch, position
            position += batch.length + LOG_OVERHEAD


def _batch(batch: RecordBatch, position: int) -> Thing:
    return {
        "kind": "batch",
        "position": position,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "count": batch.count,
        "size": batch.size,
        "leader_epoch": batch.partition_leader_epoch,
        "codec": CODECS[batch.codec] if batch.codec < len(CODECS) else batch.codec,
        "timestamp_type": "log append" if batch.timestamp_type else "create",
        "base_timestamp": batch.base_timestamp,
        "max_timestamp": batch.max_timestamp,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "last_sequence": batch.last_sequence,
        "is_transactional": batch.is_transactional,
        "is_control": batch.is_control,
        "delete_horizon_ms": batch.delete_horizon_ms,
        "crc": batch.crc,
        "is_valid": batch.computed_crc() == batch.crc,
    }


def _records(batch: RecordBatch, decode: Decode, *, with_data: bool) -> Iterator[Thing]:
    for record in batch.iterate_records():
        thing: Thing = {"kind": "record", "offset": record.offset, "timestamp": record.timestamp}
        if batch.is_control:
            control = control_type_of(record.key)
            thing["control"] = CONTROL_NAMES.get(control, control)
        thing["key_size"] = None if record.key is None else len(record.key)
        thing["value_size"] = None if record.value is None else len(record.value)
        if with_data and not batch.is_control:
            thing |= decode(record)
        yield thing


def _plain_record(record: Record) -> Thing:
    headers = [{"name": name, "value": _text(value)} for name, value in record.headers]
    return {"key": _text(record.key), "value": _text(record.value), "headers": headers}


def _metadata_record(record: Record) -> Thing:
    message = MetadataRecordSerde().decode(bytes(record.value or b""))
    return {"type": type(message).__name__, "fields": plain(message)}


def _coordinator_record(records: CoordinatorRecords, record: Record) -> Thing:
    try:
        found = records.decode(bytes(record.key or b""), record.value)
    except UnknownRecordType as problem:
        return {"type": str(problem), **_plain_record(record)}
    value = None if found.value is None else plain(found.value)
    return {"type": type(found.key).__name__.removesuffix("Key"), "key": plain(found.key), "value": value}


def plain(value: Any) -> Any:
    """A message in JSON's types; bytes as text, or as base64 if they are not UTF-8; ids in Kafka's form."""
    if isinstance(value, Fields):
        return {field.name: _field(field, getattr(value, field.name)) for field in fields_of(type(value))}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return _text(value) if isinstance(value, bytes | bytearray | memoryview) else value


def _field(field: Field, value: Any) -> Any:
    if field.element_type != "uuid" or value is None:
        return plain(value)
    return list(map(uuid_to_text, value)) if field.is_array else uuid_to_text(value)


def _text(data: bytes | bytearray | memoryview | None) -> str | Thing | None:
    if data is None:
        return None
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _base_offset(name: str) -> int:
    number = name.partition(".")[0]
    return int(number) if number.isdecimal() else 0


def _rows(entry: Struct, content: bytes) -> Iterator[tuple[Any, ...]]:
    """The complete entries of an index. The index of a node that runs or was killed ends with zeros."""
    whole = len(content) - len(content) % entry.size
    yield from entry.iter_unpack(content[:whole])


def _offset_entries(path: str, name: str, content: bytes) -> Iterator[Thing]:
    base = _base_offset(name)
    for relative, position in _rows(OffsetIndex.ENTRY, content):
        if not relative and not position:
            return
        yield {"kind": "entry", "offset": base + relative, "position": position}


def _time_entries(path: str, name: str, content: bytes) -> Iterator[Thing]:
    base = _base_offset(name)
    for timestamp, relative in _rows(TimeIndex.ENTRY, content):
        if not timestamp:
            return
        yield {"kind": "entry", "timestamp": timestamp, "offset": base + relative}


def _transaction_entries(path: str, name: str, content: bytes) -> Iterator[Thing]:
    for _, producer_id, first, last, stable in _rows(TransactionIndex.ENTRY, content):
        yield {
            "kind": "aborted",
            "producer_id": producer_id,
            "first_offset": first,
            "last_offset": last,
            "last_stable_offset": stable,
        }


def _producer_entries(path: str, name: str, content: bytes) -> Iterator[Thing]:
    for entry in decode_snapshot(path, content):
        yield {
            "kind": "producer",
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "coordinator_epoch": entry.coordinator_epoch,
            "last_timestamp": entry.last_timestamp,
            "open_since_offset": entry.current_transaction_first_offset,
            "batches": [
                {
                    "last_sequence": batch.last_sequence,
                    "last_offset": batch.last_offset,
                    "count": batch.offset_delta + 1,
                }
                for batch in entry.batches
            ],
        }


_ENTRIES: Final[dict[str, Callable[[str, str, bytes], Iterator[Thing]]]] = {
    "index": _offset_entries,
    "timeindex": _time_entries,
    "txnindex": _transaction_entries,
    "snapshot": _producer_entries,
}
