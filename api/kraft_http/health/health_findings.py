"""A node's reports of its troubles: models, and the health reasons derived from them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, Literal

from pydantic import BaseModel, Field, ValidationError

from kraft_http.requests.int64 import Int64

NO_AUTHORIZER: Final = "none"
WAITS_SAID_MAX: Final = 5
"""Limit of waiting partitions that are described or named. Further ones are counted."""


class Reason(BaseModel):
    """One problem of the cluster."""

    code: str = Field(examples=["under_replicated_partitions"])
    summary: str
    remedy: str = Field(description="What to do.")


class ReplicaEnd(BaseModel):
    """The end of a replica's log."""

    replica: int
    last_epoch: int = Field(description="Leader epoch of the last record; -1 if the log is empty.")
    end_offset: Int64 = Field(description="Offset after the last record.")


class LostRange(BaseModel):
    """Offsets of a replica that the candidate's log does not have."""

    replica: int
    start_offset: Int64
    end_offset: Int64 = Field(description="Offset after the last lost record.")


class WaitingElection(BaseModel):
    """A partition without a leader, as the active controller knows it."""

    topic: str
    partition: int
    strategy: str = Field(description="The topic's kraft.unclean.recovery.strategy.")
    members: list[int] = Field(description="Replicas that had every acknowledged record.")
    awaited: list[int] = Field(description="Replicas that the election waits for.")
    since_ms: Int64
    until_ms: Int64 | None = Field(description="End of the wait; null: without a limit.")
    ends: list[ReplicaEnd] = Field(description="Log ends of the replicas that responded.")
    candidate: int = Field(description="Replica that an unclean election would elect now; -1: no log is known.")
    lost: list[LostRange] = Field(
        default=[],
        description=(
            "Offsets that other known logs have beyond the candidate's. Further records of awaited replicas are "
            "lost as well."
        ),
    )
    command: str = Field(description="Command that ends the wait. With --dry-run it only prints the losses.")


class WaitingReplica(BaseModel):
    """A replica that must not lead: its log is damaged or belongs to an unknown topic."""

    topic: str
    partition: int
    since_ms: Int64
    start_offset: Int64 = Field(description="First missing offset.")
    known_end_offset: Int64 = Field(
        description="Offset up to which (exclusive) the replica is known to have had records."
    )
    reason: str
    command: str = Field(
        description="Command to run on that node to end the wait. Without --execute it only prints the losses."
    )


class UnreadableLog(BaseModel):
    """A compacted log with records that cannot be read."""

    topic: str
    partition: int
    since_ms: Int64
    count: int = Field(description="Number of batches or segments.")
    ranges: list[tuple[Int64, Int64]] = Field(description="Offsets of the first ones; ends are exclusive.")
    reason: str
    command: str = Field(description="Command that deletes them and everything before them.")


class SetAsideItem(BaseModel):
    """An item that background work skips because it failed unexpectedly (a defect of kraft). Other items are not
    affected."""

    work: str
    item: str
    since_ms: Int64
    count: int = Field(description="Number of failures.")
    error: str = Field(description="Error of the last failure.")


class UnmadeTopic(BaseModel):
    """An internal topic that a coordinator's clients wait for, and that cannot be created."""

    topic: str
    since_ms: Int64
    reason: str


class CertificateEnd(BaseModel):
    """The time at which the first certificate of a listener expires. HTTP_ADMIN is the HTTP admin."""

    listener: str
    ends_ms: Int64


class SlowDiskStatus(BaseModel):
    """A log directory whose disk is slow."""

    path: str
    seconds: float = Field(
        description="Duration of the longest sync of the last five minutes, including a sync in progress."
    )
    slow: int = Field(description="Number of syncs that took longer than a second in the last five minutes.")
    syncs: int


class LateMember(BaseModel):
    """A member of a consumer group that does not make progress on some of its partitions."""

    group_id: str
    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    pace: Literal["slow", "commits_nothing", "stands_still"] = Field(
        description=(
            "commits_nothing: no commit although records wait. stands_still: commits of the same offset again "
            "and again. slow: the committed offset advances, but the lag grows."
        )
    )
    topic: str = Field(description="Topic of the first of these partitions.")
    partition: int
    partitions_count: int
    waiting: Int64 = Field(description="Records that wait in these partitions.")
    since_ms: Int64 = Field(description="How long this has lasted.")
    growth: float = Field(description="Growth of the lag of a slow member, in records a second.")
    last_commit_ms: Int64 | None = Field(description="Time of the last commit for these partitions.")
    summary: str


class NodeStatus(BaseModel):
    """A node's report about its disks, replicas and background work. Lists are truncated; the counts are complete."""

    node_id: int
    is_known: bool = Field(
        default=True, description="False if the response of that node cannot be read; the other fields are empty then."
    )
    offline_log_dirs: list[str] = []
    authorizer: str | None = Field(
        default=None, description="Name of the authorizer, `none` without one; null if the node does not report it."
    )
    disk_free_bytes: int | None = None
    disk_total_bytes: int | None = None
    wall_ms: int | None = Field(default=None, description="The node's wall clock when it responded.")
    clock_offset_ms: int = Field(
        default=0, description="How far the node's clock is ahead of the clock of the responding node."
    )
    certificates: list[CertificateEnd] = []
    slow_disks: list[SlowDiskStatus] = []
    late_transactions_count: int = Field(
        default=0,
        description=("Number of partitions led by this node with a transaction that exceeds the longest allowed time."),
    )
    late_transactions: list[str] = []
    waiting_replicas_count: int = 0
    waiting_replicas: list[WaitingReplica] = []
    unreadable_logs_count: int = 0
    unreadable_logs: list[UnreadableLog] = []
    unmade_topics: list[UnmadeTopic] = []
    set_aside_count: int = 0
    set_aside: list[SetAsideItem] = []
    late_members_count: int = Field(
        default=0, description="Number of members of groups coordinated by this node that are stuck or slow."
    )
    late_members: list[LateMember] = []
    tiering_put_off_count: int = Field(
        default=0,
        description="Number of tiered partitions led by this node whose last round with the object store failed.",
    )
    tiering_put_off_error: str | None = Field(default=None, description="Error of the first of them.")
    tiering_put_off_bytes_in: float = Field(default=0.0, description="Bytes a second written to their topics.")


class WaitingElections(BaseModel):
    """The partitions without a leader. The list is truncated, the count is complete. A partition that has only just
    lost its leader may be missing in the list."""

    count: int = 0
    partitions: list[WaitingElection] = []
    refused_brokers: list[int] = Field(
        default=[], description="Running brokers whose registration was removed: their heartbeats are rejected."
    )


def read_status(node_id: int, document: object) -> NodeStatus:
    """The report of node `node_id`. If a node of another release sends an unknown format, `is_known` is False."""
    try:
        return NodeStatus.model_validate(document)
    except ValidationError:
        return NodeStatus(node_id=node_id, is_known=False)


def unknown_reasons(nodes: Sequence[NodeStatus]) -> Iterator[Reason]:
    """The reason about nodes whose reports cannot be read."""
    unknown = [node.node_id for node in nodes if not node.is_known]
    if unknown:
        yield Reason(
            code="node_status_unknown",
            summary=f"What {_nodes(unknown)} reported cannot be decoded here: their disks and waiting replicas are "
            "unknown.",
            remedy="Look at /metrics and the log there. It may be another release of kraft: this ends once all nodes "
            "run the same one.",
        )


def late_transaction_reasons(nodes: Sequence[NodeStatus]) -> Iterator[Reason]:
    """The reason about transactions that no coordinator will complete."""
    count = sum(node.late_transactions_count for node in nodes)
    if not count:
        return
    named = [partition for node in nodes for partition in node.late_transactions]
    more = f" and {count - WAITS_SAID_MAX} more" if count > WAITS_SAID_MAX else ""
    yield Reason(
        code="late_transactions",
        summary=f"In {count} partition{'s' if count > 1 else ''} read_committed consumers wait for a transaction that "
        f"no timeout ends: {', '.join(named[:WAITS_SAID_MAX])}{more}.",
        remedy="`kraft transactions find-hanging` shows each transaction and the command that ends it. One of "
        "two-phase commit is ended by its own application: start that again first.",
    )


def authorizer_reasons(nodes: Sequence[NodeStatus]) -> Iterator[Reason]:
    """The reason about nodes with different authorizers: one node would deny what another allows."""
    found: dict[str, list[int]] = {}
    for node in nodes:
        if node.authorizer is not None:
            found.setdefault(node.authorizer, []).append(node.node_id)
    if len(found) < 2:
        return
    told = "; ".join(f"{how} on node {', '.join(map(str, ids))}" for how, ids in sorted(found.items()))
    yield Reason(
        code="authorizers_differ",
        summary=f"Nodes differ in how they authorize requests: {told}."
        + (" A node without an authorizer allows every request." if NO_AUTHORIZER in found else ""),
        remedy="Set authorizer.class.name and allow.everyone.if.no.acl.found alike on every node, and restart the "
        "nodes that differ.",
    )


def election_reasons(elections: WaitingElections) -> Iterator[Reason]:
    for each in elections.partitions[:WAITS_SAID_MAX]:
        name = f"{each.topic}-{each.partition}"
        ends = ", ".join(f"{end.replica} at {end.end_offset}" for end in each.ends) or "none"
        until = "without bound" if each.until_ms is None else f"until {at(each.until_ms)}"
        awaited = f"for {_replicas(each.awaited)}" if each.awaited else "for an operator"
        yield Reason(
            code="waiting_election",
            summary=f"{name} waits {awaited} since {at(each.since_ms)}, {until}. Known log ends: {ends}.",
            remedy=f"{_start(each.awaited)}{each.command} --dry-run shows who would lead now and what would be lost; "
            f"{each.command} does it.",
        )
    left = elections.count - min(len(elections.partitions), WAITS_SAID_MAX)
    if left > 0 and elections.partitions:
        yield Reason(
            code="waiting_election",
            summary=f"{left} more partitions wait for a leader.",
            remedy="kraft elections unclean --all --dry-run shows each of them and what an election now would lose.",
        )


def refused_reasons(elections: WaitingElections) -> Iterator[Reason]:
    """The reasons about broker processes that run without a valid registration."""
    for broker_id in elections.refused_brokers:
        yield Reason(
            code="broker_not_registered",
            summary=f"Broker {broker_id} runs without a valid registration: it was unregistered, or another "
            f"process registered as broker {broker_id}. It serves no clients.",
            remedy="Restart it: it registers again. If two processes have this node.id, stop the wrong one.",
        )


def replica_reasons(nodes: Sequence[NodeStatus]) -> Iterator[Reason]:
    """The reasons about damaged logs and about records that cannot be read."""
    for node in nodes:
        for each in node.waiting_replicas[:WAITS_SAID_MAX]:
            yield Reason(
                code="waiting_replica",
                summary=f"Node {node.node_id} waits with {each.topic}-{each.partition} since {at(each.since_ms)}, "
                f"without bound: {each.reason}. Offsets {each.start_offset} to {each.known_end_offset} (exclusive) "
                "are in doubt.",
                remedy="Bring back the other replicas: one that has these offsets leads. If there is none, run on node "
                f"{node.node_id}: {each.command} shows what would be lost; with --execute it gives that up.",
            )
        left = node.waiting_replicas_count - min(len(node.waiting_replicas), WAITS_SAID_MAX)
        if left > 0:
            yield Reason(
                code="waiting_replica",
                summary=f"{left} more replicas of node {node.node_id} have a damaged log and wait.",
                remedy=f"On node {node.node_id}, kraft storage damaged --data-dir DIR shows each of them.",
            )
    yield from _unreadable_reasons(nodes)


def _unreadable_reasons(nodes: Sequence[NodeStatus]) -> Iterator[Reason]:
    """The reasons about unreadable records. Each partition is listed once, with its nodes, since every replica may have
    the same bytes."""
    found: dict[tuple[str, int], list[int]] = {}
    logs: dict[tuple[str, int], UnreadableLog] = {}
    for node in nodes:
        for each in node.unreadable_logs:
            found.setdefault((each.topic, each.partition), []).append(node.node_id)
            logs.setdefault((each.topic, each.partition), each)
    for place, each in list(logs.items())[:WAITS_SAID_MAX]:
        ranges = ", ".join(f"{start} to {end}" for start, end in each.ranges)
        yield Reason(
            code="unreadable_records",
            summary=f"{each.topic}-{each.partition} has records that cannot be read (found by the cleaner on "
            f"{_nodes(found[place])} since {at(each.since_ms)}): offsets {ranges} (ends exclusive). Consumers stop "
            "there.",
            remedy=f"Set stopped consumers behind them, or delete them with everything before them: {each.command} "
            "(`kraft docs unreadable-records`).",
        )
    left = len(logs) - WAITS_SAID_MAX
    if left > 0:
        yield Reason(
            code="unreadable_records",
            summary=f"{left} more partitions have records that cannot be read.",
            remedy="GET /v1/cluster/health lists them under nodes.",
        )


def set_aside_reasons(nodes: Sequence[NodeStatus]) -> Iterator[Reason]:
    """The reasons about background work that failed unexpectedly."""
    remedy = (
        "This is a fault of kraft: the node's log has it as background_work_failed, with its trace; please report "
        "that. This ends when a later attempt at the item succeeds; a restart retries all items."
    )
    for node in nodes:
        for each in node.set_aside[:WAITS_SAID_MAX]:
            yield Reason(
                code="work_set_aside",
                summary=f"Node {node.node_id} has set {each.item} ({each.work}) aside since {at(each.since_ms)}: "
                f"{each.error}.",
                remedy=remedy,
            )
        left = node.set_aside_count - min(len(node.set_aside), WAITS_SAID_MAX)
        if left > 0:
            yield Reason(
                code="work_set_aside", summary=f"Node {node.node_id} has set {left} more items aside.", remedy=remedy
            )


def unmade_topic_reasons(nodes: Sequence[NodeStatus]) -> Iterator[Reason]:
    """The reasons about internal topics that cannot be created. Each topic is listed once, even if several nodes report
    it."""
    found = {each.topic: each for node in nodes for each in node.unmade_topics}
    for each in found.values():
        yield Reason(
            code="internal_topic_missing",
            summary=f"Clients wait for {each.topic} since {at(each.since_ms)}. It cannot be created: {each.reason}.",
            remedy="Start the brokers that it needs, or lower the number of copies: offsets.topic.replication.factor, "
            "transaction.state.log.replication.factor (with transaction.state.log.min.isr).",
        )


def late_member_warnings(nodes: Sequence[NodeStatus]) -> Iterator[Reason]:
    """The warnings about stuck or slow group members. They are a problem of an application: the cluster still counts as
    healthy."""
    late = [each for node in nodes for each in node.late_members]
    for each in late[:WAITS_SAID_MAX]:
        look = f"`kraft groups describe {each.group_id}` shows its partitions."
        yield Reason(
            code="group_member_slow" if each.pace == "slow" else "group_member_stuck",
            summary=f"Group {each.group_id}: {each.summary}",
            remedy=f"{look} Add members up to the number of partitions, or let each record take less time."
            if each.pace == "slow"
            else f"{look} Look at the log and the threads of that client: it sends heartbeats, so its process lives. A "
            "client that stores its offsets elsewhere looks the same (`kraft docs consumer-groups`).",
        )
    left = sum(node.late_members_count for node in nodes) - min(len(late), WAITS_SAID_MAX)
    if left > 0:
        yield Reason(
            code="group_member_stuck",
            summary=f"{left} more members of consumer groups are stuck or slow.",
            remedy="GET /v1/cluster/health lists them under nodes.",
        )


def at(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _replicas(ids: Sequence[int]) -> str:
    return f"replica{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids))}"


def _nodes(ids: Sequence[int]) -> str:
    return f"node{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids))}"


def _start(awaited: Sequence[int]) -> str:
    return f"Start {_nodes(awaited)}: that ends the wait without a loss. If that cannot be, " if awaited else ""
