"""What the decommissioning of a broker would do, before it begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Query

from kraft.admin.cluster import LogDirectory, describe_log_dirs
from kraft.common.ids import TopicPartition
from kraft_http.asking import Kafka
from kraft_http.deps import BrokerIdPath, Port, unanswered
from kraft_http.errors import documented, not_found
from kraft_http.models.common import INT64_MAX
from kraft_http.models.operations import LISTED_MAX, DecommissionPlan, PlannedArrivals
from kraft_http.ports import LeavePlan

router = APIRouter(tags=["Brokers"])


@router.get(
    "/v1/brokers/{broker_id}/decommission/plan",
    summary="What a decommissioning would do",
    responses=documented(404),
)
async def plan_decommission(
    port: Port,
    broker_id: BrokerIdPath,
    bytes_per_second: Annotated[
        int | None,
        Query(ge=1, le=INT64_MAX, description="For the estimate: what a broker may send, or take. It is not set."),
    ] = None,
) -> DecommissionPlan:
    """Changes nothing. The controller decides anew for each replica, by the load of that moment, so targets may be
    others in the end. Replicas that are on their way already are left out."""
    if all(broker.node_id != broker_id for broker in (await port.cluster_facts()).brokers):
        raise not_found(f"Broker {broker_id}")
    plan = await port.leave_plan(broker_id)
    kafka = Kafka(port)

    async def directories(leader: int) -> tuple[int, list[LogDirectory]]:
        return leader, await describe_log_dirs(kafka, leader)

    leaders = sorted({leader for _, _, leader in plan.moves if leader >= 0})
    sizes = {
        (leader, replica.partition): replica.size_bytes
        for leader, found in await kafka.ask_brokers(directories, leaders)
        for directory in found
        for replica in directory.replicas
        if not replica.is_future
    }
    told = planned_data(broker_id, plan, sizes, bytes_per_second)
    return told.model_copy(update={"unanswered_brokers": unanswered(kafka)})


def planned_data(
    broker_id: int, plan: LeavePlan, sizes: Mapping[tuple[int, TopicPartition], int], bytes_per_second: int | None
) -> DecommissionPlan:
    """The plan in sums. `sizes` are of replicas, by broker and partition."""
    sent: dict[int, int] = {}
    taken: dict[int, int] = {}
    counts: dict[int, int] = {}
    unsized = 0
    for partition, target, leader in plan.moves:
        size = sizes.get((leader, partition))
        unsized += size is None
        counts[target] = counts.get(target, 0) + 1
        sent[leader] = sent.get(leader, 0) + (size or 0)
        taken[target] = taken.get(target, 0) + (size or 0)
    most = max((*sent.values(), *taken.values()), default=0)
    return DecommissionPlan(
        broker_id=broker_id,
        replicas_count=len(plan.moves),
        size_bytes=sum(taken.values()),
        unsized_count=unsized,
        arrivals=[
            PlannedArrivals(broker_id=target, replicas_count=count, size_bytes=taken[target])
            for target, count in sorted(counts.items())
        ],
        blocked_count=len(plan.blocked),
        blocked=list(plan.blocked[:LISTED_MAX]),
        estimated_seconds=None if bytes_per_second is None or unsized else most / bytes_per_second,
        unanswered_brokers=[],
    )
