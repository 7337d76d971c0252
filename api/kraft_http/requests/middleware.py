"""The processing of a request before routing."""

from __future__ import annotations

import ipaddress
import re
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kraft_http.ports import NodeIdentity
from kraft_http.requests.links import PREFIX, SLASH_STAND_IN
from kraft_http.requests.refusals import refusal
from kraft_http.requests.scopes import is_streamed

BODY_BYTES_MAX: Final = 16 * 1024 * 1024
"""Limit of a body that is read as one document. Streams of records have a limit for each record
(`kraft_http.records.json_stream`)."""

ALLOWED_HOSTS: Final = "kraft.admin.allowed.hosts"
READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
FOREIGN_HOST: Final = 40302
FOREIGN_ORIGIN: Final = 40303
_WILDCARDS: Final = ("", "0.0.0.0", "::")
_AUTHORITY: Final = re.compile(
    r"(?:\[([0-9a-f:.]+(?:%[\w.~-]+)?)\]|([\w.-]+))(?::[0-9]{0,5})?", re.ASCII | re.IGNORECASE
)
_JSON: Final = re.compile(r"application/(?:[\w.+-]+\+)?json", re.ASCII | re.IGNORECASE)


def host_of(authority: str) -> str | None:
    """The host of `host:port`, in lower case, without brackets or a trailing dot; None if there is none."""
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        return None
    return (match[1] or match[2]).lower().removesuffix(".") or None


def is_address(host: str) -> bool:
    """Whether `host` is an IP address. A web page cannot make such a host resolve elsewhere."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class OriginMiddleware:
    """Keeps web pages of other sites from administering the cluster through the browser of a person who can reach it.

    - The Host header must name this admin. By DNS rebinding, a page's own name can be made to resolve to this address;
      the browser then treats our responses as the page's own.
    - A change must come from one of our own pages, or not from a page.
    - A body must have a JSON content type: a page may send other types to any site without a preflight request.
    """

    def __init__(self, app: ASGIApp, identity: NodeIdentity) -> None:
        self.app = app
        self._further = frozenset(_normal(host) for host in identity.allowed_hosts)
        self._any_address = identity.admin_host in _WILDCARDS
        ours = () if self._any_address else (identity.admin_host,)
        self._hosts = self._further | {_normal(host) for host in ("localhost", *ours, *identity.advertised_hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            problem = self._problem(scope)
            if problem is not None:
                status, error_code, detail = problem
                response = refusal(Request(scope), status, detail, error_code)
                response.headers["connection"] = "close"  # The body is not read.
                await response(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _problem(self, scope: Scope) -> tuple[int, int, str] | None:
        """Status, error code and message for a request that is rejected; None if it is accepted."""
        headers = Headers(scope=scope)
        authority = headers.get("host")
        if authority is not None and not self._is_ours(host_of(authority), scope):
            return (
                403,
                FOREIGN_HOST,
                f"This HTTP admin is not known as {authority[:260]!r}. If it should be, name that host in "
                f"{ALLOWED_HOSTS}.",
            )
        if scope["method"] in READING:
            return None
        site = headers.get("sec-fetch-site", "none")
        origin = headers.get("origin")
        if site not in ("same-origin", "none") or (origin is not None and not self._is_own(origin, authority)):
            return (
                403,
                FOREIGN_ORIGIN,
                f"A page of another origin ({(origin or site)[:260]!r}) may not change anything here. If it is this "
                f"admin behind a proxy, name its host in {ALLOWED_HOSTS}.",
            )
        has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        content_type = headers.get("content-type", "").partition(";")[0].strip()
        if has_body and _JSON.fullmatch(content_type) is None:
            return 415, 415, f"A body has to come with Content-Type: application/json, not {content_type[:80]!r}."
        return None

    def _is_ours(self, host: str | None, scope: Scope) -> bool:
        if host is None:
            return False
        if host in self._hosts or (self._any_address and is_address(host)):
            return True
        server = scope.get("server")
        return server is not None and is_address(host) and host == _normal(server[0])

    def _is_own(self, origin: str, authority: str | None) -> bool:
        """Whether a page of `origin` was served by this admin: its host and port are those of the request, or it has
        one of the additional host names and its scheme's default port (a proxy)."""
        try:
            served_by = urlsplit(origin).netloc.lower()
        except ValueError:
            return False
        return served_by != "" and (served_by == (authority or "").lower() or _normal(served_by) in self._further)


def _normal(host: str) -> str:
    """The host in the form of `host_of`."""
    return host.strip("[]").lower().removesuffix(".")


class KafkaPrefix:
    """Serves /kafka/v3 as /v3. The application sees the prefix only as root path, so its links have the prefix, too."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw: bytes = scope.get("raw_path") or quote(scope.get("path", "")).encode()
        if scope["type"] == "http" and (raw + b"/").startswith(f"{PREFIX}/v3/".encode()):
            scope = {
                **scope,
                "path": scope["path"].removeprefix(PREFIX),
                "raw_path": raw.removeprefix(PREFIX.encode()),
                "root_path": scope.get("root_path", "") + PREFIX,
            }
        await self.app(scope, receive, send)


class EncodedSlashes:
    """Keeps an encoded slash inside its path segment. The server decodes %2F before routing, and group ids may contain
    slashes."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw: bytes = scope.get("raw_path") or b""
        if scope["type"] == "http" and b"%2f" in raw.lower():
            text = raw.decode("latin-1").replace("%2F", "%2f")
            scope = {**scope, "path": SLASH_STAND_IN.join(unquote(part) for part in text.split("%2f"))}
        await self.app(scope, receive, send)


class BoundedBodies:
    """Rejects a body as soon as it exceeds the limit, without buffering it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or is_streamed(scope):
            await self.app(scope, receive, send)
            return
        taken = 0

        async def receive_within() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > BODY_BYTES_MAX:
                # What is left of the body is not read, so the connection cannot be used any more.
                raise HTTPException(
                    413, f"A request's body may have at most {BODY_BYTES_MAX} bytes.", {"Connection": "close"}
                )
            return message

        await self.app(scope, receive_within, send)
