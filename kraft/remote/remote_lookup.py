"""Finds the parts of a log in the remote tier, for readers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kraft.remote.log_facts import LogFacts
from kraft.remote.metadata_cache import RemoteLogMetadataCache
from kraft.remote.segment_metadata import EpochRange, RemoteLogSegmentMetadata
from kraft.storage.indexes.transaction_index import AbortedTransaction


class RemotePart(NamedTuple):
    """A part of the log: the records from some offset to `end_offset` (exclusive) are those of `segment`."""

    segment: RemoteLogSegmentMetadata
    end_offset: int


def find_part(facts: LogFacts, cache: RemoteLogMetadataCache, offset: int) -> RemotePart | None:
    """Return the remote part that contains `offset` of the log; None if there is none.

    A segment may continue with records that the log does not have (an unclean election). The part ends before them.
    """
    own = next(facts.lineage(offset), None)
    if own is None or not own.start_offset <= offset <= own.last_offset:
        return None
    segment = cache.remote_log_segment_metadata(own.leader_epoch, offset)
    return None if segment is None else RemotePart(segment, _end_of_common(segment, facts.lineage(offset), offset))


def _end_of_common(segment: RemoteLogSegmentMetadata, lineage: Iterable[EpochRange], offset: int) -> int:
    end_offset = offset
    theirs = {each.leader_epoch: each for each in segment.epoch_ranges()}
    for own in lineage:
        if own.last_offset < end_offset:
            continue
        found = theirs.get(own.leader_epoch)
        if found is None or not found.start_offset <= end_offset <= found.last_offset:
            break
        end_offset = min(found.last_offset, own.last_offset) + 1
        if found.last_offset != own.last_offset:
            break
    return end_offset


def parts_from(facts: LogFacts, cache: RemoteLogMetadataCache, offset: int) -> Iterator[RemotePart]:
    """Return the remote parts of the log from `offset` on, in order, up to the first hole."""
    while True:  # Terminates: each part is after the previous one, and there are at most as many as segments.
        part = find_part(facts, cache, offset)
        if part is None:
            return
        yield part
        offset = part.end_offset


def parts_with_aborted(facts: LogFacts, cache: RemoteLogMetadataCache, offset: int) -> Iterator[tuple[int, RemotePart]]:
    """Return the remote parts from `offset` on that contain aborted transactions of the log, each with its first
    offset, ordered by the start of their segments. A generator, so that no more parts are looked up than are read.

    Copies of several leaders overlap, and epochs decide which of them has an offset. So a part may be only the end of a
    segment.
    """
    for segment in cache.segments_with_aborted(offset):
        end_offset = offset
        for each in segment.epoch_ranges():
            start_offset = max(each.start_offset, end_offset)
            if start_offset <= each.last_offset:
                part = find_part(facts, cache, start_offset)
                if part is not None and part.segment.segment_id == segment.segment_id:
                    yield start_offset, part
                    end_offset = part.end_offset


class AbortedSearch:
    """Collects the aborted transactions that overlap [offset, bound)."""

    def __init__(self, offset: int, bound: int) -> None:
        self._offset = offset
        self._bound = bound
        self._enough = math.inf
        self.found: dict[tuple[int, int], None] = {}
        """The aborted transactions found so far, as (producer id, first offset)."""

    @property
    def is_complete(self) -> bool:
        """Whether the markers of all overlapping transactions are at or before one that was already added."""
        return self._enough != math.inf

    def needs(self, segment: RemoteLogSegmentMetadata) -> bool:
        """Whether this segment, or one that starts after it, may have the marker of a transaction that is not found
        yet."""
        return segment.start_offset <= self._enough

    def add(self, start_offset: int, end_offset: int, transactions: Iterable[AbortedTransaction]) -> None:
        """Add the transactions whose markers are in [start_offset, end_offset). Others are ignored."""
        for each in transactions:
            if not start_offset <= each.last_offset < end_offset:
                continue
            if each.last_offset >= self._offset and each.first_offset < self._bound:
                self.found[each.producer_id, each.first_offset] = None
            if each.last_stable_offset >= self._bound:
                self._enough = min(self._enough, each.last_offset)


def remote_start_offset(facts: LogFacts, cache: RemoteLogMetadataCache) -> int:
    """Return the offset from which the log can be read, in either tier.

    It is above the log start offset if a former leader raised that, and this replica has not learned it.
    """
    for epoch, start_offset, last_offset in facts.lineage():
        first = cache.next_covered(epoch, start_offset)
        if first is not None and first <= last_offset:
            return min(first, facts.local_log_start_offset)
    return facts.local_log_start_offset
