"""The batches of a Fetch response that belong to aborted transactions (KIP-98). Pure.

The leader returns all records up to the last stable offset. It lists the aborted transactions among them, each by
producer id and first offset. From that offset on the producer's transactional batches are aborted, up to its marker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kraft.protocol.records.control_record import is_abort_marker
from kraft.protocol.records.record_batch import RecordBatch


def marked_aborted(
    found: Iterable[RecordBatch], aborted: Iterable[tuple[int, int]]
) -> Iterator[tuple[RecordBatch, bool]]:
    """Yield each batch of one response, in order, and whether it belongs to an aborted transaction. `aborted` has the
    producer id and the first offset of each such transaction. A control batch belongs to none. Raises InvalidRecord."""
    waiting = sorted(aborted, key=lambda each: each[1], reverse=True)
    open_now: set[int] = set()
    for batch in found:
        while waiting and waiting[-1][1] <= batch.last_offset:
            open_now.add(waiting.pop()[0])
        if not open_now:
            yield batch, False
        elif batch.is_control:
            if batch.producer_id in open_now and is_abort_marker(batch):
                open_now.discard(batch.producer_id)
            yield batch, False
        else:
            yield batch, batch.is_transactional and batch.producer_id in open_now
