"""Followers that are behind the log get a snapshot."""

from __future__ import annotations

from dataclasses import replace

from kraft.common.ids import OffsetAndEpoch
from kraft.protocol.error_codes import ErrorCode
from kraft.raft.core import events
from kraft.raft.core import messages as m
from kraft.raft.core.messages import LeaderHint
from kraft.raft.core.snapshots import DOWNLOAD_PAUSE_MS, SNAPSHOT_BYTES_MAX
from tests.unit.raft.builders import key_of, node, voter_of, voters_of
from tests.unit.raft.core.steps import THREE, ask, committed_leader, fetch, replies, sends


def test_a_follower_behind_the_log_start_is_sent_to_the_snapshot() -> None:
    replica = committed_leader()
    snapshot = OffsetAndEpoch(replica.log.end_offset, replica.epoch)
    replica.step(events.SnapshotCreated(snapshot), 2_010)
    (answer,) = replies(fetch(replica, 3, 0, 0, now_ms=2_020))
    assert answer.snapshot == snapshot  # type: ignore[union-attr]
    (piece,) = replies(ask(replica, m.FetchSnapshotRequest(key_of(3), replica.epoch, snapshot, 0), 2_030))
    assert piece.error == ErrorCode.NONE  # type: ignore[union-attr]
    (missing,) = replies(ask(replica, m.FetchSnapshotRequest(key_of(3), replica.epoch, OffsetAndEpoch(1, 1), 0), 2_030))
    assert missing.error == ErrorCode.SNAPSHOT_NOT_FOUND  # type: ignore[union-attr]


def test_the_bytes_of_one_snapshot_chunk_are_limited_whatever_the_request() -> None:
    replica = committed_leader()
    snapshot = OffsetAndEpoch(replica.log.end_offset, replica.epoch)
    replica.step(events.SnapshotCreated(snapshot), 2_010)
    for wanted, given in ((1 << 31, SNAPSHOT_BYTES_MAX), (1_000, 1_000)):
        request = m.FetchSnapshotRequest(key_of(3), replica.epoch, snapshot, 0, wanted)
        (piece,) = replies(ask(replica, request, 2_030))
        assert isinstance(piece, m.FetchSnapshotResponse)
        assert piece.max_bytes == given


def test_a_follower_requests_as_many_bytes_as_configured() -> None:
    replica = node(1, THREE)
    replica._q.config = replace(replica._q.config, fetch_bytes_max=7, snapshot_bytes_max=5)
    (message,) = sends(ask(replica, m.BeginQuorumEpochRequest(5, 2, voter_of(2).endpoints)), m.FetchRequest)
    behind = m.FetchResponse(LeaderHint(2, 5), snapshot=OffsetAndEpoch(100, 4))
    (part,) = sends(replica.step(events.ResponseReceived(message.correlation, behind), 10), m.FetchSnapshotRequest)
    assert (message.request.max_bytes, part.request.max_bytes) == (7, 5)  # type: ignore[union-attr]


def test_an_unusable_snapshot_download_is_restarted_after_a_backoff() -> None:
    replica = node(1, THREE)
    (message,) = sends(ask(replica, m.BeginQuorumEpochRequest(5, 2, voter_of(2).endpoints)), m.FetchRequest)
    snapshot = OffsetAndEpoch(100, 4)
    behind = m.FetchResponse(LeaderHint(2, 5), snapshot=snapshot)
    (part,) = sends(replica.step(events.ResponseReceived(message.correlation, behind), 10), m.FetchSnapshotRequest)
    whole = m.FetchSnapshotResponse(LeaderHint(2, 5), 0, snapshot, 0, 100, 3, b"abc")
    replica.step(events.ResponseReceived(part.correlation, whole), 20)
    (again,) = sends(replica.step(events.SnapshotDownloadFailed(snapshot), 30), m.FetchRequest)
    effects = replica.step(events.ResponseReceived(again.correlation, behind), 40)
    assert sends(effects, m.FetchSnapshotRequest) == []
    assert replica.deadline_ms == 30 + DOWNLOAD_PAUSE_MS
    assert len(sends(replica.step(events.Tick(), replica.deadline_ms), m.FetchSnapshotRequest)) == 1


def test_a_downloaded_snapshot_replaces_the_log_and_the_voter_set() -> None:
    replica = node(1, THREE)
    (message,) = sends(ask(replica, m.BeginQuorumEpochRequest(5, 2, voter_of(2).endpoints)), m.FetchRequest)
    snapshot = OffsetAndEpoch(100, 4)
    effects = replica.step(
        events.ResponseReceived(message.correlation, m.FetchResponse(LeaderHint(2, 5), snapshot=snapshot)), 10
    )
    for position, data in ((0, b"abc"), (3, b"de")):
        (part,) = sends(effects, m.FetchSnapshotRequest)
        response = m.FetchSnapshotResponse(LeaderHint(2, 5), 0, snapshot, position, 100, 5, data)
        effects = replica.step(events.ResponseReceived(part.correlation, response), 20)
    assert effects.log[0].last  # type: ignore[union-attr]
    assert sends(effects, m.FetchRequest) == [], "nothing is acknowledged while the disk works"
    effects = replica.step(events.SnapshotDownloaded(snapshot, voters_of(1, 2), 1), 30)
    assert (replica.log.start_offset, replica.log.end_offset, replica.log.high_watermark, replica.voters) == (
        100,
        100,
        100,
        voters_of(1, 2),
    )
    (again,) = sends(effects, m.FetchRequest)
    assert (again.request.offset, again.request.last_fetched_epoch) == (100, 4)  # type: ignore[union-attr]
