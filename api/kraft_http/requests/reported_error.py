"""Unexpected errors of requests (defects of kraft): the client gets a 500, the node's log the details."""

from __future__ import annotations

import traceback
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kraft.common.logging import Sink
from kraft_http.ports import NodeIdentity
from kraft_http.requests.errors import FAILED, error_response, request_id_of

LOGGER: Final = "http_admin"


class ReportedError(Exception):
    """An error that is already logged. Raised if the response has begun: closing the connection then shows the client
    that the rest is missing."""

    is_told = True


class Failures:
    """The outermost middleware: logs unexpected errors."""

    def __init__(self, app: ASGIApp, identity: NodeIdentity, log_sink: Sink) -> None:
        self.app = app
        self._node_id = identity.node_id
        self._log_sink = log_sink

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = False

        async def noted_send(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, receive, noted_send)
        except ClientDisconnect:
            return  # The client has disconnected.
        except Exception as problem:  # The boundary of a request: any error is logged and returned to the client.
            request = Request(scope)
            self._tell(request, problem)
            if begun:
                raise ReportedError from problem
            detail = (
                f"{request.method} {scope['path']} failed because of a fault of the server: see "
                f'"request failed" in the log of node {self._node_id}.'
            )
            await error_response(request, FAILED.status, detail, FAILED.error_code)(scope, receive, send)

    def _tell(self, request: Request, problem: Exception) -> None:
        line = {
            "level": "error",
            "logger": LOGGER,
            "event": "request failed",
            "node": self._node_id,
            "method": request.method,
            "path": request.scope["path"],
        }
        request_id = request_id_of(request)
        if request_id is not None:
            line["request_id"] = request_id
        self._log_sink({**line, "traceback": "".join(traceback.format_exception(problem))})
