"""What happens to a request before it is routed."""

from __future__ import annotations

from urllib.parse import unquote

from starlette.types import ASGIApp, Receive, Scope, Send

from api.links import SLASH_STAND_IN


class EncodedSlashes:
    """Keeps an encoded slash inside its path segment: the server decodes %2F before routing, and ids of groups may hold slashes."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw: bytes = scope.get("raw_path") or b""
        if scope["type"] == "http" and b"%2f" in raw.lower():
            text = raw.decode("latin-1").replace("%2F", "%2f")
            scope = {**scope, "path": SLASH_STAND_IN.join(unquote(part) for part in text.split("%2f"))}
        await self.app(scope, receive, send)
