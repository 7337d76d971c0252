"""Snapshots in the quorum: served in pieces by the leader, downloaded by followers that are behind the start of its log
(KIP-630). Their content is opaque here."""

from __future__ import annotations

from kraft.common.ids import OffsetAndEpoch
from kraft.protocol.error_codes import ErrorCode
from kraft.raft.core.effects import SnapshotChunk, StartFromSnapshot
from kraft.raft.core.events import SnapshotDownloaded
from kraft.raft.core.following import heard_from_leader
from kraft.raft.core.leadership import check_leader_request
from kraft.raft.core.messages import FetchSnapshotRequest, FetchSnapshotResponse, Response
from kraft.raft.core.quorum_state import InFlight, QuorumState
from kraft.raft.core.roles import Follower, Leader

DOWNLOAD_PAUSE_MS = 1000
SNAPSHOT_BYTES_MAX = 8 * 1024 * 1024
"""Most bytes in one response. They are read in one call."""


def on_fetch_snapshot_request(q: QuorumState, token: object, request: FetchSnapshotRequest) -> None:
    error = check_leader_request(q, request.epoch, request.cluster_id)
    if error == ErrorCode.NONE and request.snapshot not in q.log.snapshots:
        error = ErrorCode.SNAPSHOT_NOT_FOUND
    if error == ErrorCode.NONE and request.position < 0:
        error = ErrorCode.POSITION_OUT_OF_RANGE
    if isinstance(q.role, Leader) and request.epoch == q.epoch and request.replica.id >= 0:
        q.role.progress_of(request.replica, q.voters).fetched_ms = q.now_ms
    if error != ErrorCode.NONE:
        q.reply(token, FetchSnapshotResponse(q.hint(), error, request.snapshot))
    else:
        max_bytes = min(request.max_bytes, SNAPSHOT_BYTES_MAX)
        q.reply(
            token,
            FetchSnapshotResponse(q.hint(), error, request.snapshot, request.position, max_bytes),
            epoch=q.epoch,
        )


def on_fetch_snapshot_response(q: QuorumState, waiting: InFlight, response: Response) -> None:
    """Pass the bytes to the disk. If the leader no longer has the snapshot, the next Fetch names a newer one."""
    assert isinstance(response, FetchSnapshotResponse)
    role = q.role
    if not isinstance(role, Follower) or role.download is None:
        return
    download = role.download
    if response.error in (ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE):
        role.download = None
        heard_from_leader(q, role)
        return
    stale = response.snapshot != download.snapshot or response.position != download.position
    if (
        response.error != ErrorCode.NONE
        or stale
        or not response.data
        or download.position + len(response.data) > response.size
    ):
        q.back_off(waiting)
        role.seek_elsewhere = response.error != ErrorCode.NONE
        return
    heard_from_leader(q, role)
    position = download.position
    download.position += len(response.data)
    download.done = download.position == response.size
    q.operate(SnapshotChunk(download.snapshot, position, response.data, download.done))


def on_download_failed(q: QuorumState, snapshot: OffsetAndEpoch) -> None:
    """Drop a download that is unusable or for which there is no disk space. It is retried after a pause, because it may
    be large and fail again. The pause ends before the leader counts as silent."""
    role = q.role
    if isinstance(role, Follower) and role.download is not None and role.download.snapshot == snapshot:
        role.download = None
        pause_ms = min(DOWNLOAD_PAUSE_MS, q.config.fetch_timeout_ms // 2)
        q.pause(FetchSnapshotRequest, role.leader_id, pause_ms)


def on_snapshot_downloaded(q: QuorumState, event: SnapshotDownloaded) -> None:
    """Start the log from a snapshot that is durable, unless the log has passed it meanwhile. Everything in a snapshot
    is committed."""
    log, snapshot = q.log, event.snapshot
    role = q.role
    if isinstance(role, Follower) and role.download is not None and role.download.snapshot == snapshot:
        role.download = None
        heard_from_leader(q, role)
    if snapshot.offset <= log.high_watermark:
        return
    if log.contains_prefix(snapshot):
        q.commit(snapshot.offset)
        log.add_snapshot(snapshot)
        return
    voters, kraft_version = (
        (event.voters, event.kraft_version) if event.voters is not None else (q.voters, log.history.kraft_version)
    )
    q.start_from_snapshot(StartFromSnapshot(snapshot), snapshot, voters, kraft_version)
