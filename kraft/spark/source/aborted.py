"""Filter aborted transactions out of a Fetch response for read_committed. Pure.

The leader returns all records up to the last stable offset. It lists the aborted transactions among them, each by
producer id and first offset. From that offset on, the producer's transactional records are left out, up to its marker.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kraft.protocol.messages.fetch_response import AbortedTransaction
from kraft.protocol.records.control_record import is_abort_marker
from kraft.protocol.records.record_batch import RecordBatch


def without_aborted(found: Sequence[RecordBatch], aborted: Iterable[AbortedTransaction]) -> list[RecordBatch]:
    """Return the batches of one Fetch response, in order, without those of aborted transactions."""
    waiting = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    open_now: set[int] = set()
    kept = []
    for batch in found:
        while waiting and waiting[-1].first_offset <= batch.last_offset:
            open_now.add(waiting.pop().producer_id)
        if batch.is_control:
            if is_abort_marker(batch):
                open_now.discard(batch.producer_id)
        elif batch.is_transactional and batch.producer_id in open_now:
            continue
        kept.append(batch)
    return kept
