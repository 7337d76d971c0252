"""Changes of the voter set, one at a time (thesis section 4.1, KIP-853).

The rules:

- Only a leader that has committed a record of its own epoch may start a change. Otherwise an uncommitted change of an
  older leader might still exist somewhere.
- No other change may be uncommitted.
- The new set is in effect as soon as it is appended.
- The response is sent once a majority of the new set has committed it.
"""

from __future__ import annotations

from kraft.protocol.error_codes import ErrorCode
from kraft.raft.core.config import MAX_KRAFT_VERSION, MIN_KRAFT_VERSION
from kraft.raft.core.log_state import Batch
from kraft.raft.core.messages import (
    AddVoterRequest,
    ProbeVersionsRequest,
    ProbeVersionsResponse,
    RemoveVoterRequest,
    Request,
    Response,
    UpdateVersionRequest,
    UpdateVoterRequest,
    VoterResponse,
)
from kraft.raft.core.payloads import Voters
from kraft.raft.core.quorum_state import NEVER_MS, InFlight, QuorumState
from kraft.raft.core.roles import Leader, VoterChange
from kraft.raft.core.voter_set import BOOTSTRAP_OFFSET, ReplicaKey, Voter, VoterSet

Refusal = tuple[int, str]

INCOMPLETE_KEY: Refusal = (ErrorCode.INVALID_REQUEST, "a voter is named by its node id and its directory id")
OTHER_CLUSTER: Refusal = (ErrorCode.INCONSISTENT_CLUSTER_ID, "the request is for another cluster")


def on_add_voter(q: QuorumState, token: object, request: AddVoterRequest) -> None:
    """Ask the new voter for its supported versions. `on_probe_response` continues the change."""
    refusal = refuse_change(q, request.cluster_id) or refuse_new_voter(q, request.voter)
    if refusal is not None:
        refuse(q, token, refusal)
        return
    assert isinstance(q.role, Leader)
    q.role.voter_change = VoterChange(token, request, q.now_ms + request.timeout_ms, request.voter)
    q.send(request.voter.key.id, request.voter.endpoints, ProbeVersionsRequest())


def refuse_new_voter(q: QuorumState, voter: Voter) -> Refusal | None:
    refusal = refuse_unreachable(voter)
    if refusal is not None:
        return refusal
    if q.voters.get(voter.key.id) is not None:
        return ErrorCode.DUPLICATE_VOTER, f"node {voter.key.id} is a voter already"
    if not q.can_send(ProbeVersionsRequest, voter.key.id):
        return (
            ErrorCode.REQUEST_TIMED_OUT,
            f"an earlier question for the versions of node {voter.key.id} is not answered yet",
        )
    return None


def on_probe_response(q: QuorumState, waiting: InFlight, response: Response) -> None:
    assert isinstance(response, ProbeVersionsResponse)
    leader, change = q.role, change_that_asked(q, waiting)
    if change is None:
        return
    assert isinstance(leader, Leader)
    voter = change.voter
    assert voter is not None
    refusal = refuse_probed(q, leader, voter.key, response)
    if refusal is not None:
        leader.voter_change = None
        refuse(q, change.token, refusal)
        return
    append_voters(
        q, change, q.voters.with_voter(Voter(voter.key, voter.endpoints, response.min_version, response.max_version))
    )
    assert isinstance(change.request, AddVoterRequest)
    if not change.request.ack_when_committed:
        change.responded = True
        q.reply(change.token, VoterResponse(q.hint()))


def change_that_asked(q: QuorumState, waiting: InFlight) -> VoterChange | None:
    """Return the change of voters that sent the versions request `waiting`. None if that change has ended, even if
    another one is in progress."""
    change = q.role.voter_change if isinstance(q.role, Leader) else None
    if change is None or change.voter is None or change.offset >= 0 or change.voter.key.id != waiting.to:
        return None
    return change


def refuse_probed(q: QuorumState, leader: Leader, key: ReplicaKey, response: ProbeVersionsResponse) -> Refusal | None:
    if response.error != ErrorCode.NONE:
        return ErrorCode.REQUEST_TIMED_OUT, f"node {key.id} did not tell its supported versions"
    if not response.min_version <= q.log.history.kraft_version <= response.max_version:
        supported = f"{response.min_version} to {response.max_version}"
        return (
            ErrorCode.INVALID_REQUEST,
            f"node {key.id} supports kraft.version {supported}, the cluster is at {q.log.history.kraft_version}",
        )
    progress = leader.progress.get(key)
    if (
        progress is None
        or progress.caught_up_ms < 0
        or q.now_ms - progress.caught_up_ms > q.config.new_voter_silence_ms_max
    ):
        return ErrorCode.REQUEST_TIMED_OUT, f"node {key.id} has not caught up with the leader"
    return None


def on_probe_failed(q: QuorumState, waiting: InFlight) -> None:
    leader, change = q.role, change_that_asked(q, waiting)
    if change is not None:
        assert isinstance(leader, Leader)
        leader.voter_change = None
        refuse(
            q,
            change.token,
            (ErrorCode.REQUEST_TIMED_OUT, "the new voter could not be asked for its supported versions"),
        )


def on_remove_voter(q: QuorumState, token: object, request: RemoveVoterRequest) -> None:
    refusal = refuse_change(q, request.cluster_id)
    if refusal is None and is_incomplete(request.key):
        refusal = INCOMPLETE_KEY
    if refusal is None and not q.voters.contains(request.key):
        refusal = ErrorCode.VOTER_NOT_FOUND, f"node {request.key.id} with that directory id is not a voter"
    if refusal is None and len(q.voters) == 1:
        refusal = ErrorCode.INVALID_REQUEST, "the last voter cannot be removed"
    if refusal is not None:
        refuse(q, token, refusal)
    else:
        change_to(q, token, request, q.voters.without(request.key), request.timeout_ms)


def on_update_voter(q: QuorumState, token: object, request: UpdateVoterRequest) -> None:
    """Apply the listeners and versions that a voter reports. Under kraft.version 0 they are only kept, for an
    upgrade."""
    leader, voter = q.role, request.voter
    if is_of_another_cluster(q, request.cluster_id):
        refuse(q, token, OTHER_CLUSTER)
        return
    if request.epoch != q.epoch:
        refuse(
            q, token, (ErrorCode.FENCED_LEADER_EPOCH if request.epoch < q.epoch else ErrorCode.UNKNOWN_LEADER_EPOCH, "")
        )
        return
    refusal = refuse_unreachable(voter)
    if refusal is not None:
        refuse(q, token, refusal)
        return
    if isinstance(leader, Leader) and q.log.history.kraft_version == 0:
        known = q.voters.get(voter.key.id) is not None and voter.key.id != q.local.id
        if known:
            leader.reported[voter.key.id] = voter
        refuse(
            q,
            token,
            (ErrorCode.NONE, "") if known else (ErrorCode.VOTER_NOT_FOUND, f"node {voter.key.id} is not a voter"),
        )
        return
    refusal = refuse_change(q, request.cluster_id) or refuse_update(q, voter)
    if refusal is not None:
        refuse(q, token, refusal)
    elif q.voters.get(voter.key.id) == voter:
        q.reply(token, VoterResponse(q.hint()))
    else:
        change_to(q, token, request, q.voters.with_voter(voter), q.config.request_timeout_ms)


def refuse_update(q: QuorumState, voter: Voter) -> Refusal | None:
    if not q.voters.contains(voter.key):
        return ErrorCode.VOTER_NOT_FOUND, f"node {voter.key.id} with that directory id is not a voter"
    if not voter.min_version <= q.log.history.kraft_version <= voter.max_version:
        return ErrorCode.INVALID_REQUEST, "a voter must support the cluster's kraft.version"
    return None


def on_update_version(q: QuorumState, token: object, request: UpdateVersionRequest) -> None:
    """Raise kraft.version from 0 to 1. From then on voters are identified by directory id, so every voter must have
    reported its own."""
    leader, current = q.role, q.log.history.kraft_version
    refusal = refuse_change(q, None, needs_version=False)
    if refusal is None and not current <= request.kraft_version <= MAX_KRAFT_VERSION:
        refusal = (
            ErrorCode.INVALID_UPDATE_VERSION,
            f"kraft.version is {current} and can be raised to {MAX_KRAFT_VERSION} only",
        )
    if refusal is None and request.kraft_version != current:
        assert isinstance(leader, Leader)
        own = Voter(q.local, q.config.endpoints, MIN_KRAFT_VERSION, MAX_KRAFT_VERSION)
        reported = VoterSet([*leader.reported.values(), own])
        if reported.ids != q.voters.ids or any(
            not v.min_version <= request.kraft_version <= v.max_version for v in reported.voters
        ):
            refusal = (
                ErrorCode.INVALID_UPDATE_VERSION,
                "not every voter has reported that it supports this kraft.version",
            )
        elif not request.validate_only:
            change_to(q, token, request, reported, request.timeout_ms, request.kraft_version)
            return
    refuse(q, token, refusal or (ErrorCode.NONE, ""))


def refuse_change(q: QuorumState, cluster_id: str | None, *, needs_version: bool = True) -> Refusal | None:
    """Return why no change of voters can be started now; None if one can."""
    leader, history = q.role, q.log.history
    if is_of_another_cluster(q, cluster_id):
        return OTHER_CLUSTER
    if not isinstance(leader, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node does not lead the quorum"
    if q.shutting_down:
        return ErrorCode.BROKER_NOT_AVAILABLE, "the leader is shutting down"
    if needs_version and history.kraft_version < 1:
        return ErrorCode.UNSUPPORTED_VERSION, "the voters of a cluster at kraft.version 0 cannot be changed"
    if not has_committed_in_epoch(leader):
        return ErrorCode.REQUEST_TIMED_OUT, "the leader has not committed anything in its epoch yet"
    if has_change_under_way(q, leader):
        return ErrorCode.REQUEST_TIMED_OUT, "another change of voters is under way"
    return None


def refuse_unreachable(voter: Voter) -> Refusal | None:
    if is_incomplete(voter.key):
        return INCOMPLETE_KEY
    if not voter.endpoints:
        return ErrorCode.INVALID_REQUEST, "a voter needs at least one listener"
    return None


def is_incomplete(key: ReplicaKey) -> bool:
    """Whether the key lacks the node id or the directory id. A change needs both."""
    return key.id < 0 or not any(key.directory_id)


def is_of_another_cluster(q: QuorumState, cluster_id: str | None) -> bool:
    return cluster_id is not None and q.config.cluster_id is not None and cluster_id != q.config.cluster_id


def has_committed_in_epoch(leader: Leader) -> bool:
    return leader.high_watermark > leader.epoch_start


def has_change_under_way(q: QuorumState, leader: Leader) -> bool:
    history = q.log.history
    return (
        leader.voter_change is not None
        or max(history.latest_offset, history.kraft_version_offset, BOOTSTRAP_OFFSET) >= q.log.high_watermark
    )


def change_to(
    q: QuorumState, token: object, request: Request, voters: VoterSet, timeout_ms: int, kraft_version: int | None = None
) -> None:
    assert isinstance(q.role, Leader)
    change = q.role.voter_change = VoterChange(token, request, q.now_ms + timeout_ms)
    append_voters(q, change, voters, kraft_version)


def append_voters(q: QuorumState, change: VoterChange, voters: VoterSet, kraft_version: int | None = None) -> None:
    """Append the new voter set, which is in effect from this offset."""
    base = q.log.end_offset
    last = base + (1 if kraft_version is not None else 0)
    q.append(Batch(base, last, q.epoch, Voters(kraft_version, voters), voters, kraft_version))
    change.offset = last


def finish_voter_change(q: QuorumState, leader: Leader) -> None:
    """Send the response to a change that the high watermark has just passed."""
    change = leader.voter_change
    if change is not None and 0 <= change.offset < leader.high_watermark:
        leader.voter_change = None
        if not change.responded:
            q.reply(change.token, VoterResponse(q.hint()))


def poll_voter_change(q: QuorumState, leader: Leader) -> int:
    """End the wait at the timeout. An appended record stays and may still commit, so the response then says that the
    outcome is unknown."""
    change = leader.voter_change
    if change is None or change.responded:
        return NEVER_MS
    if q.now_ms < change.until_ms:
        return change.until_ms
    change.responded = True
    if change.offset < 0:
        leader.voter_change = None
    refuse(q, change.token, (ErrorCode.REQUEST_TIMED_OUT, "the change of voters was not committed in time"))
    return NEVER_MS


def refuse(q: QuorumState, token: object, refusal: Refusal) -> None:
    q.reply(token, VoterResponse(q.hint(), *refusal))
