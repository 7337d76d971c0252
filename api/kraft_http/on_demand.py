"""The HTTP admin of a node that may never be asked for more than probes and metrics.

FastAPI, pydantic and the models of all routes take 30 MB and half a second. They are loaded in a thread by the first
request that needs them. The paths in `ANSWERS` are answered by `kraft_http.probes`, before and after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from kraft_http import probes
from kraft_http.ports import AdminPort
from kraft_http.requests.logins import AuthMiddleware
from kraft_http.requests.middleware import OriginMiddleware
from kraft_http.requests.preconditions import Preconditions
from kraft_http.requests.scopes import PORT

Answer = Callable[[AdminPort], Awaitable[Response]]

ANSWERS: Final[Mapping[tuple[str, bytes], Answer]] = {
    ("/livez", b""): probes.livez,
    ("/readyz", b""): probes.readyz,
    ("/readyz", b"in_sync=false"): probes.readyz,
    ("/readyz", b"in_sync=true"): partial(probes.readyz, in_sync=True),
    ("/healthz", b""): probes.healthz,
    ("/metrics", b""): probes.metrics,
    ("/metrics", b"by=topic"): partial(probes.metrics, by="topic"),
    ("/metrics", b"by=partition"): partial(probes.metrics, by="partition"),
}
"""The answers by path and query of a GET. Requests in any other form, valid or not, are passed to the whole
application."""


class OnDemand:
    """ASGI application: answers the requests of `ANSWERS` itself, and loads the whole application for all others."""

    def __init__(self, port: AdminPort, load: Callable[[], ASGIApp]) -> None:
        """`load` makes the whole application. It is called once, in a thread."""
        self._load = load
        self._loading = asyncio.Lock()
        self._whole: ASGIApp | None = None
        known = AuthMiddleware(Preconditions(self._answer), port=port)
        self._early: ASGIApp = OriginMiddleware(known, identity=port.identity)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_read = scope["type"] == "http" and scope["method"] == "GET"
        if is_read and (scope["path"], scope["query_string"]) in ANSWERS:
            await self._early(scope, receive, send)
        else:
            await self._by_whole(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await ANSWERS[scope["path"], scope["query_string"]](scope[PORT])
        except Exception:  # noqa: BLE001 - the whole application asks again, and has a response for every error.
            await self._by_whole(scope, receive, send)
            return
        await response(scope, receive, send)

    async def _by_whole(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._whole is None:
            async with self._loading:
                if self._whole is None:
                    self._whole = await asyncio.to_thread(self._load)
        await self._whole(scope, receive, send)
