"""Health, probes, metrics, and what this node is."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel

from api.deps import Port
from api.health import ClusterHealth, judge
from api.ports import Check

router = APIRouter(tags=["Operations"])

PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"


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


@router.get("/v1/cluster/health", summary="Is the cluster healthy, and if not, why and what to do")
async def cluster_health(port: Port) -> ClusterHealth:
    """Always 200: look at `is_healthy`. For a load balancer or an orchestrator there is /readyz."""
    return judge(await port.cluster_facts())


@router.get("/v1/node", summary="What this node is")
async def node(port: Port) -> NodeData:
    identity = port.identity
    return NodeData(
        node_id=identity.node_id, roles=list(identity.roles), cluster_id=identity.cluster_id, version=identity.version, read_only=identity.read_only
    )


@router.get("/livez", summary="Does the process work", response_model=ProbeData, responses={503: {"model": ProbeData, "description": "It does not."}})
async def livez(port: Port) -> Response:
    return _probe(await port.liveness())


@router.get("/readyz", summary="Does this node serve", response_model=ProbeData, responses={503: {"model": ProbeData, "description": "Not now."}})
async def readyz(port: Port) -> Response:
    """Says nothing about the rest of the cluster, so that a rolling restart does not block itself."""
    return _probe(await port.readiness())


@router.get("/healthz", summary="Liveness and readiness together", response_model=ProbeData, responses={503: {"model": ProbeData, "description": "Not now."}})
async def healthz(port: Port) -> Response:
    return _probe([*await port.liveness(), *await port.readiness()])


def _probe(checks: Sequence[Check]) -> Response:
    ok = all(check.ok for check in checks)
    body = ProbeData(ok=ok, checks=[CheckData(name=check.name, ok=check.ok, detail=check.detail) for check in checks])
    return JSONResponse(body.model_dump(), 200 if ok else 503, headers={"Cache-Control": "no-store"})


@router.get("/metrics", summary="Metrics in Prometheus' text format", response_class=PlainTextResponse)
async def metrics(port: Port) -> Response:
    return Response(await port.metrics(), media_type=PROMETHEUS_TEXT)
