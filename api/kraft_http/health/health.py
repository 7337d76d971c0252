"""The health verdict from the facts about a cluster: whether it is healthy, what is wrong, and the remedy. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from pydantic import BaseModel, Field

from kraft.common.broker_state import ACTIVE
from kraft_http.health.health_findings import (
    NodeStatus,
    Reason,
    WaitingElections,
    authorizer_reasons,
    election_reasons,
    late_member_warnings,
    late_transaction_reasons,
    refused_reasons,
    replica_reasons,
    set_aside_reasons,
    unknown_reasons,
    unmade_topic_reasons,
)
from kraft_http.health.machine_reasons import certificate_reasons, clock_reasons, slow_disk_reasons, unreached_reasons
from kraft_http.ports import BrokerFacts, ClusterFacts, InternalTopicFacts, PartitionFacts
from kraft_http.requests.int64 import Int64

LISTED_MAX = 100
"""Limit of partitions of each kind in a response. The counts are complete."""

DISK_FREE_SHARE_MIN = 0.05

NOTHING_WAITS = WaitingElections()
NONE_UNREACHED: Mapping[int, str] = MappingProxyType({})

VOTER_SILENT_MS_MAX = 5_000
"""A voter that was not caught up for longer than this counts as lagging."""


class PartitionRef(BaseModel):
    topic: str
    partition: int
    leader: int = Field(description="Node id of the leader; -1 without a leader.")
    replicas: list[int]
    in_sync: list[int]
    min_in_sync: int


class PartitionProblem(BaseModel):
    count: int
    partitions: list[PartitionRef] = Field(description=f"At most {LISTED_MAX} of them.")


class VoterFacts(BaseModel):
    """A voter's progress as the quorum's leader sees it."""

    node_id: int
    lag: Int64 = Field(description="Records of the metadata log that the voter has not copied yet.")
    behind_ms: Int64 = Field(
        description="Milliseconds since the voter was last caught up; -1: never under this leader."
    )
    is_current: bool


class ClusterHealth(BaseModel):
    is_healthy: bool
    reasons: list[Reason]
    warnings: list[Reason] = Field(
        default=[], description="Findings that affect clients. The cluster is healthy in spite of them."
    )
    controller_id: int = Field(description="The active controller; -1 without one.")
    controller_epoch: int
    quorum_voters: list[int]
    voters: list[VoterFacts] = Field(description="Empty if the active controller does not respond.")
    brokers: list[int]
    nodes_down: list[int] = Field(description="Registered brokers that are fenced.")
    out_of_duty: list[int] = Field(description="Brokers in maintenance, kept fenced, or being decommissioned.")
    reassignments_count: int
    topics_count: int
    partitions_count: int
    leaderless: PartitionProblem
    under_replicated: PartitionProblem
    under_min_isr: PartitionProblem
    offline_log_dirs: list[str] = Field(description="Offline log directories of the node that responds.")
    disk_free_bytes: Int64 | None
    disk_total_bytes: Int64 | None
    metadata_offset: Int64
    nodes: list[NodeStatus] = Field(
        default=[], description="Disks and waiting replicas of each live node, as it reports them."
    )
    waiting_elections: WaitingElections = Field(
        default=WaitingElections(), description="Empty if the active controller does not respond."
    )


def is_offline(partition: PartitionFacts) -> bool:
    return partition.leader < 0


def is_under_replicated(partition: PartitionFacts) -> bool:
    return partition.leader >= 0 and len(partition.in_sync) < len(partition.replicas)


def is_under_min_isr(partition: PartitionFacts) -> bool:
    return len(partition.in_sync) < partition.min_in_sync


def voter_facts(voters: Sequence[tuple[int, int, int]], leader_id: int, now_ms: int) -> list[VoterFacts]:
    """The progress of `voters`: (node id, log end offset, last caught-up time) as the quorum's leader reports them.
    Times are ms since 1970, -1 if unknown. The present is the leader's own timestamp if it has one, because clocks of
    other nodes may differ."""
    end = max((log_end for node_id, log_end, _ in voters if node_id == leader_id), default=-1)
    now = next((caught_up for node_id, _, caught_up in voters if node_id == leader_id and caught_up >= 0), now_ms)
    found = []
    for node_id, log_end, caught_up in voters:
        leads = node_id == leader_id
        behind = 0 if leads else -1 if caught_up < 0 else max(0, now - caught_up)
        found.append(
            VoterFacts(
                node_id=node_id,
                lag=max(0, end - max(log_end, 0)),
                behind_ms=behind,
                is_current=leads or 0 <= behind <= VOTER_SILENT_MS_MAX,
            )
        )
    return found


def judge(
    facts: ClusterFacts,
    voters: Sequence[VoterFacts] = (),
    *,
    controller_answers: bool = True,
    nodes: Sequence[NodeStatus] = (),
    elections: WaitingElections = NOTHING_WAITS,
    unreached: Mapping[int, str] = NONE_UNREACHED,
    asked_by: int = -1,
) -> ClusterHealth:
    """The verdict. A broker that is shutting down, or was shut down, on purpose does not count as down.

    - `voters` and `elections` are the active controller's report, if it answers.
    - `nodes` are the reports of the nodes that answer.
    - `unreached` has the nodes that node `asked_by` could not reach, with the reasons.
    """
    leaderless = [partition for partition in facts.impaired if is_offline(partition)]
    under_replicated = [partition for partition in facts.impaired if is_under_replicated(partition)]
    under_min_isr = [partition for partition in facts.impaired if is_under_min_isr(partition)]
    down = [broker.node_id for broker in facts.brokers if broker.fenced and not broker.shutting_down]
    reasons = [
        *_controller_reasons(facts, controller_answers),
        *_voter_reasons(voters),
        *_broker_reasons(down),
        *unreached_reasons(unreached, asked_by, facts.brokers),
        *refused_reasons(elections),
        *_drain_reasons(facts.brokers),
        *_partition_reasons(leaderless, under_min_isr, under_replicated),
        *unknown_reasons(nodes),
        *authorizer_reasons(nodes),
        *election_reasons(elections),
        *replica_reasons(nodes),
        *late_transaction_reasons(nodes),
        *clock_reasons(nodes),
        *certificate_reasons(nodes),
        *slow_disk_reasons(nodes),
        *set_aside_reasons(nodes),
        *unmade_topic_reasons(nodes),
        *_internal_topic_reasons(facts.internal_topics),
        *(reason for node in nodes for reason in _disk_reasons(node)),
        *(_tiering_reason(node) for node in nodes if node.tiering_put_off_count),
    ]
    return ClusterHealth(
        is_healthy=not reasons,
        reasons=reasons,
        warnings=list(late_member_warnings(nodes)),
        controller_id=facts.controller_id,
        controller_epoch=facts.controller_epoch,
        quorum_voters=list(facts.voters),
        voters=list(voters),
        brokers=[broker.node_id for broker in facts.brokers],
        nodes_down=down,
        out_of_duty=[broker.node_id for broker in facts.brokers if broker.desired_state != ACTIVE],
        reassignments_count=len(facts.reassignments),
        topics_count=facts.topics_count,
        partitions_count=facts.partitions_count,
        leaderless=_listed(leaderless),
        under_replicated=_listed(under_replicated),
        under_min_isr=_listed(under_min_isr),
        offline_log_dirs=list(facts.offline_log_dirs),
        disk_free_bytes=facts.disk_free_bytes,
        disk_total_bytes=facts.disk_total_bytes,
        metadata_offset=facts.metadata_offset,
        nodes=list(nodes),
        waiting_elections=elections,
    )


def _internal_topic_reasons(internal: Sequence[InternalTopicFacts]) -> Iterator[Reason]:
    """The reasons about coordinators' topics with too few replicas, because they were created when there were fewer
    brokers."""
    for each in internal:
        if each.replicas >= each.replicas_wanted:
            continue
        command = f"kraft topics alter {each.topic} --replication-factor {each.replicas_wanted}"
        if each.min_in_sync < each.min_in_sync_wanted:
            command += f" --config min.insync.replicas={each.min_in_sync_wanted}"
        yield Reason(
            code="internal_topic_few_copies",
            summary=f"{each.topic} has {each.replicas} of {each.replicas_wanted} copies that the brokers allow: "
            "committed offsets or transactions are lost with those disks.",
            remedy=f"`{command}` adds copies while clients go on.",
        )


def _controller_reasons(facts: ClusterFacts, answers: bool) -> list[Reason]:
    if facts.controller_id >= 0 and answers:
        return []
    named = f" {_names(facts.voters)}" if facts.voters else ""
    remedy = (
        f"A majority of the controllers{named} must be up and reach one another: start those that are down, or look "
        "at the network."
    )
    summary = "There is no active controller: metadata cannot change and no leader can be elected."
    if facts.controller_id >= 0:
        summary = (
            f"The active controller, node {facts.controller_id}, does not answer: metadata may not change and no "
            "leader be elected."
        )
    return [Reason(code="no_controller", summary=summary, remedy=remedy)]


def _voter_reasons(voters: Sequence[VoterFacts]) -> list[Reason]:
    lagging = [voter.node_id for voter in voters if not voter.is_current]
    if not lagging:
        return []
    spare = len(voters) - len(lagging) - (len(voters) // 2 + 1)
    left = (
        "one more that fails, and there is no active controller"
        if spare <= 0
        else f"{spare} more may fail before there is no active controller"
    )
    summary = (
        f"{_nouns('Controller', lagging)} {'does' if len(lagging) == 1 else 'do'} not keep up with the quorum: {left}."
    )
    remedy = (
        "Start it again if it is down; otherwise check its disk and its network. One that lost its disk has to be "
        "removed as a voter and added again."
    )
    return [Reason(code="lagging_voters", summary=summary, remedy=remedy)]


def _drain_reasons(brokers: Sequence[BrokerFacts]) -> list[Reason]:
    """The reasons about decommissionings that are blocked."""
    reasons = []
    for broker in brokers:
        if broker.draining is not None and broker.draining.blocked:
            blocked = broker.draining.blocked
            summary = (
                f"Broker {broker.node_id} cannot be emptied: for {len(blocked)} of its replicas no other broker "
                f"is free ({_some(blocked)})."
            )
            remedy = (
                "Add a broker, lower the replication factor of these topics, or end the decommissioning "
                f"(kraft brokers decommission {broker.node_id} --cancel)."
            )
            reasons.append(Reason(code="decommission_blocked", summary=summary, remedy=remedy))
    return reasons


def _broker_reasons(down: list[int]) -> list[Reason]:
    if not down:
        return []
    remedy = (
        f"Start {'it' if len(down) == 1 else 'them'} again: the last line of a node's log says why it ended. "
        "One that will not come back is decommissioned "
        "(kraft brokers decommission ID): its replicas are recreated elsewhere."
    )
    return [
        Reason(
            code="brokers_down",
            summary=f"{_nouns('Broker', down)} {'is' if len(down) == 1 else 'are'} down.",
            remedy=remedy,
        )
    ]


def _partition_reasons(
    leaderless: list[PartitionFacts], under_min_isr: list[PartitionFacts], under_replicated: list[PartitionFacts]
) -> list[Reason]:
    found = (
        (
            leaderless,
            "leaderless_partitions",
            "without a leader: nothing can be read or written",
            "Start a broker that has them in sync. If all of those are lost for good, an unclean election "
            "(kraft elections unclean) brings them back and may lose records.",
        ),
        (
            under_min_isr,
            "under_min_isr_partitions",
            "below min.insync.replicas: writes with acks=all are refused",
            "Start the brokers that are down. Lowering min.insync.replicas lets writes through and makes them less "
            "safe.",
        ),
        (
            under_replicated,
            "under_replicated_partitions",
            "with fewer in-sync replicas than replicas",
            "Start the brokers that are down. If all are up, the followers cannot keep pace: look at their disks and "
            "network.",
        ),
    )
    return [
        Reason(code=code, summary=f"{_count(partitions)} {what}.", remedy=remedy)
        for partitions, code, what, remedy in found
        if partitions
    ]


def _disk_reasons(node: NodeStatus) -> list[Reason]:
    reasons = []
    if node.offline_log_dirs:
        summary = f"Node {node.node_id} cannot use {', '.join(node.offline_log_dirs)}."
        remedy = "Look at the disk, then restart the node: a directory that failed is not used again before that."
        reasons.append(Reason(code="offline_log_dirs", summary=summary, remedy=remedy))
    free, total = node.disk_free_bytes, node.disk_total_bytes
    if free is not None and total and free < total * DISK_FREE_SHARE_MIN:
        summary = f"The disk of node {node.node_id} has {free / total:.1%} left ({free // 2**20} MiB)."
        remedy = (
            "Make room, or shorten the retention of large topics. When nothing is left, writes are refused until "
            "there is room again."
        )
        reasons.append(Reason(code="disk_almost_full", summary=summary, remedy=remedy))
    return reasons


def _tiering_reason(node: NodeStatus) -> Reason:
    rate, free = node.tiering_put_off_bytes_in, node.disk_free_bytes
    lasts = f" At the current rate its disk lasts {free / rate / 3600:.1f} h." if rate and free is not None else ""
    return Reason(
        code="tiering_put_off",
        summary=f"Node {node.node_id} cannot work with the object store for {node.tiering_put_off_count} partition(s): "
        f"{node.tiering_put_off_error}.{lasts}",
        remedy="Look at the store, and at the credentials and the endpoint in the node's environment. Meanwhile "
        "segments stay on the disk, also beyond local.retention.* and retention.*, and old records cannot be read.",
    )


def _count(partitions: list[PartitionFacts]) -> str:
    return "1 partition" if len(partitions) == 1 else f"{len(partitions)} partitions"


def _nouns(noun: str, ids: Sequence[int]) -> str:
    return f"{noun}{'s' if len(ids) > 1 else ''} {_names(tuple(ids))}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def _names(ids: tuple[int, ...] | list[int]) -> str:
    return ", ".join(map(str, ids))


def partition_ref(partition: PartitionFacts) -> PartitionRef:
    return PartitionRef(
        topic=partition.topic,
        partition=partition.partition,
        leader=partition.leader,
        replicas=list(partition.replicas),
        in_sync=list(partition.in_sync),
        min_in_sync=partition.min_in_sync,
    )


def _listed(partitions: list[PartitionFacts]) -> PartitionProblem:
    return PartitionProblem(
        count=len(partitions), partitions=[partition_ref(partition) for partition in partitions[:LISTED_MAX]]
    )
