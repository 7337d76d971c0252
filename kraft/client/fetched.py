"""What of a Fetch answer a reader may see: no control batches, and with read_committed nothing of aborted
transactions (KIP-98)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kraft.protocol.messages.fetch_response import AbortedTransaction
from kraft.protocol.records.control_record import ControlRecordType, control_type_of
from kraft.protocol.records.record_batch import Buffer, RecordBatch, batches


def visible_batches(
    records: Buffer, aborted: Sequence[AbortedTransaction] | None
) -> Iterator[tuple[RecordBatch, bool]]:
    """Each whole batch, checked, and whether its records are for the reader. `aborted` None: transactions don't matter.

    A producer's transaction is aborted from its first offset in `aborted` until its abort marker. Raises CorruptBatch.
    """
    waiting = sorted(aborted or (), key=lambda transaction: transaction.first_offset)
    aborting: set[int] = set()
    for batch in batches(records, partial_tail=True):
        batch.verify_crc()
        while waiting and waiting[0].first_offset <= batch.last_offset:
            aborting.add(waiting.pop(0).producer_id)
        if batch.is_control:
            if batch.producer_id in aborting and is_abort_marker(batch):
                aborting.discard(batch.producer_id)
            yield batch, False
        else:
            yield batch, not (batch.is_transactional and batch.producer_id in aborting)


def is_abort_marker(batch: RecordBatch) -> bool:
    return any(control_type_of(record.key) == ControlRecordType.ABORT for record in batch.records())
