"""Health, probes, metrics, and the node's identity."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel

from kraft_http import probes
from kraft_http.health.health import ClusterHealth
from kraft_http.requests.deps import Port

router = APIRouter(tags=["Operations"])


class CheckData(BaseModel):
    name: str
    ok: bool
    detail: str


class ProbeData(BaseModel):
    ok: bool
    checks: list[CheckData]


class NodeData(BaseModel):
    node_id: int
    roles: list[str]
    cluster_id: str
    version: str
    read_only: bool
    asks_for_password: bool


@router.get("/v1/cluster/health", summary="Is the cluster healthy, and if not, why and what to do")
async def cluster_health(port: Port) -> ClusterHealth:
    """Return the cluster's health. The status is always 200: look at `is_healthy`. For a load balancer or an
    orchestrator there is /readyz."""
    return await port.cluster_health()


@router.get("/v1/node", summary="What this node is")
async def node(port: Port) -> NodeData:
    identity = port.identity
    return NodeData(
        node_id=identity.node_id,
        roles=list(identity.roles),
        cluster_id=identity.cluster_id,
        version=identity.version,
        read_only=identity.read_only,
        asks_for_password=identity.asks_for_password,
    )


@router.get(
    "/livez",
    summary="Does the process work",
    response_model=ProbeData,
    responses={503: {"model": ProbeData, "description": "It does not."}},
)
async def livez(port: Port) -> Response:
    return await probes.livez(port)


@router.get(
    "/readyz",
    summary="Does this node serve",
    response_model=ProbeData,
    responses={503: {"model": ProbeData, "description": "Not now."}},
)
async def readyz(
    port: Port,
    in_sync: Annotated[
        bool,
        Query(
            description=(
                "Also require that the node's replicas are in sync. For a startup probe: a rolling update then "
                "waits for each node."
            )
        ),
    ] = False,
) -> Response:
    """Return whether this node is ready. The rest of the cluster does not matter, so that a rolling restart does not
    block itself."""
    return await probes.readyz(port, in_sync=in_sync)


@router.get(
    "/healthz",
    summary="Liveness and readiness together",
    response_model=ProbeData,
    responses={503: {"model": ProbeData, "description": "Not now."}},
)
async def healthz(port: Port) -> Response:
    return await probes.healthz(port)


@router.get("/metrics", summary="Metrics in Prometheus' text format", response_class=PlainTextResponse)
async def metrics(
    port: Port,
    by: Annotated[
        Literal["topic", "partition"] | None,
        Query(
            description=(
                "partition: gauges and lags of each partition. topic: sums by topic, and the lags of the 1,000 "
                "pairs of group and topic that are furthest behind. Default: partition, on a node with at most "
                "1,000 partitions or commits."
            )
        ),
    ] = None,
) -> Response:
    return await probes.metrics(port, by)
