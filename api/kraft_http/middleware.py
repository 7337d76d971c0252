"""What happens to a request before it is routed."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kraft_http.links import SLASH_STAND_IN

BODY_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of a request whose body is taken as one document. Records are taken one after another, and each has a bound of its
own (`kraft_http.json_stream`)."""
_STREAMED: Final = re.compile(r"/v3/clusters/[^/]+/topics/[^/]+/records")


class EncodedSlashes:
    """Keeps an encoded slash inside its path segment: the server decodes %2F before routing, and ids of groups may
    hold slashes."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw: bytes = scope.get("raw_path") or b""
        if scope["type"] == "http" and b"%2f" in raw.lower():
            text = raw.decode("latin-1").replace("%2F", "%2f")
            scope = {**scope, "path": SLASH_STAND_IN.join(unquote(part) for part in text.split("%2f"))}
        await self.app(scope, receive, send)


class BoundedBodies:
    """Refuses a body that is too large as soon as it is known to be, and before it is kept."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _STREAMED.fullmatch(scope["path"]):
            await self.app(scope, receive, send)
            return
        taken = 0

        async def receive_within() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > BODY_BYTES_MAX:
                # What is left of the body is not read, so the connection cannot be used any more.
                raise HTTPException(413, f"A request's body may have {BODY_BYTES_MAX} bytes.", {"Connection": "close"})
            return message

        await self.app(scope, receive_within, send)
