"""Operations of administrators: leaders move, replicas move, voters are added and removed. Each had an effect if the
cluster accepted it."""

from __future__ import annotations

from typing import Any

from jepsen.db import CLUSTER_ID
from jepsen.nemesis.injection import Context, Injection, NotNow
from jepsen.node import CONTROLLER_PORT
from jepsen.observer import FAILURES
from kraft.protocol.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from kraft.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.protocol.messages.elect_leaders_request import ElectLeadersRequest
from kraft.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest

ASK_SECONDS_MAX = 8.0
REJOIN_ATTEMPTS_MAX = 5


def ask(context: Context, request: object) -> Any:
    """Send a request to any free node. Raises NotNow if it does not answer; nothing depends on the outcome then."""
    try:
        return context.cluster.ask(context.pick("any"), request, ASK_SECONDS_MAX)
    except FAILURES as problem:
        raise NotNow(f"nobody answers: {problem}") from problem


def transfer(context: Context) -> Injection:
    """Elect the preferred leader of every partition."""
    answer = ask(context, ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=5000))
    return Injection(kind="preferred-leaders", role="", busy=frozenset(), end=lambda: answer.error_code == 0)


def reassign(context: Context) -> Injection:
    """Give one partition another set of replicas while clients use it."""
    sample = context.observer.latest
    if not sample.partitions:
        raise NotNow("no partition is known")
    name = context.chance.choice(sorted(sample.partitions))
    topic, _, index = name.rpartition("-")
    replicas = context.chance.sample(sorted(context.cluster.nodes), len(sample.partitions[name][3]))
    partition = ReassignablePartition(partition_index=int(index), replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=5000, topics=[ReassignableTopic(name=topic, partitions=[partition])]
    )
    answer = ask(context, request)
    code = answer.error_code or answer.responses[0].partitions[0].error_code
    return Injection(kind="reassign", role=f"{name} to {replicas}", busy=frozenset(), end=lambda: code == 0)


def voter_leaves(context: Context) -> Injection:
    """Remove one voter, at times the active controller; at the end it is added again."""
    quorum = context.observer.quorum()
    if quorum is None or len(quorum.current_voters) < len(context.cluster.nodes):
        raise NotNow("not every node is a voter")
    voter = context.chance.choice(
        [each for each in quorum.current_voters if each.replica_id in context.free()] or [None]
    )
    if voter is None:
        raise NotNow("no voter is free")
    number, directory = voter.replica_id, voter.replica_directory_id
    answer = ask(context, RemoveRaftVoterRequest(cluster_id=CLUSTER_ID, voter_id=number, voter_directory_id=directory))
    if answer.error_code:
        raise NotNow(f"the voter is not let go: {answer.error_message}")

    def end() -> bool:
        return any(
            rejoin(context, number, directory) or context.observer.is_voter(number) for _ in range(REJOIN_ATTEMPTS_MAX)
        )

    return Injection(kind="voter-leaves", role=f"n{number}", busy=frozenset(), end=end)


def rejoin(context: Context, number: int, directory: bytes) -> bool:
    """Add the voter again. Returns whether it was accepted; a quorum without it works too."""
    listeners = [Listener(name="CONTROLLER", host=context.cluster.nodes[number].host, port=CONTROLLER_PORT)]
    request = AddRaftVoterRequest(
        cluster_id=CLUSTER_ID, timeout_ms=5000, voter_id=number, voter_directory_id=directory, listeners=listeners
    )
    try:
        answer = ask(context, request)
    except NotNow:
        return False
    return bool(answer.error_code == 0)
