"""Conditional requests (RFC 9110): entity tags of responses, and changes that apply only while the tag still
matches."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kraft_http.requests.refusals import refusal

TAGGED_BYTES_MAX: Final = 64 * 1024
"""Larger responses have no ETag: they are lists, which change all the time."""
CHANGING: Final = frozenset({"PATCH", "PUT", "DELETE"})
_JSON: Final = "application/json"


class Preconditions:
    """Adds an ETag to responses to GET, answers 304 to a client that has the same tag (If-None-Match), and rejects a
    change whose If-Match no longer matches.

    Just before a change the current tag is computed by a GET of the same address. Changes with If-Match through one
    node are serialized; a change in between by another way is not detected.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._one_at_a_time = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if scope["method"] == "GET":
            await self.app(scope, receive, _Tagging(send, headers.get("if-none-match")))
        elif "if-match" not in headers:
            await self.app(scope, receive, send)
        elif scope["method"] not in CHANGING:
            detail = f"If-Match is for PATCH, PUT and DELETE; {scope['method']} does not support it here."
            await refusal(Request(scope), 400, detail, 400)(scope, receive, send)
        else:
            await self._change(scope, receive, send, headers["if-match"])

    async def _change(self, scope: Scope, receive: Receive, send: Send, wanted: str) -> None:
        try:
            body = await _whole(receive)
        except HTTPException as problem:  # It is too large.
            response = refusal(Request(scope), problem.status_code, str(problem.detail), problem.status_code)
            response.headers.update(problem.headers or {})
            await response(scope, receive, send)
            return
        async with self._one_at_a_time:
            status, tag = await self._look(scope)
            if status in (200, 404) and not (status == 200 and (wanted.strip() == "*" or tag in _tags(wanted))):
                now = "it does not exist" if status == 404 else f"its ETag is {tag} now"
                detail = f"Not changed: If-Match is {wanted[:200]}, but {now}. Read it again, then decide."
                response = refusal(Request(scope), 412, detail, 412)
                if tag:
                    response.headers["etag"] = tag
            elif status == 405:
                detail = "If-Match compares the response of a GET of the same address, and this address has no GET."
                response = refusal(Request(scope), 400, detail, 400)
            else:  # The change itself says what is wrong, where nothing could be read.
                await self.app(scope, _given(body, receive), send)
                return
        await response(scope, receive, send)

    async def _look(self, scope: Scope) -> tuple[int, str]:
        """The status and the tag of a GET of the same address."""
        seen: list[Message] = []

        async def keep(message: Message) -> None:
            seen.append(message)

        asking = {**scope, "method": "GET", "query_string": b"", "headers": list(_without_condition(scope))}
        await self.app(asking, _given(b"", _nothing), _Tagging(keep, None))
        return seen[0]["status"], Headers(raw=seen[0]["headers"]).get("etag", "")


class _Tagging:
    """Passes a response on, with an ETag if it is a JSON document in one piece."""

    def __init__(self, send: Send, known: str | None) -> None:
        self._send = send
        self._known = known
        self._start: Message | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _may_be_tagged(message):
            self._start = message
            return
        start, self._start = self._start, None
        if start is not None and not message.get("more_body", False):
            headers = MutableHeaders(raw=start["headers"])
            tag = f'"{hashlib.blake2b(message.get("body", b""), digest_size=12).hexdigest()}"'
            headers["etag"] = tag
            headers["cache-control"] = "no-cache"
            if self._known is not None and tag in _tags(self._known):
                del headers["content-length"]
                start, message = {**start, "status": 304, "headers": headers.raw}, {**message, "body": b""}
            else:
                start = {**start, "headers": headers.raw}
        if start is not None:
            await self._send(start)
        await self._send(message)


def _may_be_tagged(start: Message) -> bool:
    headers = Headers(raw=start["headers"])
    size = headers.get("content-length", "")
    return (
        start["status"] == 200
        and headers.get("content-type", "").partition(";")[0] == _JSON
        and size.isdecimal()
        and int(size) <= TAGGED_BYTES_MAX
    )


def _tags(header: str) -> list[str]:
    """The tags of an If-Match or If-None-Match header. This server's tags are strong. A tag that a proxy has made weak
    is accepted as strong."""
    return [tag.strip().removeprefix("W/") for tag in header.split(",")]


def _without_condition(scope: Scope) -> list[tuple[bytes, bytes]]:
    about_the_body = (b"if-match", b"content-length", b"content-type", b"transfer-encoding")
    return [(name, value) for name, value in scope["headers"] if name.lower() not in about_the_body]


async def _whole(receive: Receive) -> bytes:
    """The request's whole body; `BoundedBodies` limits its size. Raises ClientDisconnect if the client disconnects
    before its end."""
    pieces = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        pieces.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(pieces)


def _given(body: bytes, then: Receive) -> Receive:
    given = False

    async def receive() -> Message:
        nonlocal given
        if given:
            return await then()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


async def _nothing() -> Message:
    return {"type": "http.disconnect"}
