"""The bytes of Fetch and FetchSnapshot responses. They are read when the response is sent, which is later than the
decision, so a snapshot may have been removed by then.

If a read fails for lack of file descriptors or memory, only that response has an error, and the follower retries.
"""

from __future__ import annotations

from collections.abc import Collection

from kraft.common.errors import OutOfResources
from kraft.common.ids import OffsetAndEpoch
from kraft.protocol.error_codes import ErrorCode
from kraft.raft.core.messages import FetchResponse, FetchSnapshotResponse
from kraft.raft.metadata_log import MetadataLog
from kraft.raft.quorum_storage import QuorumStorage


def with_records(response: FetchResponse, log: MetadataLog) -> tuple[FetchResponse, bytes]:
    """Return `response` and its records; or an error response if they cannot be read for now. Raises OSError."""
    try:
        return response, log.read(response.offset, response.end_offset, response.max_bytes)
    except OutOfResources:
        return FetchResponse(response.hint, ErrorCode.KAFKA_STORAGE_ERROR), b""


def with_bytes(
    response: FetchSnapshotResponse, storage: QuorumStorage, kept: Collection[OffsetAndEpoch]
) -> FetchSnapshotResponse:
    """Return `response` with its bytes; or with an error if the snapshot is not among the `kept` ones or cannot be read
    for now. Raises CorruptData, OSError."""
    snapshot = response.snapshot
    if response.error != ErrorCode.NONE or snapshot is None:
        return response
    if snapshot not in kept:
        return response._replace(error=ErrorCode.SNAPSHOT_NOT_FOUND)
    try:
        data, size = storage.read_snapshot(snapshot, response.position, response.max_bytes)
    except OutOfResources:
        return response._replace(error=ErrorCode.KAFKA_STORAGE_ERROR)
    error = ErrorCode.NONE if response.position < size else ErrorCode.POSITION_OUT_OF_RANGE
    return response._replace(error=error, data=data, size=size)
