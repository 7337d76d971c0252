"""Reduces a coordinator's log to the last effective record of each key, selected by raw bytes.

Most records of a busy coordinator are superseded by a later one of the same key, and are never decoded. The records
that decide the state are kept, in log order:

- the last value of a key, written outside of transactions or in a committed one. The order is that of the values, not
  of the markers. A committed value is replayed as if written outside of a transaction;
- the last tombstone of a key, because it also removes earlier pending values;
- values of transactions that are still open;
- the last aborted value of a key without a later effective one: it may have created a group.

If the state continues from an earlier part of the log, every marker is kept: it may end a transaction that began there.
tests/properties/test_coordinator_load.py compares this with the replay of every record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kraft.coordinator.shard import Marker, Producer

KEPT_MAX = 100_000
"""Limit of records kept in memory, of some hundred bytes each. When it is reached, they are replayed before more are
read."""


class UndecidedRecord(NamedTuple):
    """A value written in a transaction that was aborted (`is_aborted`) or is still open. `record` is its encoded form
    from the batch."""

    record: bytes
    producer: Producer
    is_aborted: bool


Kept = bytes | UndecidedRecord | Marker
"""A record to replay. Plain bytes are a record outside of transactions or of a committed one."""


class LatestRecords:
    """The latest record of each key in one part of the log. Records must be added in order. `keeps_all`: the log is not
    compacted, and every record is kept."""

    __slots__ = ("_aborted", "_continues", "_keeps_all", "_kept", "_open", "_tombstones", "_values")

    def __init__(self, *, continues: bool, keeps_all: bool = False) -> None:
        self._continues = continues
        self._keeps_all = keeps_all
        self._kept: dict[int, Kept] = {}
        """By offset, ascending."""
        self._values: dict[bytes, int] = {}
        self._tombstones: dict[bytes, int] = {}
        self._aborted: dict[bytes, int] = {}
        self._open: dict[int, dict[bytes, int]] = {}

    @property
    def is_full(self) -> bool:
        return len(self._kept) >= KEPT_MAX

    def in_order(self) -> Iterator[Kept]:
        """The records to replay. Nothing may be added during the iteration."""
        return iter(self._kept.values())

    def add(self, offset: int, key: bytes, has_value: bool, record: bytes, producer: Producer | None) -> None:
        """Add the next record."""
        if self._keeps_all:
            self._kept[offset] = record
            return
        if has_value and producer is not None:
            latest = self._open.setdefault(producer.producer_id, {})
            self._kept[offset] = UndecidedRecord(record, producer, False)
        else:
            latest = self._values if has_value else self._tombstones
            self._kept[offset] = record
            if has_value and key in self._aborted:
                del self._kept[self._aborted.pop(key)]
        superseded = latest.get(key)
        if superseded is not None:
            del self._kept[superseded]
        latest[key] = offset

    def end_transaction(self, offset: int, marker: Marker) -> None:
        """Apply the marker at `offset`."""
        for key, written in self._open.pop(marker.producer_id, {}).items():
            if self._values.get(key, -1) > written:
                del self._kept[written]
                continue
            value = self._kept[written]
            assert isinstance(value, UndecidedRecord), value
            self._kept[written] = value.record if marker.committed else value._replace(is_aborted=True)
            latest = self._values if marker.committed else self._aborted
            superseded = latest.get(key)
            if superseded is not None:
                del self._kept[superseded]
            latest[key] = written
        if self._continues:
            self._kept[offset] = marker
