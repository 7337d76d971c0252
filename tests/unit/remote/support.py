"""Segments of the remote tier for tests: small offsets, and ids that can be read."""

from __future__ import annotations

from dataclasses import replace

from kraft.common.ids import Uuid
from kraft.remote.metadata_cache import RemoteLogMetadataCache
from kraft.remote.segment_metadata import RemoteLogSegmentMetadata, RemoteLogSegmentState, TopicIdPartition

PARTITION = TopicIdPartition("orders", Uuid(bytes.fromhex("00112233445566778899aabbccddeeff")), 3)
STARTED, FINISHED, DELETING, DELETED = RemoteLogSegmentState


def uuid(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


def segment(
    number: int,
    first: int,
    last: int,
    epochs: dict[int, int] | None = None,
    *,
    size: int = 100,
    max_timestamp_ms: int = 0,
) -> RemoteLogSegmentMetadata:
    """Copy number `number`, of the offsets first..last; of epoch 0, or of `epochs` (to their first offsets)."""
    return RemoteLogSegmentMetadata(
        segment_id=uuid(number),
        topic_id_partition=PARTITION,
        start_offset=first,
        last_offset=last,
        broker_id=1,
        max_timestamp_ms=max_timestamp_ms,
        event_timestamp_ms=0,
        size=size,
        leader_epochs=tuple(sorted((epochs or {0: first}).items())),
    )


def put_into(
    cache: RemoteLogMetadataCache, added: RemoteLogSegmentMetadata, state: RemoteLogSegmentState = FINISHED
) -> None:
    """By the records that bring it there."""
    assert cache.replay(replace(added, state=STARTED).to_record())
    for each in {STARTED: (), FINISHED: (FINISHED,), DELETING: (FINISHED, DELETING), DELETED: (DELETING, DELETED)}[
        state
    ]:
        assert cache.replay(added.state_update(each, broker_id=1, now_ms=0))


def cache_of(*segments: RemoteLogSegmentMetadata) -> RemoteLogMetadataCache:
    """All of them finished."""
    cache = RemoteLogMetadataCache()
    for each in segments:
        put_into(cache, each)
    return cache
