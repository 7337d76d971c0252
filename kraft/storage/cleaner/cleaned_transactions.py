"""The transactions in the part of the log that the cleaner reads. Aborted records are removed immediately. A marker is
kept as long as any record of its transaction is kept."""

from __future__ import annotations

from kraft.protocol.records.control_record import ControlRecordType, control_type_of
from kraft.protocol.records.record_batch import RecordBatch
from kraft.storage.indexes.transaction_index import AbortedTransaction

MARKER_BYTES_MAX = 1 << 16
"""Bytes that the one record of a transaction marker may decompress to."""


class CleanedTransactions:
    """Transaction state of a cleaning. It must receive every batch in log order. `kept_aborts` collects the aborted
    transactions that the cleaned segment must index."""

    __slots__ = ("_aborted", "_keeps_markers", "_ongoing_aborted", "_ongoing_committed", "kept_aborts")

    def __init__(self) -> None:
        self._aborted: list[AbortedTransaction] = []
        self._ongoing_aborted: dict[int, tuple[AbortedTransaction, bool]] = {}
        self._ongoing_committed: dict[int, None] = {}
        self._keeps_markers = False
        self.kept_aborts: list[AbortedTransaction] = []

    def copy(self) -> CleanedTransactions:
        """Copy the current state, so that a segment can be read again."""
        other = CleanedTransactions()
        other._aborted = list(self._aborted)
        other._ongoing_aborted = dict(self._ongoing_aborted)
        other._ongoing_committed = dict(self._ongoing_committed)
        other._keeps_markers = self._keeps_markers
        other.kept_aborts = list(self.kept_aborts)
        return other

    def skip_to(self, end_offset: int) -> None:
        """Skip the unreadable batches before `end_offset`, which are kept. Transactions that ended there are over;
        other transactions continue. From here on all markers are kept, because the unreadable batches may hold records
        of their transactions."""
        known = [*self._aborted, *(transaction for transaction, _ in self._ongoing_aborted.values())]
        self._aborted = [transaction for transaction in known if transaction.last_offset >= end_offset]
        self._aborted.sort(key=lambda transaction: transaction.first_offset)
        self._ongoing_aborted.clear()
        self._keeps_markers = True

    def add_aborted(self, transactions: list[AbortedTransaction]) -> None:
        """Add aborted transactions of the next segments. Transactions already present are skipped."""
        known = {(known.producer_id, known.first_offset) for known in self._aborted}
        known.update((known.producer_id, known.first_offset) for known, _ in self._ongoing_aborted.values())
        self._aborted += [
            transaction
            for transaction in transactions
            if (transaction.producer_id, transaction.first_offset) not in known
        ]
        self._aborted.sort(key=lambda transaction: transaction.first_offset)

    def discards(self, batch: RecordBatch) -> bool:
        """Whether the records of `batch` may be removed: aborted data, or a marker whose transaction has no record
        left."""
        while self._aborted and self._aborted[0].first_offset <= batch.last_offset:
            transaction = self._aborted.pop(0)
            self._ongoing_aborted.setdefault(transaction.producer_id, (transaction, False))
        return self._discards_marker(batch) if batch.is_control else self._discards_data(batch)

    def _discards_data(self, batch: RecordBatch) -> bool:
        if not batch.is_transactional:
            return False
        ongoing = self._ongoing_aborted.get(batch.producer_id)
        if ongoing is None:
            self._ongoing_committed[batch.producer_id] = None
            return False
        self._ongoing_aborted[batch.producer_id] = (ongoing[0], True)
        return True

    def _discards_marker(self, batch: RecordBatch) -> bool:
        if batch.count == 0:
            return True  # Cleaned before: only its offset and epoch are left.
        control_type = control_type_of(batch.records(MARKER_BYTES_MAX)[0].key)
        if control_type == ControlRecordType.ABORT:
            transaction, saw_data = self._ongoing_aborted.pop(batch.producer_id, (None, False))
            if transaction is not None and (saw_data or self._keeps_markers):
                self.kept_aborts.append(transaction)
                return False
            return not self._keeps_markers
        if control_type == ControlRecordType.COMMIT:
            return self._ongoing_committed.pop(batch.producer_id, self) is self and not self._keeps_markers
        return False
