"""Authentication of a request, once, before anything else is done for it. Routes get an `AdminPort` with the caller's
permissions."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from kraft_http.ports import AdminPort, Caller, LoginRefused
from kraft_http.requests.refusals import refusal
from kraft_http.requests.scopes import CERTIFICATE, PORT, PROBES, SOURCE

_OPEN: Final = (*PROBES, "/logout")
UNKNOWN_HOST: Final = "0.0.0.0"
NOT_LOGGED_IN: Final = 40101


class AuthMiddleware:
    """Rejects unauthenticated requests, with a hint on how to log in."""

    def __init__(self, app: ASGIApp, port: AdminPort) -> None:
        self.app = app
        self._port = port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            port = self._port if scope["path"] in _OPEN else await self._port.on_behalf_of(_caller(scope))
        except LoginRefused as problem:
            code = NOT_LOGGED_IN if problem.status == 401 else problem.status
            response = refusal(Request(scope), problem.status, str(problem), code)
            if problem.retry_seconds:
                response.headers["retry-after"] = str(problem.retry_seconds)
            if "content-length" in Headers(scope=scope) or "transfer-encoding" in Headers(scope=scope):
                response.headers["connection"] = "close"  # The body is not read.
            await response(scope, receive, send)
            return
        await self.app({**scope, PORT: port}, receive, send)


def _caller(scope: Scope) -> Caller:
    connection = scope.get("state", {})
    client = scope.get("client")
    return Caller(
        host=connection.get(SOURCE) or (client[0] if client else UNKNOWN_HOST),
        authorization=Headers(scope=scope).get("authorization"),
        certificate=connection.get(CERTIFICATE),
    )
