"""The group as it has to be: who holds which record, how often it was delivered, and what is settled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
PARTITIONS: Final = 2


class Kind(NamedTuple):
    """How members of a life fetch. `batch_records_max`: the largest batch that is produced."""

    name: str
    is_strict: bool
    deliveries_max: int
    batch_records_max: int


KINDS: Final = (
    Kind("strict", True, 2, 6),
    Kind("whole batches", False, 2, 6),
    # A record is delivered alone before it is given up.
    Kind("alone", False, 3, 1),
)


class Record:
    """One offset of a partition, as the group has to see it."""

    __slots__ = ("deliveries", "holder", "is_settled")

    def __init__(self) -> None:
        self.deliveries = 0
        self.holder: str | None = None
        self.is_settled = False


class Expected:
    """The records of both partitions, and the starts of the logs and of their batches."""

    def __init__(self, deliveries_max: int) -> None:
        self.records: list[list[Record]] = [[] for _ in range(PARTITIONS)]
        self.batch_starts: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self.log_starts = [0] * PARTITIONS
        self._aborted: list[set[int]] = [set() for _ in range(PARTITIONS)]
        self._deliveries_max = deliveries_max

    def append(self, partition: int, count: int) -> None:
        self.batch_starts[partition].append(len(self.records[partition]))
        self.records[partition] += [Record() for _ in range(count)]

    def append_marker(self, partition: int) -> None:
        """A marker is an offset as any other."""
        self.records[partition].append(Record())

    def abort(self, partition: int, first: int) -> None:
        """The records from `first` on are aborted, so that they are delivered to no member."""
        self._aborted[partition].update(range(first, len(self.records[partition])))
        for record in self.records[partition][first:]:
            record.is_settled = True

    def delete_below(self, partition: int, offset: int) -> None:
        """What is held stays held."""
        self.log_starts[partition] = offset
        for record in self.records[partition][:offset]:
            record.is_settled = record.is_settled or record.holder is None

    def begin_at(self, partition: int, offset: int) -> None:
        """Forget all that was delivered; the group begins at an offset."""
        begin = max(offset, self.log_starts[partition])
        for at, record in enumerate(self.records[partition]):
            record.deliveries, record.holder = 0, None
            record.is_settled = at < begin or at in self._aborted[partition]

    def available(self, places: Iterable[int]) -> dict[tuple[int, int], int]:
        """What may be acquired, and how often it will have been delivered then."""
        return {
            (partition, offset): record.deliveries + 1
            for partition in sorted(places)
            for offset, record in enumerate(self.records[partition])
            if not record.is_settled and record.holder is None
        }

    def unsettled(self, partition: int) -> list[int]:
        return [offset for offset, record in enumerate(self.records[partition]) if not record.is_settled]

    def held(self, member: str) -> list[tuple[int, int]]:
        """Partition and offset of each record that a member holds."""
        return [
            (partition, offset)
            for partition, records in enumerate(self.records)
            for offset, record in enumerate(records)
            if record.holder == member
        ]

    def hold(self, member: str, place: tuple[int, int], deliveries: int) -> str:
        """A member gets a record. Returns what is wrong with that; empty if nothing is."""
        partition, offset = place
        record = self.records[partition][offset]
        found = record.is_settled, record.holder, record.deliveries + 1
        if found != (False, None, deliveries):
            return f"{partition}:{offset} is {found}"
        record.holder, record.deliveries = member, deliveries
        return ""

    def settle(self, partition: int, offset: int, kind: int) -> None:
        record = self.records[partition][offset]
        if kind == RENEW:
            return
        record.holder = None
        record.is_settled = (
            kind != RELEASE or record.deliveries >= self._deliveries_max or offset < self.log_starts[partition]
        )
