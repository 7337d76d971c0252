"""Elections: granting votes, and counting received ones (Raft section 5.2 and 5.4.1, KIP-595; pre-vote KIP-996)."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.error_codes import ErrorCode
from kraft.raft.core.leadership import start_leading
from kraft.raft.core.messages import LeaderHint, Response, VoteRequest, VoteResponse
from kraft.raft.core.quorum_state import InFlight, QuorumState
from kraft.raft.core.roles import Candidate, Follower, Leader, Prospective, Unattached


def on_vote_request(q: QuorumState, token: object, request: VoteRequest) -> None:
    """Respond to a vote or pre-vote. A replica that is not in this voter set gets a response too: its set may be newer
    (KIP-853)."""
    error = check_vote_request(q, request)
    if error == ErrorCode.NONE and not q.take_claimed_epoch(request.epoch):
        error = ErrorCode.INVALID_REQUEST
    if error != ErrorCode.NONE:
        q.reply(token, VoteResponse(q.hint(), False, error))
        return
    if request.epoch > q.epoch:
        q.become_unattached(request.epoch)
    granted = would_grant(q, request)
    if granted and not request.pre_vote and q.election.voted is None:
        q.grant_vote(request.candidate)
    q.reply(token, VoteResponse(q.hint(), granted))


def check_vote_request(q: QuorumState, request: VoteRequest) -> int:
    """Return the error of the response, or NONE."""
    if request.cluster_id is not None and q.config.cluster_id is not None and request.cluster_id != q.config.cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if q.shutting_down:
        return ErrorCode.BROKER_NOT_AVAILABLE
    if (
        request.candidate.id < 0
        or request.end_offset < 0
        or request.last_epoch < 0
        or request.last_epoch > request.epoch
        or (not request.pre_vote and request.last_epoch == request.epoch)
    ):
        return ErrorCode.INVALID_REQUEST
    if request.epoch < q.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if not is_addressed_to_us(q, request.voter_id, request.voter_directory_id):
        return ErrorCode.INVALID_VOTER_KEY
    return ErrorCode.NONE


def is_addressed_to_us(q: QuorumState, voter_id: int, directory_id: bytes) -> bool:
    """Whether the voter key of a request is this replica's. An id of -1 or a zero directory id means that the request
    does not name one."""
    return voter_id < 0 or (voter_id == q.local.id and q.local.matches(q.local._replace(directory_id=directory_id)))


def would_grant(q: QuorumState, request: VoteRequest) -> bool:
    """Whether the candidate gets this replica's vote, in the epoch that both are now in.

    A pre-vote is refused while this replica receives responses from a leader. A vote is refused if this replica voted
    for another candidate or knows the leader of the epoch. In both cases the candidate's log must be at least as up to
    date as this one.
    """
    if request.pre_vote:
        return (
            is_up_to_date(q, request)
            and not isinstance(q.role, Leader)
            and not (isinstance(q.role, Follower) and q.role.has_fetched)
        )
    if q.election.voted is not None:
        return q.election.voted.matches(request.candidate)
    return isinstance(q.role, Unattached | Prospective) and not q.election.has_leader and is_up_to_date(q, request)


def is_up_to_date(q: QuorumState, request: VoteRequest) -> bool:
    """Whether the candidate's log is at least as up to date (Raft section 5.4.1): the later last epoch wins, then the
    longer log."""
    return (request.last_epoch, request.end_offset) >= (q.log.last_epoch, q.log.end_offset)


def on_vote_response(q: QuorumState, waiting: InFlight, response: Response) -> None:
    """Count a response. A response for another role or epoch never gets here, because a change of role drops all
    requests in flight."""
    assert isinstance(response, VoteResponse)
    role = q.role
    assert isinstance(role, Prospective | Candidate)
    if response.error == ErrorCode.UNSUPPORTED_VERSION and isinstance(role, Prospective):
        q.become_candidate()  # A voter too old for pre-votes: start an election as before KIP-996.
        return
    if response.error != ErrorCode.NONE:
        q.back_off(waiting)
        return
    role.record(waiting.to, response.granted)
    count_votes(q)


def count_votes(q: QuorumState) -> None:
    """Act if a majority has granted its votes, or can no longer do so."""
    role = q.role
    if isinstance(role, Prospective) and role.won:
        q.become_candidate()
        count_votes(q)
    elif isinstance(role, Candidate) and role.won:
        start_leading(q, role)
    elif isinstance(role, Prospective) and role.lost:
        give_up_canvass(q, role)
    elif isinstance(role, Candidate) and role.lost:
        # The votes were split, or another candidate has them. The next pre-vote shows which.
        role.until_ms = min(role.until_ms, q.now_ms + q.random_haste_ms())


def give_up_canvass(q: QuorumState, role: Prospective) -> None:
    """Follow the known leader again if it can be reached. From then on this replica grants pre-votes, because a new
    `Follower` has not fetched."""
    leader_id = q.election.leader_id
    if (
        q.election.has_leader
        and leader_id != q.local.id
        and (role.leader_endpoints or q.voters.get(leader_id) is not None)
    ):
        q.become_follower(q.epoch, leader_id, role.leader_endpoints)
    else:
        q.become_unattached(q.epoch)


def poll_prospective(q: QuorumState, role: Prospective) -> int:
    if q.now_ms >= role.until_ms:
        give_up_canvass(q, role)
        return q.now_ms
    canvass(q, role)
    return role.until_ms


def poll_candidate(q: QuorumState, role: Candidate) -> int:
    """Wait for a random time after a lost election, so that two candidates do not collide forever."""
    if q.now_ms >= role.until_ms:
        stand(q)
        return q.now_ms
    canvass(q, role)
    return role.until_ms


def poll_unattached_voter(q: QuorumState, role: Unattached) -> int:
    if q.now_ms >= role.until_ms:
        stand(q)
        return q.now_ms
    return role.until_ms


def stand(q: QuorumState) -> None:
    """Start an election with a pre-vote. A sole voter wins it immediately. A replica that is no longer a voter only
    waits."""
    if q.may_stand:
        q.become_prospective()
        count_votes(q)
    elif isinstance(q.role, Unattached):
        q.role.until_ms = q.now_ms + q.random_election_timeout_ms()  # Its requests are still in flight.
    else:
        q.become_unattached(q.epoch)


def canvass(q: QuorumState, role: Prospective | Candidate) -> None:
    """Send a vote request to every voter that has not responded."""
    for voter_id in role.unanswered():
        if q.can_send(VoteRequest, voter_id):
            q.send(voter_id, q.endpoints_of(voter_id), vote_request(q, voter_id, isinstance(role, Prospective)))


def vote_request(q: QuorumState, voter_id: int, pre_vote: bool) -> VoteRequest:
    voter = q.voters.get(voter_id)
    voter_directory_id = voter.key.directory_id if voter is not None else ZERO_UUID
    return VoteRequest(
        q.epoch,
        q.local,
        q.log.last_epoch,
        q.log.end_offset,
        pre_vote,
        voter_id,
        voter_directory_id,
        q.config.cluster_id,
    )


def on_leader_hint(q: QuorumState, hint: LeaderHint) -> bool:
    """Apply the epoch and the leader that a response names. Returns True if they changed the role, so that the rest of
    the response is out of date."""
    if hint.epoch < q.epoch or hint.leader_id == q.local.id:
        if hint.epoch > q.epoch:
            q.become_unattached(hint.epoch)
            return True
        return False
    reachable = bool(hint.endpoints) or q.voters.get(hint.leader_id) is not None
    if hint.leader_id >= 0 and reachable:
        if hint.epoch > q.epoch or not isinstance(q.role, Follower):
            if hint.epoch == q.epoch and q.election.leader_id == hint.leader_id and isinstance(q.role, Prospective):
                return False  # This replica knows that leader and doubts it.
            q.become_follower(hint.epoch, hint.leader_id, hint.endpoints)
            return True
    elif hint.epoch > q.epoch:
        q.become_unattached(hint.epoch)
        return True
    return False
