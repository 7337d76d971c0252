"""Elections of leaders, and the records lost by unclean ones."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from kraft.admin.errors import Refused
from kraft.admin.moves import PREFERRED, UNCLEAN, elect_leaders
from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft_http.health.health_findings import WaitingElections
from kraft_http.models.operations import (
    REPORTS_MAX,
    ElectionBody,
    Outcomes,
    ReplicaLoss,
    UncleanElectionData,
    UncleanElectionList,
)
from kraft_http.node_transport import NodeTransport
from kraft_http.ports import UncleanElectionFacts
from kraft_http.records.record_codec import format_timestamp
from kraft_http.requests.deps import Port, Writable
from kraft_http.requests.errors import documented
from kraft_http.routers.reassignments import outcomes_response

router = APIRouter(tags=["Elections"])


@router.post(
    "/v1/elections",
    summary="Elect leaders",
    response_model=Outcomes,
    dependencies=[Writable],
    responses=documented(400, 403) | {207: {"model": Outcomes, "description": "Some were refused."}},
)
async def hold_elections(port: Port, body: ElectionBody) -> Response:
    """Hold elections. `preferred` makes each partition's first replica the leader again. `unclean` elects a replica
    that is not in sync if no other can lead: **records that it lacks are lost**."""
    named = None
    if body.partitions is not None:
        named = [TopicPartition(each.topic, each.partition) for each in body.partitions]
    kind = PREFERRED if body.type == "preferred" else UNCLEAN
    return outcomes_response(await elect_leaders(NodeTransport(port), kind, named))


@router.get("/v1/elections/unclean", summary="What unclean elections cost", responses=documented(400))
async def get_unclean_elections(
    port: Port, topic: Annotated[str | None, Query(max_length=249, description="Only this topic.")] = None
) -> UncleanElectionList:
    """List the latest unclean elections of each partition, with the records that each former replica lost when it
    returned. All nodes return the same: it is in the metadata log. Delete the topic's configs
    `kraft.unclean.election.*` to dismiss a report."""
    found = await port.unclean_elections(topic)
    return UncleanElectionList(count=len(found), data=[shown(each) for each in found[:REPORTS_MAX]])


@router.get(
    "/v1/elections/waiting",
    summary="Partitions without a leader: who is waited for, and what an election now would lose",
    responses=documented(400, 404, 503, 504),
)
async def get_waiting_elections(
    port: Port, topic: Annotated[str | None, Query(max_length=249, description="Only this topic.")] = None
) -> WaitingElections:
    """List the partitions that wait for an election, as the active controller knows them. `POST /v1/elections` with
    `unclean` ends a wait: the `candidate` then leads."""
    try:
        return await port.waiting_elections(topic)
    except ApiError as problem:
        raise Refused(problem.code, "", problem.message) from problem


def shown(facts: UncleanElectionFacts) -> UncleanElectionData:
    """One report in the form of the response."""
    report, election = facts.report, dict(facts.report.election)
    others = [replica for replica in election["replicas"] if replica != election["leader"]]
    return UncleanElectionData(
        topic_name=facts.topic,
        partition_id=report.partition,
        leader_epoch=report.leader_epoch,
        time=format_timestamp(election.pop("time_ms")),
        losses=[_loss(replica, facts) for replica in others],
        complete=all(replica in facts.gone for replica in report.outstanding),
        **election,
    )


def _loss(replica: int, facts: UncleanElectionFacts) -> ReplicaLoss:
    loss = facts.report.losses.get(replica)
    if loss is None:
        return ReplicaLoss(replica=replica, state="gone" if replica in facts.gone else "awaited")
    if loss.start_offset == loss.end_offset:
        return ReplicaLoss(
            replica=replica, state="nothing", leader_epoch=loss.leader_epoch, time=format_timestamp(loss.time_ms)
        )
    told = loss._asdict()
    return ReplicaLoss(replica=replica, state="lost", time=format_timestamp(told.pop("time_ms")), **told)
