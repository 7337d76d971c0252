"""Moves of partitions between brokers: single ones in REST v3's form, and many with Kafka's JSON file under /v1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse

from kraft.admin.copying import Copy, CopyRate, Sizes, Sums, bytes_left, sizes_of, sums
from kraft.admin.move_troubles import move_facts, troubles
from kraft.admin.moves import Outcome, alter_move, replica_offsets
from kraft.admin.reassignment_plan import Place, PlanBroker, spread
from kraft.admin.throttles import (
    Throttle,
    begin_moves,
    cancel_moves,
    remove_throttle,
    throttle_moves,
    visible_throttle,
)
from kraft.admin.topics import describe_topic, describe_topics
from kraft.admin.topics import list_topics as all_topics
from kraft.common.broker_state import ACTIVE
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft_http.models.common import INT64_MAX, Relationship, ResourceMetadata
from kraft_http.models.operations import (
    LISTED_MAX,
    AddingReplica,
    CancelBody,
    MoveData,
    MoveList,
    Outcomes,
    PartitionOutcome,
    PlanBody,
    PlanData,
    ReassignedPartition,
    ReassignmentData,
    ReassignmentDataList,
    ReassignmentFile,
    StartReassignmentBody,
    ThrottleBody,
    ThrottleData,
    ThrottledBroker,
)
from kraft_http.node_transport import NodeTransport
from kraft_http.ports import ClusterFacts, ReassignmentFacts
from kraft_http.requests.deps import (
    Cluster,
    ClusterContext,
    PartitionIdPath,
    Port,
    TopicNamePath,
    Writable,
    unanswered,
    whole,
)
from kraft_http.requests.errors import ApiProblem, documented
from kraft_http.requests.response_cache import loop_seconds
from kraft_http.routers.decommissions import arrivals_data

router = APIRouter(tags=["Reassignments"])

V3 = "/v3/clusters/{cluster_id}/topics"

_DETAILS: Final = {
    "idle": "Nothing is being moved.",
    "moving": "Replicas are being moved.",
    "remove_throttle": "Finished, and a throttle is still set: remove it.",
}


async def copy_rate(request: Request) -> CopyRate:
    rate: CopyRate = request.app.state.copy_rate
    return rate


Rate = Annotated[CopyRate, Depends(copy_rate)]


@router.get(f"{V3}/-/partitions/-/reassignment", summary="List the moves under way", responses=documented(404))
async def list_all_reassignments(cluster: Cluster, port: Port) -> ReassignmentDataList:
    return _listed(cluster, (await port.cluster_facts()).reassignments)


@router.get(
    V3 + "/{topic_name}/partitions/-/reassignment", summary="List the moves of a topic", responses=documented(404)
)
async def list_topic_reassignments(cluster: Cluster, port: Port, topic_name: TopicNamePath) -> ReassignmentDataList:
    await describe_topic(cluster.kafka, topic_name)
    return _listed(cluster, [move for move in (await port.cluster_facts()).reassignments if move.topic == topic_name])


@router.get(
    V3 + "/{topic_name}/partitions/{partition_id}/reassignment",
    summary="The move of a partition",
    responses=documented(404),
)
async def get_reassignment(
    cluster: Cluster, port: Port, topic_name: TopicNamePath, partition_id: PartitionIdPath
) -> ReassignmentData:
    """Return a partition's reassignment; 404 if it is not being reassigned, as in REST v3."""
    (await describe_topic(cluster.kafka, topic_name)).partition(partition_id)  # Raises.
    for move in (await port.cluster_facts()).reassignments:
        if (move.topic, move.partition) == (topic_name, partition_id):
            return _data(cluster, move.topic, move.partition, move.adding, move.removing)
    raise ApiProblem(
        404, f"{topic_name}-{partition_id} is not being moved.", hint="PUT here with replica_ids moves it."
    )


@router.put(
    V3 + "/{topic_name}/partitions/{partition_id}/reassignment",
    status_code=202,
    summary="Move a partition",
    dependencies=[Writable],
    responses=documented(400, 403, 404),
)
async def put_reassignment(
    cluster: Cluster, topic_name: TopicNamePath, partition_id: PartitionIdPath, body: StartReassignmentBody
) -> ReassignmentData:
    """Reassign a partition. Its replication factor may change."""
    current = (await describe_topic(cluster.kafka, topic_name)).partition(partition_id).replicas
    await alter_move(cluster.kafka, TopicPartition(topic_name, partition_id), body.replica_ids)
    adding = [replica for replica in body.replica_ids if replica not in current]
    return _data(
        cluster, topic_name, partition_id, adding, [replica for replica in current if replica not in body.replica_ids]
    )


@router.delete(
    V3 + "/{topic_name}/partitions/{partition_id}/reassignment",
    status_code=204,
    summary="Cancel the move of a partition",
    dependencies=[Writable],
    responses=documented(400, 403, 404),
)
async def delete_reassignment(cluster: Cluster, topic_name: TopicNamePath, partition_id: PartitionIdPath) -> Response:
    await alter_move(cluster.kafka, TopicPartition(topic_name, partition_id), None)
    return Response(status_code=204)


@router.get("/v1/reassignments", summary="Moves under way, and how far they are", responses=documented(503))
async def list_moves(port: Port, rate: Rate) -> MoveList:
    facts = await port.cluster_facts()
    moves, shown = facts.reassignments, facts.reassignments[:LISTED_MAX]
    kafka = NodeTransport(port)
    asked: dict[int, list[TopicPartition]] = {}
    for move in shown:
        for broker_id in (*([move.leader] if move.leader >= 0 else []), *move.adding):
            asked.setdefault(broker_id, []).append(TopicPartition(move.topic, move.partition))
    ends = await replica_offsets(kafka, asked)
    copies = [
        Copy(TopicPartition(move.topic, move.partition), move.leader, target)
        for move in moves
        for target in move.adding
    ]
    sizes = await sizes_of(kafka, copies)
    copied = {key: sizes[key] for key in ((copy.target, copy.partition) for copy in copies) if key in sizes}
    throttle = await visible_throttle(kafka)
    facts_of_moves = await move_facts(kafka, copies, ends, sizes, throttle) if copies else None
    stuck = {} if facts_of_moves is None else troubles(_shown(copies, shown), facts_of_moves)
    told, measured = sums(copies, sizes), rate.look(loop_seconds(), copied)
    phase = _phase(facts, throttle)
    return MoveList(
        phase=phase,
        detail=_DETAILS[phase],
        count=len(moves),
        data=[_move_data(move, ends, sizes, stuck) for move in shown],
        bytes_left=told.bytes_left,
        unsized_count=told.unsized,
        bytes_per_second=measured,
        remaining_seconds=_remaining_seconds(told, measured, throttle),
        throttle=_throttle_data(throttle),
        unanswered_brokers=unanswered(kafka),
    )


def _shown(copies: Sequence[Copy], moves: Sequence[ReassignmentFacts]) -> list[Copy]:
    """The copies of these moves that are not in sync yet."""
    in_sync = {TopicPartition(move.topic, move.partition): move.in_sync for move in moves}
    return [copy for copy in copies if copy.target not in in_sync.get(copy.partition, (copy.target,))]


def _phase(facts: ClusterFacts, throttle: Throttle | None) -> Literal["idle", "moving", "remove_throttle"]:
    if facts.reassignments or any(
        broker.draining is not None and broker.replicas > len(broker.draining.blocked) for broker in facts.brokers
    ):
        return "moving"
    return "remove_throttle" if throttle is not None and throttle.is_set else "idle"


def _remaining_seconds(told: Sums, measured: float | None, throttle: Throttle | None) -> float | None:
    if told.unsized:
        return None
    if not told.bytes_left:
        return 0.0
    if measured:
        return told.bytes_left / measured
    return told.seconds_at(min(throttle.rates.values())) if throttle is not None and throttle.is_set else None


def _throttle_data(throttle: Throttle | None) -> ThrottleData | None:
    if throttle is None or not throttle.is_set:
        return None
    return ThrottleData(
        brokers=[
            ThrottledBroker(broker_id=broker_id, bytes_per_second=rate) for broker_id, rate in throttle.rates.items()
        ],
        topics_count=len(throttle.topics),
        topics=list(throttle.topics[:LISTED_MAX]),
    )


@router.post(
    "/v1/reassignments",
    summary="Begin moves, by the file of kafka-reassign-partitions.sh",
    response_model=Outcomes,
    dependencies=[Writable],
    responses=documented(400, 403) | {207: {"model": Outcomes, "description": "Some were refused."}},
)
async def start_moves(
    port: Port,
    body: ReassignmentFile,
    bytes_per_second: Annotated[
        int | None,
        Query(
            ge=1,
            le=INT64_MAX,
            description="Throttle: what each broker may send, and what it may receive. Default: no change.",
        ),
    ] = None,
) -> Response:
    """Start moves. The throttle is not removed at the end: GET shows it, and DELETE /v1/reassignments/throttle removes
    it."""
    targets = {TopicPartition(each.topic, each.partition): each.replicas for each in body.partitions}
    if len(targets) != len(body.partitions):
        raise ApiProblem(400, "The file names a partition twice.")
    if any(directory != "any" for each in body.partitions for directory in each.log_dirs or ()):
        raise ApiProblem(
            400,
            "log_dirs other than `any` are not supported here: use kafka-reassign-partitions.sh for them.",
        )
    return outcomes_response(await begin_moves(NodeTransport(port), targets, bytes_per_second))


@router.post(
    "/v1/reassignments/cancel",
    summary="Cancel moves",
    response_model=Outcomes,
    dependencies=[Writable],
    responses=documented(400, 403) | {207: {"model": Outcomes, "description": "Some were refused."}},
)
async def cancel(port: Port, body: CancelBody) -> Response:
    """Cancel moves: partitions get back their former replicas. For a broker that is being decommissioned, the moves
    start again: DELETE /v1/brokers/{id}/decommission ends that."""
    places = (
        None if body.partitions is None else [TopicPartition(each.topic, each.partition) for each in body.partitions]
    )
    return outcomes_response(await cancel_moves(NodeTransport(port), places, keep_throttle=body.keep_throttle))


@router.put(
    "/v1/reassignments/throttle",
    status_code=204,
    summary="Hold the moves under way to a rate",
    dependencies=[Writable],
    responses=documented(400, 403),
)
async def put_throttle(port: Port, body: ThrottleBody) -> Response:
    """Set or change the throttle of moves. It also applies to moves that decommissionings have yet to start."""
    await throttle_moves(NodeTransport(port), body.bytes_per_second)
    return Response(status_code=204)


@router.delete(
    "/v1/reassignments/throttle",
    status_code=204,
    summary="Remove the throttle of moves",
    dependencies=[Writable],
    responses=documented(403, 409),
)
async def delete_throttle(
    port: Port,
    while_moving: Annotated[
        bool, Query(description="Remove it even while moves are in progress. They continue without a limit.")
    ] = False,
) -> Response:
    """Remove the rates of all brokers and the lists of throttled replicas of all topics, also those set by other
    tools. The cluster-wide default rates stay."""
    if not while_moving and _phase(await port.cluster_facts(), None) == "moving":
        raise ApiProblem(
            409,
            "Partitions are being moved.",
            hint="while_moving=true removes the throttle anyway: the replicas are then copied at full speed.",
        )
    await remove_throttle(NodeTransport(port))
    return Response(status_code=204)


@router.post(
    "/v1/reassignments/plan",
    summary="Propose moves that spread topics evenly over brokers",
    responses=documented(400, 404),
)
async def plan_moves(port: Port, body: PlanBody) -> PlanData:
    """Propose moves. Nothing is changed. As few replicas move as possible, and replicas are spread over racks. Send
    `proposed` to POST /v1/reassignments."""
    facts = await port.cluster_facts()
    known = {broker.node_id: broker for broker in facts.brokers}
    if body.brokers is None:
        chosen = [broker for broker in facts.brokers if not broker.fenced and broker.desired_state == ACTIVE]
    else:
        unknown = [broker_id for broker_id in body.brokers if broker_id not in known]
        if unknown:
            raise ApiProblem(400, f"There is no broker {', '.join(map(str, unknown))}.")
        chosen = [known[broker_id] for broker_id in dict.fromkeys(body.brokers)]
    if not chosen:
        raise ApiProblem(400, "There is no broker to plan for.")
    kafka = NodeTransport(port)
    topics = (
        await all_topics(kafka)
        if body.topics is None
        else await describe_topics(kafka, sorted({each.topic for each in body.topics}))
    )
    partitions = {(topic.name, each.index): each for topic in topics for each in topic.partitions}
    current = {place: each.replicas for place, each in partitions.items()}
    plan = spread(current, [PlanBroker(broker.node_id, broker.rack) for broker in chosen])
    copies = [
        Copy(TopicPartition(*place), partitions[place].leader, target)
        for place, replicas in plan.moves.items()
        for target in replicas
        if target not in current[place]
    ]
    told = sums(copies, await sizes_of(kafka, copies))
    return PlanData(
        replicas_count=len(copies),
        size_bytes=told.bytes_left,
        unsized_count=told.unsized,
        arrivals=arrivals_data(told),
        estimated_seconds=None if body.bytes_per_second is None else told.seconds_at(body.bytes_per_second),
        unanswered_brokers=unanswered(kafka),
        proposed=_file(plan.moves),
        current=_file({place: current[place] for place in plan.moves}),
        impossible=[f"{topic}-{partition}" for topic, partition in plan.impossible],
    )


def _file(moves: Mapping[Place, Sequence[int]]) -> ReassignmentFile:
    listed = [
        ReassignedPartition(topic=topic, partition=index, replicas=list(replicas))
        for (topic, index), replicas in moves.items()
    ]
    return ReassignmentFile(partitions=listed)


def outcomes_response(outcomes: Sequence[Outcome]) -> Response:
    data = [
        PartitionOutcome(
            topic_name=each.partition.topic,
            partition_id=each.partition.partition,
            ok=not each.code,
            error=each.error or None,
            detail=each.sentence or None,
        )
        for each in outcomes
    ]
    ok = all(each.code == ErrorCode.NONE for each in outcomes)
    return JSONResponse(Outcomes(ok=ok, data=data).model_dump(), 200 if ok else 207)


def _listed(cluster: ClusterContext, moves: Sequence[ReassignmentFacts]) -> ReassignmentDataList:
    data = [_data(cluster, move.topic, move.partition, move.adding, move.removing) for move in moves]
    return ReassignmentDataList(kind="KafkaReassignmentList", metadata=whole(cluster.url), data=data)


def _data(
    cluster: ClusterContext, topic: str, partition: int, adding: Sequence[int], removing: Sequence[int]
) -> ReassignmentData:
    here = ("topics", topic, "partitions", partition)
    return ReassignmentData(
        kind="KafkaReassignment",
        metadata=ResourceMetadata(
            self=cluster.links.to(*here, "reassignment"),
            resource_name=cluster.links.name(f"topic={topic}", f"partition={partition}", "reassignment"),
        ),
        cluster_id=cluster.cluster_id,
        topic_name=topic,
        partition_id=partition,
        adding_replicas=list(adding),
        removing_replicas=list(removing),
        replicas=Relationship(related=cluster.links.to(*here, "replicas")),
    )


def _move_data(
    move: ReassignmentFacts,
    ends: Mapping[tuple[int, TopicPartition], int],
    sizes: Sizes,
    stuck: Mapping[TopicPartition, list[str]],
) -> MoveData:
    place = TopicPartition(move.topic, move.partition)
    leader_end = ends.get((move.leader, place))
    adding = []
    for broker_id in move.adding:
        end = ends.get((broker_id, place))
        lag = None if end is None or leader_end is None else max(0, leader_end - end)
        adding.append(
            AddingReplica(
                broker_id=broker_id,
                is_in_sync=broker_id in move.in_sync,
                log_end_offset=end,
                lag=lag,
                size_bytes=sizes.get((broker_id, place)),
                bytes_left=bytes_left(Copy(place, move.leader, broker_id), sizes),
            )
        )
    return MoveData(
        topic_name=move.topic,
        partition_id=move.partition,
        replicas=list(move.replicas),
        adding=adding,
        removing=list(move.removing),
        size_bytes=sizes.get((move.leader, place)),
        troubles=stuck.get(place, []),
    )
