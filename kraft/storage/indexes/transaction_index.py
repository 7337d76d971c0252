"""Aborted transactions of a segment (KIP-98): entries of 34 bytes, in the order of their markers.

A closed segment has the file also where nothing was aborted, so that a missing one is known to be missing. Kafka makes
it with the first entry, and reads an empty one.

A read_committed Fetch returns those that overlap its range, and the consumer leaves their records out. Unlike the
other indexes this one cannot be rebuilt from its segment alone: the transaction may have begun in an earlier one. So
recovery replays producer state along with it, and `transaction_rebuild` walks the log from its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct

from kraft.common.errors import CorruptData
from kraft.storage.indexes.index_file import IndexFile

VERSION = 0


class AbortedTransaction:
    """`first_offset` is its first record, `last_offset` its marker, `last_stable_offset` the LSO right after the
    marker was appended."""

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
    """`.txnindex` of one segment."""

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
        """Add those that overlap [fetch_offset, upper_bound). True when no later segment can hold more of them."""
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
        """Raises CorruptData unless every entry can be true."""
        for transaction in self:
            if transaction.last_offset < self.base_offset or transaction.first_offset > transaction.last_offset:
                raise CorruptData(f"{self.path}: {transaction} cannot be right in the segment at {self.base_offset}")


def encode_transactions(transactions: Iterable[AbortedTransaction]) -> bytes:
    """The content of an index that has these entries."""
    return b"".join(TransactionIndex.ENTRY.pack(*_fields(transaction)) for transaction in transactions)


def _fields(transaction: AbortedTransaction) -> tuple[int, int, int, int, int]:
    return (
        VERSION,
        transaction.producer_id,
        transaction.first_offset,
        transaction.last_offset,
        transaction.last_stable_offset,
    )
