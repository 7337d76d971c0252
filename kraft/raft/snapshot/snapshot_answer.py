"""The bytes of a FetchSnapshot answer, read when the answer leaves: later than it was decided, so the snapshot may be gone by then."""

from __future__ import annotations

from collections.abc import Collection

from kraft.common.ids import OffsetAndEpoch
from kraft.protocol.error_codes import ErrorCode
from kraft.raft.core.messages import FetchSnapshotResponse
from kraft.raft.quorum_storage import QuorumStorage
from kraft.storage.storage_failure import PASSING_ERRORS


def with_bytes(response: FetchSnapshotResponse, storage: QuorumStorage, kept: Collection[OffsetAndEpoch]) -> FetchSnapshotResponse:
    """`response` with its bytes, or with an error where the snapshot is not among the `kept` ones or cannot be read for now. Raises CorruptData, OSError."""
    snapshot = response.snapshot
    if response.error != ErrorCode.NONE or snapshot is None:
        return response
    if snapshot not in kept:
        return response._replace(error=ErrorCode.SNAPSHOT_NOT_FOUND)
    try:
        data, size = storage.read_snapshot(snapshot, response.position, response.max_bytes)
    except OSError as problem:
        if problem.errno not in PASSING_ERRORS:
            raise
        return response._replace(error=ErrorCode.KAFKA_STORAGE_ERROR)  # No descriptor was left, say: the follower asks again.
    error = ErrorCode.NONE if response.position < size else ErrorCode.POSITION_OUT_OF_RANGE
    return response._replace(error=error, data=data, size=size)
