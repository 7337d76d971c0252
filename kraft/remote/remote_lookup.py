"""What of a log is found where in the remote tier: look-ups for readers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kraft.remote.log_facts import LogFacts, remote_ranges
from kraft.remote.metadata_cache import RemoteLogMetadataCache
from kraft.remote.segment_metadata import EpochRange, RemoteLogSegmentMetadata


class RemotePart(NamedTuple):
    """From some offset of the log to `end_offset` (exclusive) the records are those of `segment`."""

    segment: RemoteLogSegmentMetadata
    end_offset: int


def find_part(facts: LogFacts, cache: RemoteLogMetadataCache, offset: int) -> RemotePart | None:
    """The part of the remote tier that has `offset` of the log; None where it is not there.

    A segment may go on with records that the log does not have (an unclean election): the part ends before them.
    """
    lineage = list(facts.lineage())
    own = next((each for each in lineage if each.start_offset <= offset <= each.last_offset), None)
    segment = None if own is None else cache.remote_log_segment_metadata(own.leader_epoch, offset)
    if own is None or segment is None:
        return None
    return RemotePart(segment, _end_of_common(segment, lineage, offset))


def _end_of_common(segment: RemoteLogSegmentMetadata, lineage: Sequence[EpochRange], offset: int) -> int:
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
    """The parts that have what is in the remote tier from `offset` on, in order, to the first hole."""
    while True:  # Each part is behind the one before, and there are as many as there are segments at most.
        part = find_part(facts, cache, offset)
        if part is None:
            return
        yield part
        offset = part.end_offset


def parts_with_aborted(facts: LogFacts, cache: RemoteLogMetadataCache, offset: int) -> Sequence[RemotePart]:
    """Those from `offset` on in which a transaction of the log was aborted, in order."""
    found = []
    for segment in cache.segments():
        if segment.is_finished and not segment.txn_index_is_empty and segment.last_offset >= offset:
            part = find_part(facts, cache, max(segment.start_offset, offset))
            if part is not None and part.segment.segment_id == segment.segment_id:
                found.append(part)
    return sorted(found, key=lambda part: part.end_offset)


def remote_start_offset(facts: LogFacts, cache: RemoteLogMetadataCache) -> int:
    """Where the log begins as far as it can be read, in whichever tier. Later than its start where a leader that was
    before moved that, and nobody has told this replica."""
    first = next((found.start_offset for found, _ in remote_ranges(facts, cache)), facts.local_log_start_offset)
    return min(first, facts.local_log_start_offset)
