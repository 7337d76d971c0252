"""From facts about a cluster to a verdict: is it healthy, what is wrong, and what to do about it. Pure."""

from __future__ import annotations

from pydantic import BaseModel, Field

from api.ports import ClusterFacts, PartitionFacts

LISTED_MAX = 100
"""How many partitions of a kind an answer names; the counts are always whole."""

DISK_FREE_SHARE_MIN = 0.05


class PartitionRef(BaseModel):
    topic: str
    partition: int
    leader: int = Field(description="-1 when nobody leads it.")
    replicas: list[int]
    in_sync: list[int]
    min_in_sync: int


class PartitionProblem(BaseModel):
    count: int
    partitions: list[PartitionRef] = Field(description=f"At most {LISTED_MAX} of them.")


class Reason(BaseModel):
    """One thing that is wrong."""

    code: str = Field(examples=["under_replicated_partitions"])
    summary: str
    remedy: str = Field(description="What to do.")


class ClusterHealth(BaseModel):
    is_healthy: bool
    reasons: list[Reason]
    controller_id: int = Field(description="The active controller; -1 when there is none.")
    controller_epoch: int
    quorum_voters: list[int]
    brokers: list[int]
    nodes_down: list[int] = Field(description="Registered brokers that are fenced.")
    topics_count: int
    partitions_count: int
    leaderless: PartitionProblem
    under_replicated: PartitionProblem
    under_min_isr: PartitionProblem
    offline_log_dirs: list[str] = Field(description="Of the node that answers.")
    disk_free_bytes: int | None
    disk_total_bytes: int | None
    metadata_offset: int


def judge(facts: ClusterFacts) -> ClusterHealth:
    """The verdict. A broker that is shutting down on purpose is not down."""
    leaderless = [partition for partition in facts.impaired if partition.leader < 0]
    under_replicated = [partition for partition in facts.impaired if partition.leader >= 0 and len(partition.in_sync) < len(partition.replicas)]
    under_min_isr = [partition for partition in facts.impaired if len(partition.in_sync) < partition.min_in_sync]
    down = [broker.node_id for broker in facts.brokers if broker.fenced and not broker.shutting_down]
    reasons = [
        *_controller_reasons(facts),
        *_broker_reasons(down),
        *_partition_reasons(leaderless, under_min_isr, under_replicated),
        *_disk_reasons(facts),
    ]
    return ClusterHealth(
        is_healthy=not reasons,
        reasons=reasons,
        controller_id=facts.controller_id,
        controller_epoch=facts.controller_epoch,
        quorum_voters=list(facts.voters),
        brokers=[broker.node_id for broker in facts.brokers],
        nodes_down=down,
        topics_count=facts.topics_count,
        partitions_count=facts.partitions_count,
        leaderless=_listed(leaderless),
        under_replicated=_listed(under_replicated),
        under_min_isr=_listed(under_min_isr),
        offline_log_dirs=list(facts.offline_log_dirs),
        disk_free_bytes=facts.disk_free_bytes,
        disk_total_bytes=facts.disk_total_bytes,
        metadata_offset=facts.metadata_offset,
    )


def _controller_reasons(facts: ClusterFacts) -> list[Reason]:
    if facts.controller_id >= 0:
        return []
    remedy = f"A majority of the controllers {_names(facts.voters)} must be up and reach one another: start those that are down, or look at the network."
    return [Reason(code="no_controller", summary="There is no active controller: metadata cannot change and no leader can be elected.", remedy=remedy)]


def _broker_reasons(down: list[int]) -> list[Reason]:
    if not down:
        return []
    remedy = "Start them again, or unregister those that will not come back. The last line of a node's log says why it ended."
    summary = f"Broker {_names(down)} is down." if len(down) == 1 else f"Brokers {_names(down)} are down."
    return [Reason(code="brokers_down", summary=summary, remedy=remedy)]


def _partition_reasons(leaderless: list[PartitionFacts], under_min_isr: list[PartitionFacts], under_replicated: list[PartitionFacts]) -> list[Reason]:
    reasons = []
    if leaderless:
        remedy = "Start a broker that has them in sync. If all of those are lost for good, an unclean election brings them back and may lose records."
        reasons.append(Reason(code="leaderless_partitions", summary=f"{_count(leaderless)} without a leader: nothing can be read or written.", remedy=remedy))
    if under_min_isr:
        remedy = "Start the brokers that are down. Lowering min.insync.replicas lets writes through and makes them less safe."
        summary = f"{_count(under_min_isr)} below min.insync.replicas: writes with acks=all are refused."
        reasons.append(Reason(code="under_min_isr_partitions", summary=summary, remedy=remedy))
    if under_replicated:
        remedy = "Start the brokers that are down. If all are up, the followers cannot keep pace: look at their disks and network."
        summary = f"{_count(under_replicated)} with fewer in-sync replicas than replicas."
        reasons.append(Reason(code="under_replicated_partitions", summary=summary, remedy=remedy))
    return reasons


def _disk_reasons(facts: ClusterFacts) -> list[Reason]:
    reasons = []
    if facts.offline_log_dirs:
        summary = f"This node cannot use {', '.join(facts.offline_log_dirs)}."
        remedy = "Look at the disk, then restart the node: a directory that failed is not used again before that."
        reasons.append(Reason(code="offline_log_dirs", summary=summary, remedy=remedy))
    free, total = facts.disk_free_bytes, facts.disk_total_bytes
    if free is not None and total and free < total * DISK_FREE_SHARE_MIN:
        summary = f"This node's disk has {free / total:.1%} left ({free // 2**20} MiB)."
        remedy = "Make room, or shorten the retention of large topics. When nothing is left, writes are refused until there is room again."
        reasons.append(Reason(code="disk_almost_full", summary=summary, remedy=remedy))
    return reasons


def _count(partitions: list[PartitionFacts]) -> str:
    return "1 partition" if len(partitions) == 1 else f"{len(partitions)} partitions"


def _names(ids: tuple[int, ...] | list[int]) -> str:
    return ", ".join(map(str, ids))


def _listed(partitions: list[PartitionFacts]) -> PartitionProblem:
    shown = [
        PartitionRef(
            topic=partition.topic,
            partition=partition.partition,
            leader=partition.leader,
            replicas=list(partition.replicas),
            in_sync=list(partition.in_sync),
            min_in_sync=partition.min_in_sync,
        )
        for partition in partitions[:LISTED_MAX]
    ]
    return PartitionProblem(count=len(partitions), partitions=shown)
