"""The part of a Fetch response that a reader may see: no control batches, and with read_committed no aborted
transactions (KIP-98)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kraft.protocol.messages.fetch_response import AbortedTransaction
from kraft.protocol.records.aborted import marked_aborted
from kraft.protocol.records.record_batch import Buffer, RecordBatch, batches


def visible_batches(
    records: Buffer, aborted: Sequence[AbortedTransaction] | None
) -> Iterator[tuple[RecordBatch, bool]]:
    """Yield each whole batch, CRC checked, and whether its records are for the reader. With `aborted` None,
    transactions are ignored.

    A producer's transaction is aborted from its first offset in `aborted` up to its abort marker. Raises CorruptBatch.
    """
    ended = [(each.producer_id, each.first_offset) for each in aborted or ()]
    for batch, is_aborted in marked_aborted(_checked(records), ended):
        yield batch, not (is_aborted or batch.is_control)


def _checked(records: Buffer) -> Iterator[RecordBatch]:
    for batch in batches(records, partial_tail=True):
        batch.verify_crc()
        yield batch
