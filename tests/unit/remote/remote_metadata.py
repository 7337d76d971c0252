"""Metadata of remote segments, as tests write it."""

from __future__ import annotations

from kraft.common.ids import Uuid
from kraft.protocol.messages.remote_log_segment_metadata_snapshot_record import (
    RemoteLogSegmentMetadataSnapshotRecord,
    SegmentLeaderEpochEntry,
)
from kraft.remote.segment_metadata import RemoteLogSegmentMetadata
from tests.unit.remote.support import FINISHED, PARTITION

SEGMENT = RemoteLogSegmentMetadata(
    segment_id=Uuid(bytes.fromhex("f0e1d2c3b4a5968778695a4b3c2d1e0f")),
    topic_id_partition=PARTITION,
    start_offset=100,
    last_offset=199,
    broker_id=7,
    max_timestamp_ms=1_700_000_000_000,
    event_timestamp_ms=1_700_000_000_123,
    size=1_048_576,
    leader_epochs=((2, 100), (5, 150)),
)


SNAPSHOT = RemoteLogSegmentMetadataSnapshotRecord(
    segment_id=SEGMENT.segment_id,
    start_offset=100,
    end_offset=199,
    broker_id=7,
    max_timestamp_ms=1_700_000_000_000,
    event_timestamp_ms=1_700_000_000_123,
    segment_leader_epochs=[
        SegmentLeaderEpochEntry(leader_epoch=2, offset=100),
        SegmentLeaderEpochEntry(leader_epoch=5, offset=150),
    ],
    segment_size_in_bytes=1_048_576,
    remote_log_segment_state=FINISHED,
)
