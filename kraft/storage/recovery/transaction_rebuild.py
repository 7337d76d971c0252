"""Rebuilds the aborted transactions of segments whose transaction index is missing or suspect, from the batches of the
log.

The walk starts at the log's first batch, because a transaction may begin in a segment before the one with its marker.
Producer state is not used: producers expire, but their transactions stay aborted.
"""

from __future__ import annotations

from collections.abc import Callable

from kraft.common.errors import CorruptData, ProtocolError
from kraft.protocol.records.control_record import ControlRecordType, marker_of
from kraft.protocol.records.record_batch import RecordBatch
from kraft.storage.batch_walk import read_batch, walk_whole
from kraft.storage.checkpoints import replace_file
from kraft.storage.indexes.transaction_index import AbortedTransaction, encode_transactions
from kraft.storage.log_segment import LogSegment
from kraft.storage.storage_failure import PASSING_ERRORS
from kraft.world.steps import Steps

HEADERS_PER_STEP = 128


class OpenTransactions:
    """The transactions that are open after the batches read so far."""

    __slots__ = ("_first_offsets",)

    def __init__(self) -> None:
        self._first_offsets: dict[int, int] = {}

    def take(self, batch: RecordBatch) -> AbortedTransaction | None:
        """Return the transaction that `batch` aborts, or None. Must be called with every producer batch in log order. A
        control batch needs its records; for other batches the header is enough. Raises InvalidRecord."""
        if not batch.is_control:
            if batch.is_transactional:
                self._first_offsets.setdefault(batch.producer_id, batch.base_offset)
            return None
        marker = marker_of(batch)
        if marker is None:
            return None
        first_offset = self._first_offsets.pop(batch.producer_id, None)
        if first_offset is None or marker.control_type != ControlRecordType.ABORT:
            return None
        last_stable_offset = min(self._first_offsets.values(), default=batch.base_offset + 1)
        return AbortedTransaction(batch.producer_id, first_offset, batch.base_offset, last_stable_offset)


def complete_transaction_indexes(
    segments: list[LogSegment], doubted: set[int], tell: Callable[[str], None]
) -> Steps[int]:
    """Durably add missing transactions to the index of each segment whose base offset is in `doubted`. Returns how many
    were added.

    Damage hides transactions. From there on the doubted indexes stay unknown, which is reported.
    """
    opened = OpenTransactions()
    added = 0
    for segment in segments:
        if segment.base_offset > max(doubted, default=-1):
            break
        found: list[AbortedTransaction] = []
        try:
            yield from _read_transactions(segment, opened, found)
        except (CorruptData, ProtocolError) as problem:
            tell(f"aborted transactions from segment {segment.base_offset} on are unknown: {problem}")
            for unknown in segments[segments.index(segment) :]:
                if unknown.base_offset in doubted:
                    unknown.transaction_index_is_whole = False
            break
        if segment.base_offset in doubted:
            added += yield from _complete(segment, found, tell)
    return added


def _read_transactions(segment: LogSegment, opened: OpenTransactions, found: list[AbortedTransaction]) -> Steps[None]:
    file = segment.open_log().file
    for count, (position, header) in enumerate(walk_whole(file, 0, segment.size)):
        if count % HEADERS_PER_STEP == HEADERS_PER_STEP - 1:
            yield None
        if header.has_producer_id and (header.is_control or header.is_transactional):
            aborted = opened.take(read_batch(file, position, header.size) if header.is_control else header)
            if aborted is not None:
                found.append(aborted)


def _complete(segment: LogSegment, found: list[AbortedTransaction], tell: Callable[[str], None]) -> Steps[int]:
    """Add missing transactions to an index. Existing entries are kept: a cleaning may have removed their records."""
    index = segment.transaction_index
    known = {(each.producer_id, each.last_offset): each for each in index}
    missing = [each for each in found if (each.producer_id, each.last_offset) not in known]
    segment.transaction_index_is_whole = True
    if missing or (segment.has_index_files and not segment.has_transaction_index_file):
        entries = sorted((*known.values(), *missing), key=lambda each: each.last_offset)
        yield from _store(segment, entries, tell)
    return len(missing)


def _store(segment: LogSegment, entries: list[AbortedTransaction], tell: Callable[[str], None]) -> Steps[None]:
    """Replace the index file atomically, because a partial file would pass for a complete one. If the disk is full the
    entries stay in memory, and the next start rebuilds them."""
    index, content = segment.transaction_index, encode_transactions(entries)
    try:
        yield lambda: replace_file(index.files, index.path, content)
        index.replaced(content)
        if not segment.has_index_files:
            segment.close_for_appends()
            for opened in segment.files_to_sync(with_indexes=True):
                yield opened.file.sync
    except OSError as problem:
        if problem.errno not in PASSING_ERRORS:
            raise
        if not index.count:
            for entry in entries:
                index.append(entry)
        elif index.count < len(entries):
            segment.transaction_index_is_whole = False
            tell(f"{index.path} lacks aborted transactions and could not be written: {problem}")
