"""The outcomes of the transactions whose records a read of uncommitted records returns."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from operator import itemgetter
from typing import NamedTuple

from kraft.common.errors import ProtocolError
from kraft.protocol.messages.fetch_response import AbortedTransaction
from kraft.protocol.records.control_record import ControlRecordType, marker_of
from kraft.protocol.records.record_batch import batches
from kraft.protocol.schema import Bytes
from kraft.rpc_client.fetched import visible_batches


class Outcome(StrEnum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    UNDECIDED = "undecided"
    """The transaction has ended after the last record that was read, and another open transaction precedes it: its
    outcome is not known yet."""


class TransactionalBatch(NamedTuple):
    """The base offset and the producer id of a transactional batch."""

    base_offset: int
    producer_id: int


@dataclass(slots=True)
class Transactions:
    """What is known about a partition's transactions, learned from one read at a time."""

    markers: dict[int, list[tuple[int, Outcome]]] = field(default_factory=dict)
    """The transaction markers of each producer in the records read, by offset."""
    open_from: Mapping[int, int] = field(default_factory=dict)
    """The first offset of each producer's open transaction."""
    aborted: set[int] = field(default_factory=set)
    """Base offsets of the aborted batches before `settled_end`."""
    settled_end: int = -1

    def outcome(self, batch: TransactionalBatch) -> Outcome:
        """The outcome of a batch's transaction. The producer's next marker decides; if none was read, the read of
        committed records or the list of open transactions does."""
        markers = self.markers.get(batch.producer_id, ())
        following = bisect_right(markers, batch.base_offset, key=itemgetter(0))
        if following < len(markers):
            return markers[following][1]
        if batch.base_offset < self.settled_end:
            return Outcome.ABORTED if batch.base_offset in self.aborted else Outcome.COMMITTED
        first = self.open_from.get(batch.producer_id)
        return Outcome.UNDECIDED if first is None or first > batch.base_offset else Outcome.OPEN

    def is_told(self, read: Sequence[TransactionalBatch | None]) -> bool:
        """Whether the outcome of every batch is known."""
        return all(batch is None or self.outcome(batch) is not Outcome.UNDECIDED for batch in read)

    def learn_markers(self, data: Bytes) -> None:
        """Learn the markers in `data`, up to a damaged batch. Decoding the records later raises the error for that
        batch."""
        try:
            for batch in batches(data, partial_tail=True):
                if not batch.is_control:
                    continue
                batch.verify_crc()
                if (marker := marker_of(batch)) is not None:
                    is_abort = marker.control_type == ControlRecordType.ABORT
                    outcome = Outcome.ABORTED if is_abort else Outcome.COMMITTED
                    self.markers.setdefault(batch.producer_id, []).append((batch.base_offset, outcome))
        except ProtocolError:
            return

    def learn_settled(self, data: Bytes, aborted: Sequence[AbortedTransaction]) -> None:
        """Learn outcomes from a read of committed records, up to a damaged batch."""
        try:
            for batch, is_visible in visible_batches(data, aborted):
                self.settled_end = batch.next_offset
                if not is_visible and not batch.is_control:
                    self.aborted.add(batch.base_offset)
        except ProtocolError:
            return
