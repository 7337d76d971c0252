"""Probes of orchestrators and metrics for Prometheus. They are requested every few seconds, so they need neither
FastAPI nor pydantic."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, Literal

from starlette.responses import JSONResponse, Response, StreamingResponse

from kraft_http.ports import AdminPort, Check

PROBE_SECONDS_MAX: Final = 5.0
"""Orchestrators usually give up a probe after about this time."""
PARTS_AT_ONCE: Final = 64
"""Limit of a response in one piece: about 4 MB. A larger response is sent in parts, so that other responses do not wait
for it."""
PROMETHEUS_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


async def livez(port: AdminPort) -> Response:
    """Whether the process works."""
    return _probe(await _checks(port.liveness))


async def readyz(port: AdminPort, *, in_sync: bool = False) -> Response:
    """Whether this node serves; with `in_sync`, also whether its replicas are in sync."""

    async def ask() -> Sequence[Check]:
        return [*await port.readiness(), *([await port.replicas_in_sync()] if in_sync else [])]

    return _probe(await _checks(ask))


async def healthz(port: AdminPort) -> Response:
    """Whether the process works and this node serves."""
    return _probe([*await _checks(port.liveness), *await _checks(port.readiness)])


async def metrics(port: AdminPort, by: Literal["topic", "partition"] | None = None) -> Response:
    """The node's metrics in Prometheus' text format. Raises ApiError."""
    parts = await port.metrics(by)
    if len(parts) > PARTS_AT_ONCE:
        return StreamingResponse(_streamed(parts), media_type=PROMETHEUS_TEXT)
    return Response("".join(parts), media_type=PROMETHEUS_TEXT)


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
    body = {"ok": ok, "checks": [{"name": each.name, "ok": each.ok, "detail": each.detail} for each in checks]}
    return JSONResponse(body, 200 if ok else 503, headers={"Cache-Control": "no-store"})


async def _streamed(parts: Sequence[str]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part.encode()
