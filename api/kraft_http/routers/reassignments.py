"""Moves of partitions between brokers: one at a time in v3's style, and many by Kafka's JSON file under /v1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from kraft.admin.moves import Outcome, alter_move, alter_moves, replica_offsets
from kraft.admin.topics import describe_topic, describe_topics
from kraft.admin.topics import list_topics as all_topics
from kraft.common.broker_state import ACTIVE
from kraft.common.ids import TopicPartition
from kraft.common.reassignment_plan import Place, PlanBroker, spread
from kraft.protocol.error_codes import ErrorCode
from kraft_http.asking import Kafka
from kraft_http.deps import Cluster, ClusterContext, PartitionIdPath, Port, TopicNamePath, Writable, whole
from kraft_http.errors import ApiProblem, documented
from kraft_http.models.common import Relationship, ResourceMetadata
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
)
from kraft_http.ports import ReassignmentFacts

router = APIRouter(tags=["Reassignments"])

V3 = "/v3/clusters/{cluster_id}/topics"


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
    """404 while it is not being moved, as in REST v3."""
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
    """Its replication factor may change with it."""
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
async def list_moves(port: Port) -> MoveList:
    moves = (await port.cluster_facts()).reassignments
    shown = moves[:LISTED_MAX]
    asked: dict[int, list[TopicPartition]] = {}
    for move in shown:
        for broker_id in (*([move.leader] if move.leader >= 0 else []), *move.adding):
            asked.setdefault(broker_id, []).append(TopicPartition(move.topic, move.partition))
    ends = await replica_offsets(Kafka(port), asked)
    return MoveList(count=len(moves), data=[_move_data(move, ends) for move in shown])


@router.post(
    "/v1/reassignments",
    summary="Begin moves, by the file of kafka-reassign-partitions.sh",
    response_model=Outcomes,
    dependencies=[Writable],
    responses=documented(400, 403) | {207: {"model": Outcomes, "description": "Some were refused."}},
)
async def start_moves(port: Port, body: ReassignmentFile) -> Response:
    targets = {TopicPartition(each.topic, each.partition): each.replicas for each in body.partitions}
    if len(targets) != len(body.partitions):
        raise ApiProblem(400, "The file names a partition twice.")
    if any(directory != "any" for each in body.partitions for directory in each.log_dirs or ()):
        raise ApiProblem(
            400,
            "log_dirs other than `any` cannot be had here: kafka-reassign-partitions.sh asks each broker for those.",
        )
    return outcomes_response(await alter_moves(Kafka(port), targets))


@router.post(
    "/v1/reassignments/cancel",
    summary="Cancel moves",
    response_model=Outcomes,
    dependencies=[Writable],
    responses=documented(400, 403) | {207: {"model": Outcomes, "description": "Some were refused."}},
)
async def cancel_moves(port: Port, body: CancelBody) -> Response:
    if body.partitions is None:
        places = [TopicPartition(move.topic, move.partition) for move in (await port.cluster_facts()).reassignments]
    else:
        places = [TopicPartition(each.topic, each.partition) for each in body.partitions]
    return outcomes_response(await alter_moves(Kafka(port), dict.fromkeys(places)) if places else [])


@router.post(
    "/v1/reassignments/plan",
    summary="Propose moves that spread topics evenly over brokers",
    responses=documented(400, 404),
)
async def plan_moves(port: Port, body: PlanBody) -> PlanData:
    """Changes nothing. As few replicas move as can be; racks are kept apart. Give `proposed` to POST
    /v1/reassignments."""
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
    kafka = Kafka(port)
    topics = (
        await all_topics(kafka)
        if body.topics is None
        else await describe_topics(kafka, sorted({each.topic for each in body.topics}))
    )
    current = {(topic.name, each.index): each.replicas for topic in topics for each in topic.partitions}
    plan = spread(current, [PlanBroker(broker.node_id, broker.rack) for broker in chosen])
    return PlanData(
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


def _move_data(move: ReassignmentFacts, ends: Mapping[tuple[int, TopicPartition], int]) -> MoveData:
    place = TopicPartition(move.topic, move.partition)
    leader_end = ends.get((move.leader, place))
    adding = []
    for broker_id in move.adding:
        end = ends.get((broker_id, place))
        lag = None if end is None or leader_end is None else max(0, leader_end - end)
        adding.append(
            AddingReplica(broker_id=broker_id, is_in_sync=broker_id in move.in_sync, log_end_offset=end, lag=lag)
        )
    return MoveData(
        topic_name=move.topic,
        partition_id=move.partition,
        replicas=list(move.replicas),
        adding=adding,
        removing=list(move.removing),
    )
