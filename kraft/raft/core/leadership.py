"""The leader's side: its first record, responses to Fetch, the high watermark, and keeping or losing the quorum
(KIP-595, KIP-1166)."""

from __future__ import annotations

from kraft.protocol.error_codes import ErrorCode
from kraft.raft.core.log_state import Batch
from kraft.raft.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    Response,
)
from kraft.raft.core.payloads import LeaderChange, Voters
from kraft.raft.core.quorum_state import NEVER_MS, InFlight, QuorumState
from kraft.raft.core.reconfiguration import finish_voter_change, poll_voter_change
from kraft.raft.core.roles import Candidate, Leader, ParkedFetch
from kraft.raft.core.voter_set import BOOTSTRAP_OFFSET, ReplicaKey, Voter, VoterSet

FETCH_BYTES_MAX = 8 * 1024 * 1024
"""Most bytes in one response, except for a larger first batch. They are read in one call."""


def start_leading(q: QuorumState, candidacy: Candidate) -> None:
    """Become leader and write LEADER_CHANGE.

    It is followed by the voters if they came from the bootstrap checkpoint, and by this replica's listeners if they
    changed (KIP-853).
    """
    granting = tuple(voter.key for voter in q.voters.voters if voter.key.id in candidacy.granted)
    leader = q.become_leader()
    base = leader.epoch_start
    payload = LeaderChange(q.local.id, tuple(voter.key for voter in q.voters.voters), granting, first_update(q))
    update = payload.update
    if update is None:
        q.append(Batch(base, base, q.epoch, payload))
    else:
        last = base + (2 if update.kraft_version is not None else 1)
        q.append(Batch(base, last, q.epoch, payload, update.voters, update.kraft_version))


def first_update(q: QuorumState) -> Voters | None:
    history = q.log.history
    if history.kraft_version == 0:
        return None
    voters = own_endpoints_updated(q)
    if history.latest_offset == BOOTSTRAP_OFFSET:
        return Voters(history.kraft_version, voters)
    return Voters(None, voters) if voters != history.latest else None


def own_endpoints_updated(q: QuorumState) -> VoterSet:
    own = q.voters.get(q.local.id)
    if own is None or not q.config.endpoints or own.endpoints == q.config.endpoints:
        return q.voters
    return q.voters.with_voter(Voter(q.local, q.config.endpoints, own.min_version, own.max_version))


def append(q: QuorumState, leader: Leader, count: int, payload: object) -> Batch:
    """Append `count` records as one batch, which is committed or lost as a whole."""
    base = q.log.end_offset
    batch = Batch(base, base + count - 1, q.epoch, payload)
    q.append(batch)
    return batch


# Fetch


def on_fetch_request(q: QuorumState, token: object, request: FetchRequest) -> None:
    """Respond to a Fetch: with records, with the offset where the fetcher's log diverges, or with a snapshot if the
    needed records are no longer in the log. The request's offset is its acknowledgement."""
    leader = q.role
    error = check_leader_request(q, request.epoch, request.cluster_id)
    if error == ErrorCode.NONE and (request.offset < 0 or request.last_fetched_epoch < 0):
        error = ErrorCode.INVALID_REQUEST
    if error != ErrorCode.NONE:
        q.reply(token, FetchResponse(q.hint(), error))
        return
    assert isinstance(leader, Leader)
    answer = divergence(q, request)
    progress = leader.progress_of(request.replica, q.voters) if request.replica.id >= 0 else None
    if answer is not None:
        if progress is not None:
            progress.fetched_ms = q.now_ms
        q.reply(token, answer)
        return
    if progress is not None:
        progress.fetched(request.offset, q.log.end_offset, q.now_ms)
        advance_high_watermark(q, leader)
    if q.role is not leader:  # The record that just committed removed this replica.
        q.reply(token, FetchResponse(q.hint(), ErrorCode.NOT_LEADER_OR_FOLLOWER))
    elif progress is None or request.max_wait_ms <= 0 or has_news(q, leader, request):
        q.reply(token, records_response(q, leader, request), epoch=q.epoch)
    else:
        park(q, leader, token, request)


def has_news(q: QuorumState, leader: Leader, request: FetchRequest) -> bool:
    """Whether there are records that the fetcher lacks, or a high watermark that it has not received (KIP-1166)."""
    return request.offset < q.log.end_offset or request.high_watermark < leader.high_watermark


def check_leader_request(q: QuorumState, epoch: int, cluster_id: str | None) -> int:
    """Return the error for a request that only the leader of `epoch` may answer, or NONE."""
    if cluster_id is not None and q.config.cluster_id is not None and cluster_id != q.config.cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if epoch < q.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > q.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if not isinstance(q.role, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.BROKER_NOT_AVAILABLE if q.shutting_down else ErrorCode.NONE


def divergence(q: QuorumState, request: FetchRequest) -> FetchResponse | None:
    """Return the response to a fetcher whose log is not a prefix of the leader's; None if it is a prefix."""
    log, offset, epoch = q.log, request.offset, request.last_fetched_epoch
    snapshot = log.latest_snapshot
    if offset == 0 and snapshot is not None and snapshot.offset > 0:
        return FetchResponse(
            q.hint(), snapshot=snapshot, log_start_offset=log.start_offset, high_watermark=known_high_watermark(q)
        )
    if offset == 0 and log.start_offset == 0:
        return None
    oldest = log.snapshots[0] if log.snapshots else None
    too_old = oldest is not None and (
        offset < log.start_offset or (offset == log.start_offset and epoch != oldest.epoch) or epoch < oldest.epoch
    )
    if too_old:
        return FetchResponse(
            q.hint(), snapshot=snapshot, log_start_offset=log.start_offset, high_watermark=known_high_watermark(q)
        )
    end = log.end_of_epoch(epoch)
    if end.epoch != epoch or end.offset < offset:
        return FetchResponse(
            q.hint(), diverging=end, log_start_offset=log.start_offset, high_watermark=known_high_watermark(q)
        )
    return None


def known_high_watermark(q: QuorumState) -> int:
    return q.role.high_watermark if isinstance(q.role, Leader) else -1


def records_response(q: QuorumState, leader: Leader, request: FetchRequest) -> FetchResponse:
    return FetchResponse(
        q.hint(),
        ErrorCode.NONE,
        leader.high_watermark,
        q.log.start_offset,
        offset=request.offset,
        end_offset=q.log.end_offset,
        max_bytes=min(request.max_bytes, FETCH_BYTES_MAX),
    )


def park(q: QuorumState, leader: Leader, token: object, request: FetchRequest) -> None:
    """Park the Fetch until there is something new. Each replica may have one parked Fetch: an older one gets an empty
    response."""
    older = leader.parked.pop(request.replica, None)
    if older is not None:
        q.reply(older.token, records_response(q, leader, older.request), epoch=q.epoch)
    leader.parked[request.replica] = ParkedFetch(token, request, q.now_ms + request.max_wait_ms)


def release_parked(q: QuorumState, leader: Leader) -> None:
    """Respond to parked Fetches for which there is something new or whose max wait has passed."""
    ready = [
        key
        for key, parked in leader.parked.items()
        if parked.until_ms <= q.now_ms or has_news(q, leader, parked.request)
    ]
    for key in ready:
        parked = leader.parked.pop(key)
        q.reply(parked.token, records_response(q, leader, parked.request), epoch=q.epoch)


# High watermark


def advance_high_watermark(q: QuorumState, leader: Leader) -> None:
    """Advance the high watermark to the offset that a majority has on disk, but only from the leader's own
    LEADER_CHANGE on. Records of older epochs are never committed by counting replicas (thesis section 3.6.2)."""
    candidate = majority_offset(q, leader)
    if may_commit(q, leader, candidate):
        assert q.log.epoch_at(candidate - 1) == q.epoch, f"{candidate} of an older epoch would commit by counting"
        leader.high_watermark = candidate
        q.commit(candidate)
        release_parked(q, leader)
        finish_voter_change(q, leader)
        if is_removed(q):
            resign(q, leader)


def is_removed(q: QuorumState) -> bool:
    """Whether a committed voter set excludes this replica. A leader resigns once its own removal is committed (thesis
    section 4.2.2)."""
    return not q.is_voter and q.log.history.latest_offset < q.log.high_watermark


def may_commit(q: QuorumState, leader: Leader, candidate: int) -> bool:
    return candidate >= q.log.high_watermark and candidate > leader.epoch_start and candidate > leader.high_watermark


def majority_offset(q: QuorumState, leader: Leader) -> int:
    """Return the greatest offset up to which a majority of the current voters has the log on disk. The leader counts
    itself only up to its synced end. Observers never count."""
    offsets = sorted((replicated_end(q, leader, voter.key) for voter in q.voters.voters), reverse=True)
    return offsets[len(offsets) // 2] if offsets else -1


def replicated_end(q: QuorumState, leader: Leader, voter: ReplicaKey) -> int:
    if voter.matches(q.local):
        return q.log.flushed_end
    progress = leader.progress_of_voter(voter)
    return progress.end_offset if progress is not None else -1


# Keeping the quorum


def poll_leader(q: QuorumState, leader: Leader) -> int:
    """Resign if a majority is silent, announce the leader to silent voters, and respond to Fetches whose max wait has
    passed. Returns the time of the next check."""
    lost_at = quorum_lost_ms(q, leader)
    if q.now_ms >= lost_at:
        resign(q, leader)
        return q.now_ms
    release_parked(q, leader)
    wake = min(lost_at, announce(q, leader), poll_voter_change(q, leader))
    return min(wake, min((parked.until_ms for parked in leader.parked.values()), default=NEVER_MS))


def resign(q: QuorumState, leader: Leader) -> None:
    """Step down within the epoch. The voters with the longest logs are the preferred successors."""
    ends = sorted(
        (
            (replicated_end(q, leader, voter.key), -voter.key.id, voter.key)
            for voter in q.voters.voters
            if voter.key.id != q.local.id
        ),
        reverse=True,
    )
    q.become_resigned(tuple(key for _, _, key in ends))


def quorum_lost_ms(q: QuorumState, leader: Leader) -> int:
    """Return the time at which a majority will have been silent for too long. A leader that is a voter counts as part
    of the majority."""
    voters = q.voters
    needed = voters.majority - (1 if q.is_voter else 0)
    if needed <= 0:
        return NEVER_MS
    contacts = sorted(
        (last_contact_ms(q, leader, voter.key) for voter in voters.voters if not voter.key.matches(q.local)),
        reverse=True,
    )
    return contacts[needed - 1] + q.config.check_quorum_timeout_ms


def last_contact_ms(q: QuorumState, leader: Leader, voter: ReplicaKey) -> int:
    progress = leader.progress_of_voter(voter)
    return max(progress.fetched_ms, leader.since_ms) if progress is not None else leader.since_ms


def announce(q: QuorumState, leader: Leader) -> int:
    """Send BeginQuorumEpoch to every voter that has not fetched for half a fetch timeout. Returns the time of the next
    check."""
    wake, period = NEVER_MS, q.config.fetch_timeout_ms // 2
    for voter in q.voters.voters:
        node_id = voter.key.id
        if node_id == q.local.id:
            continue
        progress = leader.progress_of_voter(voter.key)
        due = max(progress.fetched_ms if progress else -period, leader.begin_sent_ms.get(node_id, -period)) + period
        if q.now_ms >= due and q.can_send(BeginQuorumEpochRequest, node_id):
            leader.begin_sent_ms[node_id] = q.now_ms
            due = q.now_ms + period
            request = BeginQuorumEpochRequest(
                q.epoch, q.local.id, q.config.endpoints, node_id, voter.key.directory_id, q.config.cluster_id
            )
            q.send(node_id, q.endpoints_of(node_id), request)
        if due > q.now_ms:
            wake = min(wake, due)
    return wake


def on_begin_response(q: QuorumState, waiting: InFlight, response: Response) -> None:
    assert isinstance(response, BeginQuorumEpochResponse)
    if response.error != ErrorCode.NONE:
        q.back_off(waiting)
