"""Aborted transactions of a segment (KIP-98): entries of 34 bytes, in the order of their markers.

A closed segment has the file even without aborted transactions, so that a lost file is noticed. Kafka creates the file
with the first entry, and accepts an empty one.

A read_committed Fetch returns the transactions that overlap its range, and the consumer drops their records. Unlike the
other indexes, this one cannot be rebuilt from its segment alone, because a transaction may begin in an earlier segment.
So recovery replays producer state with it, and `transaction_rebuild` walks the log from its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct

from kraft.common.errors import CorruptData
from kraft.storage.indexes.index_file import IndexFile

VERSION = 0


class AbortedTransaction:
    """An aborted transaction. `first_offset` is its first record, `last_offset` its marker. `last_stable_offset` is the
    LSO right after the marker was appended."""

    __slots__ = ("first_offset", "last_offset", "last_stable_offset", "producer_id")

    def __init__(self, producer_id: int, first_offset: int, last_offset: int, last_stable_offset: int) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.last_stable_offset = last_stable_offset

    def __repr__(self) -> str:
        offsets = f"{self.first_offset}..{self.last_offset}, last_stable_offset={self.last_stable_offset}"
        return f"AbortedTransaction(producer_id={self.producer_id}, offsets={offsets})"


class TransactionIndex(IndexFile):
    """The `.txnindex` file of a segment."""

    ENTRY = Struct(">hqqqq")
    __slots__ = ()

    def append(self, transaction: AbortedTransaction) -> None:
        self.append_raw(*_fields(transaction))

    def __iter__(self) -> Iterator[AbortedTransaction]:
        for index in range(self.count):
            version, *fields = self.raw(index)
            if version != VERSION:
                raise CorruptData(f"{self.path}: entry {index} has the unknown version {version}")
            yield AbortedTransaction(*fields)

    def collect(self, fetch_offset: int, upper_bound: int, into: list[AbortedTransaction]) -> bool:
        """Add the transactions that overlap [fetch_offset, upper_bound) to `into`. Return True if later segments cannot
        have more."""
        for transaction in self:
            if transaction.last_offset >= fetch_offset and transaction.first_offset < upper_bound:
                into.append(transaction)
            if transaction.last_stable_offset >= upper_bound:
                return True
        return False

    def truncate_to(self, offset: int) -> None:
        """Drop every transaction whose marker is at or beyond `offset`."""
        for index, transaction in enumerate(self):
            if transaction.last_offset >= offset:
                self.truncate_to_entries(index)
                return

    def check(self) -> None:
        """Raises CorruptData if an entry is impossible."""
        for transaction in self:
            if transaction.last_offset < self.base_offset or transaction.first_offset > transaction.last_offset:
                raise CorruptData(f"{self.path}: {transaction} is impossible in the segment at {self.base_offset}")


def encode_transactions(transactions: Iterable[AbortedTransaction]) -> bytes:
    """The content of an index file with these entries."""
    return b"".join(TransactionIndex.ENTRY.pack(*_fields(transaction)) for transaction in transactions)


def _fields(transaction: AbortedTransaction) -> tuple[int, int, int, int, int]:
    return (
        VERSION,
        transaction.producer_id,
        transaction.first_offset,
        transaction.last_offset,
        transaction.last_stable_offset,
    )
