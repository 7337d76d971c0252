"""Health, probes, metrics, and the node's identity."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Response
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse
from pydantic import BaseModel

from kraft_http.health.health import ClusterHealth
from kraft_http.ports import Check
from kraft_http.requests.deps import Port

router = APIRouter(tags=["Operations"])

PROBE_SECONDS_MAX: Final = 5.0
"""Probes usually time out at about this time."""
PARTS_AT_ONCE: Final = 64
"""About 4 MB. A larger response is sent in parts, so that other responses do not wait for it."""
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
    return _probe(await _checks(port.liveness))


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

    async def ask() -> Sequence[Check]:
        return [*await port.readiness(), *([await port.replicas_in_sync()] if in_sync else [])]

    return _probe(await _checks(ask))


@router.get(
    "/healthz",
    summary="Liveness and readiness together",
    response_model=ProbeData,
    responses={503: {"model": ProbeData, "description": "Not now."}},
)
async def healthz(port: Port) -> Response:
    return _probe([*await _checks(port.liveness), *await _checks(port.readiness)])


async def _checks(ask: Callable[[], Awaitable[Sequence[Check]]]) -> Sequence[Check]:
    """The probe's checks; a failed one if the node has stopped or does not answer in time."""
    try:
        async with asyncio.timeout(PROBE_SECONDS_MAX):
            return await ask()
    except TimeoutError:
        return [Check(name="loop", ok=False, detail=f"the node's loop has not answered for {PROBE_SECONDS_MAX:g} s")]
    except ConnectionError as problem:
        return [Check(name="loop", ok=False, detail=str(problem))]


def _probe(checks: Sequence[Check]) -> Response:
    ok = all(check.ok for check in checks)
    body = ProbeData(ok=ok, checks=[CheckData(name=check.name, ok=check.ok, detail=check.detail) for check in checks])
    return JSONResponse(body.model_dump(), 200 if ok else 503, headers={"Cache-Control": "no-store"})


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
    parts = await port.metrics(by)
    if len(parts) > PARTS_AT_ONCE:
        return StreamingResponse(_streamed(parts), media_type=PROMETHEUS_TEXT)
    return Response("".join(parts), media_type=PROMETHEUS_TEXT)


async def _streamed(parts: Sequence[str]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part.encode()
