"""The `.snapshot` file: producer state as of an offset, so that a restart need not read the log from its start.

Version i16 = 1, CRC-32C u32 of everything from byte 6 on, count i32, then entries of 46 bytes.

Kafka writes one entry per producer, with its last batch. After a restart it refuses a retry of an older batch as out of
order. Here each of the last five batches has an entry, oldest first, and the last one carries the open transaction.
Kafka and earlier releases use only the last entry of a producer.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from crc32c import crc32c

from kraft.common.errors import CorruptData
from kraft.storage.producers.producer_state_entry import CACHED_BATCHES, BatchMetadata, ProducerStateEntry

VERSION = 1
NO_TRANSACTION = -1

_HEAD = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")
_CRC_FROM = _HEAD.size


def encode_snapshot(entries: Iterable[ProducerStateEntry]) -> bytes:
    """Encode a snapshot of the entries, in the order given."""
    body, count = bytearray(_COUNT.size), 0
    for entry in entries:
        for batch in entry.batches[:-1]:
            body += _ENTRY.pack(
                entry.producer_id,
                entry.producer_epoch,
                batch.last_sequence,
                batch.last_offset,
                batch.offset_delta,
                batch.timestamp,
                entry.coordinator_epoch,
                NO_TRANSACTION,
            )
        transaction = entry.current_transaction_first_offset
        body += _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.last_offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            NO_TRANSACTION if transaction is None else transaction,
        )
        count += max(1, len(entry.batches))
    _COUNT.pack_into(body, 0, count)
    return _HEAD.pack(VERSION, crc32c(bytes(body))) + bytes(body)


def decode_snapshot(path: str, content: bytes) -> list[ProducerStateEntry]:
    """Decode a snapshot written by `encode_snapshot`. Raises CorruptData."""
    if len(content) < _CRC_FROM + _COUNT.size:
        raise CorruptData(f"{path}: not a producer snapshot ({len(content)} bytes)")
    version, crc = _HEAD.unpack_from(content)
    if version != VERSION:
        raise CorruptData(f"{path}: unknown version {version}")
    if crc32c(content[_CRC_FROM:]) != crc:
        raise CorruptData(f"{path}: the CRC is wrong")
    (count,) = _COUNT.unpack_from(content, _CRC_FROM)
    if len(content) != _CRC_FROM + _COUNT.size + count * _ENTRY.size:
        raise CorruptData(f"{path}: {len(content)} bytes are too few or too many for {count} entries")
    producers: dict[int, ProducerStateEntry] = {}
    for fields in _ENTRY.iter_unpack(content[_CRC_FROM + _COUNT.size :]):
        entry = _entry(*fields)
        earlier = producers.get(entry.producer_id)
        if earlier is not None and earlier.producer_epoch == entry.producer_epoch:
            entry.batches = (*earlier.batches, *entry.batches)[-CACHED_BATCHES:]
        producers[entry.producer_id] = entry
    return list(producers.values())


def _entry(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    transaction: int,
) -> ProducerStateEntry:
    return ProducerStateEntry(
        producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        last_timestamp=timestamp,
        current_transaction_first_offset=transaction if transaction >= 0 else None,
        batches=(BatchMetadata(last_sequence, last_offset, offset_delta, timestamp),) if last_offset >= 0 else (),
    )
