"""Operators' control of brokers: their state, maintenance, decommissioning, log directories."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from kraft.admin.cluster import LogDirectory, describe_log_dirs
from kraft.admin.members import unregister_broker as unregister
from kraft.admin.members import want_state
from kraft.admin.throttles import cancel_departure, throttle_departure
from kraft.admin.topics import describe_topic
from kraft.common.broker_state import DECOMMISSION, FENCED, MAINTENANCE
from kraft.protocol.error_codes import message_of
from kraft_http.models.common import Relationship, ResourceMetadata
from kraft_http.models.operations import (
    LISTED_MAX,
    BrokerRemovalData,
    BrokerStateData,
    BrokerStateList,
    DecommissionBody,
    DrainData,
    LogDirData,
    LogDirList,
    LogDirReplica,
)
from kraft_http.node_transport import NodeTransport
from kraft_http.ports import AdminPort, BrokerFacts, DrainFacts
from kraft_http.requests.deps import BrokerIdPath, Cluster, Port, Writable
from kraft_http.requests.errors import ApiProblem, documented, not_found

router = APIRouter(tags=["Brokers"])

_WISHES = {DECOMMISSION: "being decommissioned", FENCED: "kept fenced"}


@router.get("/v1/brokers", summary="List brokers with their states")
async def list_broker_states(port: Port) -> BrokerStateList:
    return BrokerStateList(data=[_state(broker) for broker in (await port.cluster_facts()).brokers])


@router.get("/v1/brokers/{broker_id}", summary="A broker's state", responses=documented(404))
async def get_broker_state(port: Port, broker_id: BrokerIdPath) -> BrokerStateData:
    return _state(await _find(port, broker_id))


@router.put(
    "/v1/brokers/{broker_id}/maintenance",
    summary="Begin maintenance: leaders move off and stay away",
    dependencies=[Writable],
    responses=documented(403, 404, 409),
)
async def begin_maintenance(port: Port, broker_id: BrokerIdPath) -> BrokerStateData:
    """Move leadership away from a broker. Its replicas stay in sync. It keeps leading partitions that no other in-sync
    replica can lead."""
    desired = (await _find(port, broker_id)).desired_state
    if desired in (DECOMMISSION, FENCED):
        raise ApiProblem(
            409,
            f"Broker {broker_id} is {_WISHES[desired]}.",
            hint=f"End that first: DELETE /v1/brokers/{{id}}/{desired.removesuffix('d')}.",
        )
    return await _want(port, broker_id, MAINTENANCE)


@router.delete(
    "/v1/brokers/{broker_id}/maintenance",
    summary="End maintenance",
    dependencies=[Writable],
    responses=documented(403, 404, 409),
)
async def end_maintenance(port: Port, broker_id: BrokerIdPath) -> BrokerStateData:
    """End a broker's maintenance. It leads again after the next balance of preferred leaders, or immediately after POST
    /v1/elections."""
    desired = (await _find(port, broker_id)).desired_state
    if desired in (DECOMMISSION, FENCED):
        raise ApiProblem(409, f"Broker {broker_id} is {_WISHES[desired]}, not in maintenance.")
    return await _want(port, broker_id, None)


@router.put(
    "/v1/brokers/{broker_id}/fence",
    summary="Fence a broker: it leads nothing and serves nobody",
    dependencies=[Writable],
    responses=documented(403, 404, 409),
)
async def fence(port: Port, broker_id: BrokerIdPath) -> BrokerStateData:
    """Keep a broker fenced: it leaves every in-sync set although its process runs. Its replicas stay where they are.
    Partitions that no other in-sync replica can lead have no leader until it returns: no policy elects a replica that
    may lack records meanwhile."""
    if (await _find(port, broker_id)).desired_state == DECOMMISSION:
        raise ApiProblem(
            409,
            f"Broker {broker_id} is being decommissioned.",
            hint="End that first: DELETE /v1/brokers/{id}/decommission.",
        )
    return await _want(port, broker_id, FENCED)


@router.delete(
    "/v1/brokers/{broker_id}/fence",
    summary="Let a fenced broker serve again",
    dependencies=[Writable],
    responses=documented(403, 404, 409),
)
async def end_fence(port: Port, broker_id: BrokerIdPath) -> BrokerStateData:
    """Stop keeping a broker fenced. It is unfenced with its next heartbeat if its process runs."""
    if (await _find(port, broker_id)).desired_state != FENCED:
        raise ApiProblem(409, f"Broker {broker_id} is not kept fenced by an operator.")
    return await _want(port, broker_id, None)


@router.get("/v1/brokers/{broker_id}/decommission", summary="How far a decommissioning is", responses=documented(404))
async def get_decommission(port: Port, broker_id: BrokerIdPath) -> DrainData:
    drain = _state(await _find(port, broker_id)).decommission
    if drain is None:
        raise ApiProblem(404, f"Broker {broker_id} is not being decommissioned.")
    return drain


@router.put(
    "/v1/brokers/{broker_id}/decommission",
    status_code=202,
    summary="Begin decommissioning: replicas move to other brokers",
    dependencies=[Writable],
    responses=documented(403, 404),
)
async def begin_decommission(
    port: Port, broker_id: BrokerIdPath, response: Response, body: DecommissionBody | None = None
) -> BrokerStateData:
    """Move all replicas away from a broker, which may already be down. It is unregistered when it holds none and has
    been stopped. `decommission` shows what blocks it. A throttle is not removed at the end: see GET /v1/reassignments.
    """
    await _find(port, broker_id)
    if body is not None and body.bytes_per_second is not None:
        await throttle_departure(NodeTransport(port), broker_id, body.bytes_per_second)
    response.headers["Location"] = f"/v1/brokers/{broker_id}/decommission"
    await want_state(NodeTransport(port), broker_id, DECOMMISSION)
    broker = await _find(port, broker_id)
    if broker.draining is None:  # This node's image is behind the controller's.
        plan = await port.leave_plan(broker_id)
        broker = replace(broker, draining=DrainFacts(moving=0, blocked=plan.blocked))
    return _state(broker).model_copy(update={"desired_state": DECOMMISSION})


@router.delete(
    "/v1/brokers/{broker_id}/decommission",
    summary="Keep the broker after all",
    dependencies=[Writable],
    responses=documented(403, 404, 409),
)
async def end_decommission(
    port: Port,
    broker_id: BrokerIdPath,
    cancel_moves: Annotated[
        bool,
        Query(
            description=(
                "Also cancel the moves in progress from this broker: these partitions get their former replicas "
                "back. The throttle is removed with the last move. Default: the moves continue."
            )
        ),
    ] = False,
) -> BrokerStateData:
    """Cancel a decommissioning. Replicas that have moved stay where they are."""
    if (await _find(port, broker_id)).desired_state != DECOMMISSION:
        raise ApiProblem(409, f"Broker {broker_id} is not being decommissioned.")
    if cancel_moves:
        await cancel_departure(NodeTransport(port), broker_id)
        kept = {"desired_state": "active", "decommission": None}
        return _state(await _find(port, broker_id)).model_copy(update=kept)
    return await _want(port, broker_id, None)


@router.delete(
    "/v1/brokers/{broker_id}",
    status_code=204,
    summary="Unregister a broker that is down",
    dependencies=[Writable],
    responses=documented(403, 404, 409),
)
async def unregister_broker(
    port: Port,
    broker_id: BrokerIdPath,
    force: Annotated[
        bool,
        Query(description="Unregister it even if replicas are assigned to it. They stay missing until they are moved."),
    ] = False,
) -> Response:
    broker = await _find(port, broker_id)
    if not broker.fenced:
        raise ApiProblem(
            409, f"Broker {broker_id} is running: it would register again.", hint="Stop it first, or decommission it."
        )
    if broker.replicas and not force:
        detail = f"Broker {broker_id} holds {broker.replicas} replicas."
        raise ApiProblem(
            409,
            detail,
            hint=(
                "PUT /v1/brokers/{id}/decommission moves them to other brokers first; force=true unregisters it anyway."
            ),
        )
    await unregister(NodeTransport(port), broker_id)
    return Response(status_code=204)


@router.delete(
    "/v3/clusters/{cluster_id}/brokers/{broker_id}",
    status_code=202,
    summary="Remove a broker",
    dependencies=[Writable],
    responses=documented(403, 404),
)
async def remove_broker(cluster: Cluster, port: Port, broker_id: BrokerIdPath, response: Response) -> BrokerRemovalData:
    """Start a decommissioning."""
    await _find(port, broker_id)
    await want_state(cluster.kafka, broker_id, DECOMMISSION)
    task = f"{cluster.links.base_url}/v1/brokers/{broker_id}/decommission"
    response.headers["Location"] = task
    return BrokerRemovalData(
        kind="KafkaBrokerRemoval",
        metadata=ResourceMetadata(
            self=cluster.links.to("brokers", broker_id), resource_name=cluster.links.name(f"broker={broker_id}")
        ),
        cluster_id=cluster.cluster_id,
        broker_id=broker_id,
        broker=Relationship(related=cluster.links.to("brokers", broker_id)),
        broker_task=Relationship(related=task),
    )


@router.get(
    "/v1/brokers/{broker_id}/log-dirs",
    summary="A broker's log directories and the replicas in them",
    responses=documented(404, 503),
)
async def get_log_dirs(
    port: Port,
    broker_id: BrokerIdPath,
    topic: Annotated[str | None, Query(description="Only replicas of this topic.")] = None,
    replicas: Annotated[bool, Query(description="Whether replicas are listed, or only their sum is returned.")] = True,
) -> LogDirList:
    await _find(port, broker_id)
    kafka = NodeTransport(port)
    asked = None
    if topic is not None:
        partitions = (await describe_topic(kafka, topic)).partitions
        asked = (topic, [partition.index for partition in partitions])
    sizes = None if replicas or topic is not None else await port.log_dir_sizes(broker_id)
    if sizes is not None:
        told = await describe_log_dirs(kafka, broker_id, with_replicas=False)
        data = [_log_dir(each).model_copy(update={"size_bytes": sizes.get(each.path, 0)}) for each in told]
        return LogDirList(broker_id=broker_id, data=data)
    data = [_log_dir(directory) for directory in await describe_log_dirs(kafka, broker_id, asked)]
    if not replicas:
        data = [each.model_copy(update={"replicas": []}) for each in data]
    return LogDirList(broker_id=broker_id, data=data)


async def _find(port: AdminPort, broker_id: int) -> BrokerFacts:
    for broker in (await port.cluster_facts()).brokers:
        if broker.node_id == broker_id:
            return broker
    raise not_found(f"Broker {broker_id}")


async def _want(port: AdminPort, broker_id: int, state: str | None) -> BrokerStateData:
    await want_state(NodeTransport(port), broker_id, state)
    return _state(await _find(port, broker_id)).model_copy(update={"desired_state": state or "active"})


def _state(broker: BrokerFacts) -> BrokerStateData:
    return BrokerStateData(
        broker_id=broker.node_id,
        state="shutting_down"
        if broker.shutting_down and not broker.fenced
        else "fenced"
        if broker.fenced
        else "running",
        desired_state=broker.desired_state,  # type: ignore[arg-type]  # The key takes these values only.
        epoch=broker.epoch,
        host=broker.host,
        port=broker.port,
        rack=broker.rack,
        leaders_count=broker.leaders,
        replicas_count=broker.replicas,
        decommission=_drain(broker),
    )


def _drain(broker: BrokerFacts) -> DrainData | None:
    left = broker.draining
    if left is None:
        return None
    phase: Literal["draining", "blocked", "stop_it", "unregistering"] = "draining"
    if not broker.replicas:
        phase = "unregistering" if broker.fenced else "stop_it"
    elif len(left.blocked) == broker.replicas:
        phase = "blocked"
    return DrainData(
        phase=phase,
        replicas_left=broker.replicas,
        leaders_left=broker.leaders,
        moving=left.moving,
        blocked_count=len(left.blocked),
        blocked=list(left.blocked[:LISTED_MAX]),
    )


def _log_dir(directory: LogDirectory) -> LogDirData:
    return LogDirData(
        path=directory.path,
        error=message_of(directory.error_code) if directory.error_code else None,
        is_cordoned=directory.is_cordoned,
        total_bytes=directory.total_bytes if directory.total_bytes >= 0 else None,
        usable_bytes=directory.usable_bytes if directory.usable_bytes >= 0 else None,
        size_bytes=directory.size_bytes,
        replicas=[
            LogDirReplica(
                topic_name=each.partition.topic,
                partition_id=each.partition.partition,
                size_bytes=each.size_bytes,
                offset_lag=each.lag,
                is_future=each.is_future,
            )
            for each in directory.replicas
        ],
    )
