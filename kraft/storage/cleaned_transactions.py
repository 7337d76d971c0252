"""Which transactions the cleaner is reading through: so that aborted records go at once, and a marker stays as long
as any record of its transaction does."""

from __future__ import annotations

from kraft.protocol.records.control_record import ControlRecordType, control_type_of
from kraft.protocol.records.record_batch import RecordBatch
from kraft.storage.transaction_index import AbortedTransaction


class CleanedTransactions:
    """Fed with every batch in the order of the log. `kept_aborts` collects the aborted transactions that the cleaned
    segment must index."""

    __slots__ = ("_aborted", "_ongoing_aborted", "_ongoing_committed", "kept_aborts")

    def __init__(self) -> None:
        self._aborted: list[AbortedTransaction] = []
        self._ongoing_aborted: dict[int, tuple[AbortedTransaction, bool]] = {}
        self._ongoing_committed: dict[int, None] = {}
        self.kept_aborts: list[AbortedTransaction] = []

    def add_aborted(self, transactions: list[AbortedTransaction]) -> None:
        """Aborted transactions of the segments to come; those known already are left out."""
        known = {(known.producer_id, known.first_offset) for known in self._aborted}
        known.update((known.producer_id, known.first_offset) for known, _ in self._ongoing_aborted.values())
        self._aborted += [
            transaction
            for transaction in transactions
            if (transaction.producer_id, transaction.first_offset) not in known
        ]
        self._aborted.sort(key=lambda transaction: transaction.first_offset)

    def discards(self, batch: RecordBatch) -> bool:
        """Whether the records of `batch` may go: aborted data, or a marker whose transaction has no record left."""
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
        control_type = control_type_of(batch.records()[0].key)
        if control_type == ControlRecordType.ABORT:
            transaction, saw_data = self._ongoing_aborted.pop(batch.producer_id, (None, False))
            if transaction is not None and saw_data:
                self.kept_aborts.append(transaction)
                return False
            return True
        if control_type == ControlRecordType.COMMIT:
            return self._ongoing_committed.pop(batch.producer_id, self) is self
        return False
