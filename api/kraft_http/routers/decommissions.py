"""The plan of a broker's decommissioning, before it starts."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from kraft.admin.copying import Copy, Sizes, Sums, sizes_of, sums
from kraft_http.models.common import INT64_MAX
from kraft_http.models.operations import LISTED_MAX, DecommissionPlan, PlannedArrivals
from kraft_http.node_transport import NodeTransport
from kraft_http.ports import LeavePlan
from kraft_http.requests.deps import BrokerIdPath, Port, unanswered
from kraft_http.requests.errors import documented, not_found

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
        Query(
            ge=1,
            le=INT64_MAX,
            description="Rate for the estimate: what a broker may send, or receive. It is not applied.",
        ),
    ] = None,
) -> DecommissionPlan:
    """Show the moves that a decommissioning would make. Nothing is changed. The controller chooses each target again
    when it moves the replica, so the actual targets may differ. Replicas that are already being moved are left out."""
    if all(broker.node_id != broker_id for broker in (await port.cluster_facts()).brokers):
        raise not_found(f"Broker {broker_id}")
    plan = await port.leave_plan(broker_id)
    kafka = NodeTransport(port)
    told = planned_data(broker_id, plan, await sizes_of(kafka, _copies(plan)), bytes_per_second)
    return told.model_copy(update={"unanswered_brokers": unanswered(kafka)})


def planned_data(broker_id: int, plan: LeavePlan, sizes: Sizes, bytes_per_second: int | None) -> DecommissionPlan:
    """The plan as totals."""
    told = sums(_copies(plan), sizes)
    return DecommissionPlan(
        broker_id=broker_id,
        replicas_count=len(plan.moves),
        size_bytes=told.bytes_left,
        unsized_count=told.unsized,
        arrivals=arrivals_data(told),
        blocked_count=len(plan.blocked),
        blocked=list(plan.blocked[:LISTED_MAX]),
        estimated_seconds=None if bytes_per_second is None else told.seconds_at(bytes_per_second),
        unanswered_brokers=[],
    )


def _copies(plan: LeavePlan) -> list[Copy]:
    return [Copy(partition, leader, target) for partition, target, leader in plan.moves]


def arrivals_data(told: Sums) -> list[PlannedArrivals]:
    return [
        PlannedArrivals(broker_id=target, replicas_count=count, size_bytes=size)
        for target, (count, size) in told.arrivals.items()
    ]
