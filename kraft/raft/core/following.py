"""The follower's side: find the leader, fetch from it, truncate records that it does not have, and start an election
when it is silent (KIP-595)."""

from __future__ import annotations

from collections.abc import Sequence

from kraft.common.ids import OffsetAndEpoch
from kraft.protocol.error_codes import ErrorCode
from kraft.raft.core.auto_join import join_voters
from kraft.raft.core.config import MAX_KRAFT_VERSION, MIN_KRAFT_VERSION
from kraft.raft.core.log_state import Batch
from kraft.raft.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    Response,
    UpdateVoterRequest,
    VoterResponse,
)
from kraft.raft.core.quorum_state import NEVER_MS, InFlight, QuorumState
from kraft.raft.core.roles import Download, Follower, Resigned, Unattached
from kraft.raft.core.voter_set import Endpoints, ReplicaKey, Voter
from kraft.raft.core.voting import is_addressed_to_us, stand

OFFSET_MAX = (1 << 63) - 2
"""The greatest offset that can have a next one."""
FIRST_BOOTSTRAP_ID = -2  # Bootstrap servers are addressed as -2, -3 ...: their ids are not known.


def poll_follower(q: QuorumState, role: Follower) -> int:
    if q.now_ms >= role.fetch_until_ms:
        if q.may_stand:
            stand(q)
            return q.now_ms
        role.seek_elsewhere = True
        role.fetch_until_ms = q.now_ms + q.config.fetch_timeout_ms
    if role.seek_elsewhere:
        seek_leader(q, avoid=role.leader_id)
    if role.download is None:
        if q.can_send(FetchRequest, role.leader_id):
            q.send(role.leader_id, role.leader_endpoints, fetch_request(q, q.config.fetch_wait_ms_max))
    elif not role.download.done and q.can_send(FetchSnapshotRequest, role.leader_id):
        q.send(role.leader_id, role.leader_endpoints, snapshot_request(q, role.download))
    return min(role.fetch_until_ms, update_own_voter(q, role), join_voters(q, role))


def fetch_request(q: QuorumState, max_wait_ms: int) -> FetchRequest:
    """Return the next Fetch. Its offset, the log end offset, is the acknowledgement: by the order of effects the log is
    synced before the request leaves."""
    log, config = q.log, q.config
    return FetchRequest(
        q.local,
        q.epoch,
        log.end_offset,
        log.last_epoch,
        log.high_watermark,
        max_wait_ms,
        config.fetch_bytes_max,
        config.cluster_id,
    )


def snapshot_request(q: QuorumState, download: Download) -> FetchSnapshotRequest:
    return FetchSnapshotRequest(
        q.local, q.epoch, download.snapshot, download.position, q.config.snapshot_bytes_max, q.config.cluster_id
    )


def poll_unattached(q: QuorumState) -> int:
    """Ask another replica for the leader. Returns NEVER_MS: only a response or a timeout of the request needs another
    check."""
    seek_leader(q, avoid=q.local.id)
    return NEVER_MS


def seek_leader(q: QuorumState, avoid: int) -> None:
    """Send a Fetch to a random voter or bootstrap server. Its response names the leader."""
    targets = discovery_targets(q, avoid)
    if not targets or any(not q.can_send(FetchRequest, to) for to, _ in targets):
        return
    to, endpoints = targets[q.random_below(len(targets))]
    q.send(to, endpoints, fetch_request(q, 0))


def discovery_targets(q: QuorumState, avoid: int) -> list[tuple[int, Endpoints]]:
    targets = [(node_id, q.endpoints_of(node_id)) for node_id in q.other_voters() if node_id != avoid]
    for index, endpoints in enumerate(q.config.bootstrap):
        if not any(endpoint in q.config.endpoints for endpoint in endpoints):
            targets.append((FIRST_BOOTSTRAP_ID - index, endpoints))
    return targets


# Responses to this replica's Fetch


def on_fetch_response(q: QuorumState, waiting: InFlight, response: Response) -> None:
    assert isinstance(response, FetchResponse)
    assert isinstance(waiting.request, FetchRequest)
    role = q.role
    if not isinstance(role, Follower) or waiting.to != role.leader_id:
        q.back_off(waiting)  # The response names no leader that is new to this replica.
        if isinstance(role, Follower):
            role.seek_elsewhere = False
    elif response.error != ErrorCode.NONE:
        q.back_off(waiting)
        role.seek_elsewhere = True
        if response.error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            stand_soon(
                q, role
            )  # The leader itself says that it no longer leads: it resigned, or restarted after a crash.
    elif waiting.request.offset == q.log.end_offset:
        heard_from_leader(q, role)
        if response.diverging is not None:
            truncate_to_common(q, response.diverging)
        elif response.snapshot is not None:
            if can_replace_log(q, response.snapshot):
                role.download = Download(response.snapshot)
            else:
                q.back_off(waiting)
        else:
            append_fetched(q, role, waiting, response)


def heard_from_leader(q: QuorumState, role: Follower) -> None:
    role.fetch_until_ms = q.now_ms + q.config.fetch_timeout_ms
    role.has_fetched = True
    role.seek_elsewhere = False


def truncate_to_common(q: QuorumState, diverging: OffsetAndEpoch) -> None:
    """Truncate the records that cannot be in the leader's log. The next Fetch shows whether that was enough."""
    ours = q.log.end_of_epoch(diverging.epoch)
    q.truncate(min(ours.offset, diverging.offset) if ours.epoch == diverging.epoch else ours.offset)


def can_replace_log(q: QuorumState, snapshot: OffsetAndEpoch) -> bool:
    """Whether `snapshot` is valid as a start of the log under a leader of this epoch."""
    return 0 <= snapshot.offset <= OFFSET_MAX and 0 <= snapshot.epoch <= q.epoch


def append_fetched(q: QuorumState, role: Follower, waiting: InFlight, response: FetchResponse) -> None:
    batches = response.batches
    if batches:
        if not continues(q, batches):
            q.back_off(waiting)
            return
        q.append(*batches)
    q.commit(min(response.high_watermark, q.log.end_offset))
    role.caught_up = role.caught_up or 0 <= response.high_watermark <= q.log.end_offset


def continues(q: QuorumState, batches: Sequence[Batch]) -> bool:
    """Whether `batches` are a valid continuation of this log under a leader of this epoch."""
    offset, epoch = q.log.end_offset, q.log.last_epoch
    for batch in batches:
        if (
            batch.base_offset != offset
            or not offset <= batch.last_offset <= OFFSET_MAX
            or not epoch <= batch.epoch <= q.epoch
        ):
            return False
        offset, epoch = batch.end_offset, batch.epoch
    return True


def on_request_failed(q: QuorumState, waiting: InFlight, refused: bool) -> None:
    """Handle a request without a response.

    If it went to the leader, look for another leader. If the leader's port refused the connection, the leader is dead:
    start an election soon, instead of after the whole fetch timeout.
    """
    q.back_off(waiting)
    role = q.role
    if isinstance(role, Resigned) and refused:
        role.unacknowledged.pop(waiting.to, None)  # A dead voter need not be notified.
    if not isinstance(role, Follower):
        return
    if waiting.to != role.leader_id:
        role.seek_elsewhere = False
        return
    role.seek_elsewhere = True
    if refused:
        stand_soon(q, role)


def stand_soon(q: QuorumState, role: Follower) -> None:
    """Start an election after a short random wait. The leader is known to be gone, and the wait only prevents all
    voters from starting at the same moment."""
    role.has_fetched = False
    role.fetch_until_ms = min(role.fetch_until_ms, q.now_ms + q.random_haste_ms())


# Announcements of leaders


def on_begin_request(q: QuorumState, token: object, request: BeginQuorumEpochRequest) -> None:
    error = check_leader_claim(q, request.epoch, request.leader_id, request.cluster_id)
    if error == ErrorCode.NONE and not is_addressed_to_us(q, request.voter_id, request.voter_directory_id):
        error = ErrorCode.INVALID_VOTER_KEY
    if error == ErrorCode.NONE and not q.take_claimed_epoch(request.epoch):
        error = ErrorCode.INVALID_REQUEST
    if error == ErrorCode.NONE:
        endpoints = request.endpoints or q.endpoints_of(request.leader_id)
        role = q.role
        if isinstance(role, Follower) and request.epoch == q.epoch:
            role.leader_endpoints = endpoints
        else:
            q.become_follower(request.epoch, request.leader_id, endpoints)
    q.reply(token, BeginQuorumEpochResponse(q.hint(), error))


def check_leader_claim(q: QuorumState, epoch: int, leader_id: int, cluster_id: str | None) -> int:
    if cluster_id is not None and q.config.cluster_id is not None and cluster_id != q.config.cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if q.shutting_down:
        return ErrorCode.BROKER_NOT_AVAILABLE
    if epoch < q.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if (
        leader_id < 0
        or leader_id == q.local.id
        or (epoch == q.epoch and q.election.has_leader and q.election.leader_id != leader_id)
    ):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def on_end_request(q: QuorumState, token: object, request: EndQuorumEpochRequest) -> None:
    """Handle the resignation of the leader. Its preferred successor starts an election immediately, and the others a
    little later. No replica refuses a pre-vote because of that leader any more."""
    error = check_leader_claim(q, request.epoch, request.leader_id, request.cluster_id)
    if error == ErrorCode.NONE and not q.take_claimed_epoch(request.epoch):
        error = ErrorCode.INVALID_REQUEST
    if error == ErrorCode.NONE:
        if request.epoch > q.epoch:
            q.become_unattached(request.epoch, leader_id=request.leader_id)
        backoff_ms = succession_backoff_ms(q, request.preferred)
        if isinstance(q.role, Follower):
            q.role.has_fetched = False
            q.role.fetch_until_ms = q.now_ms + backoff_ms
        elif isinstance(q.role, Unattached):
            q.role.until_ms = min(q.role.until_ms, q.now_ms + backoff_ms)
    q.reply(token, EndQuorumEpochResponse(q.hint(), error))


def succession_backoff_ms(q: QuorumState, preferred: tuple[ReplicaKey, ...]) -> int:
    """Return the wait before an election: 0 for the first successor, then doubling up to `election_backoff_ms_max` for
    the last one. A voter that is not listed waits for the maximum too."""
    longest = q.config.election_backoff_ms_max
    position = next((index for index, key in enumerate(preferred) if key.matches(q.local)), None)
    if position is None:
        return longest
    return 0 if position == 0 else min(longest, (longest >> (len(preferred) - 1)) << (position - 1))


def poll_resigned(q: QuorumState, role: Resigned) -> int:
    """Send the resignation to every voter, and leave the epoch after an election timeout. This replica may not lead the
    epoch again."""
    if q.now_ms >= role.until_ms and not q.shutting_down:
        q.become_unattached(q.epoch + 1, in_haste=True)
        return q.now_ms
    for voter_id in role.unacknowledged:
        if q.can_send(EndQuorumEpochRequest, voter_id):
            q.send(
                voter_id,
                q.endpoints_of(voter_id),
                EndQuorumEpochRequest(q.epoch, q.local.id, role.preferred, q.config.endpoints, q.config.cluster_id),
            )
    return NEVER_MS if q.shutting_down else role.until_ms


def on_end_response(q: QuorumState, waiting: InFlight, response: Response) -> None:
    assert isinstance(response, EndQuorumEpochResponse)
    if isinstance(q.role, Resigned):
        q.role.unacknowledged.pop(waiting.to, None)


# This replica's entry in the voter set


def update_own_voter(q: QuorumState, role: Follower) -> int:
    """Send UpdateVoter to the leader every two fetch timeouts, while the voter set has other listeners or versions for
    this replica (KIP-853). Under kraft.version 0 it is sent until the leader has responded."""
    own = q.voters.get(q.local.id)
    if own is None or not q.is_voter or not q.config.endpoints:
        return NEVER_MS
    wanted = Voter(q.local, q.config.endpoints, MIN_KRAFT_VERSION, MAX_KRAFT_VERSION)
    if q.log.history.kraft_version > 0 and own == wanted:
        return NEVER_MS
    if q.now_ms >= role.update_voter_at_ms and role.has_fetched and q.can_send(UpdateVoterRequest, role.leader_id):
        role.update_voter_at_ms = q.now_ms + 2 * q.config.fetch_timeout_ms
        q.send(role.leader_id, role.leader_endpoints, UpdateVoterRequest(q.epoch, wanted, q.config.cluster_id))
    return role.update_voter_at_ms if role.update_voter_at_ms > q.now_ms else NEVER_MS


def on_update_response(q: QuorumState, waiting: InFlight, response: Response) -> None:
    assert isinstance(response, VoterResponse)
    if response.error != ErrorCode.NONE:
        q.back_off(waiting)
    elif isinstance(q.role, Follower) and q.log.history.kraft_version == 0:
        q.role.update_voter_at_ms = NEVER_MS  # The leader knows it, for as long as it leads.
