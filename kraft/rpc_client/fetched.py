"""The part of a Fetch response that a reader may see: no control batches, and with read_committed no aborted
transactions (KIP-98)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kraft.protocol.messages.fetch_response import AbortedTransaction
from kraft.protocol.records.control_record import is_abort_marker
from kraft.protocol.records.record_batch import Buffer, RecordBatch, batches


def visible_batches(
    records: Buffer, aborted: Sequence[AbortedTransaction] | None
) -> Iterator[tuple[RecordBatch, bool]]:
    """Yield each whole batch, CRC checked, and whether its records are for the reader. With `aborted` None,
    transactions are ignored.

    A producer's transaction is aborted from its first offset in `aborted` up to its abort marker. Raises CorruptBatch.
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
