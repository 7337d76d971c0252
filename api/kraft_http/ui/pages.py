"""Serves the console and the API reference. Their scripts use this API like any other client."""

from __future__ import annotations

import pkgutil
from typing import Final

from fastapi import APIRouter
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from kraft_http.requests.deps import Port

router = APIRouter(include_in_schema=False)

_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
"""Pages contain no inline scripts and styles, so that text from records or names is never executed."""

_TYPES: Final = {"css": "text/css", "html": "text/html", "js": "text/javascript"}
ASSETS: Final = (
    "access.js",
    "charts.js",
    "clients.js",
    "console.css",
    "console.js",
    "docs.css",
    "docs.js",
    "groups.js",
    "lib.js",
    "messages.js",
    "moves.js",
    "nodes.js",
    "overview.js",
    "parts.js",
    "patch.js",
    "resets.js",
    "search.js",
    "settings.js",
    "shares.js",
    "topics.js",
    "uplot.css",
    "uplot.js",
)


_LOGGED_OUT: Final = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>kraft</title></head>
<body><p>You have logged out. <a href="/">Log in again</a></p></body></html>
"""


def _file(name: str) -> Response:
    data = pkgutil.get_data("kraft_http.ui", name)
    assert data is not None, name
    return Response(data, headers=_HEADERS, media_type=_TYPES[name.rpartition(".")[2]])


@router.get("/")
async def overview_page() -> Response:
    return _file("console.html")


@router.get("/ui")
@router.get("/ui/{page}")
async def console_page() -> Response:
    """The console. Its script chooses the view by the URL."""
    return _file("console.html")


@router.get("/docs")
async def docs_page() -> Response:
    return _file("docs.html")


@router.get("/logout")
async def logout_page(port: Port) -> Response:
    """Make the browser forget the password. Browsers do so over HTTPS, and at localhost."""
    if not port.identity.asks_for_password:
        raise HTTPException(404)
    return Response(_LOGGED_OUT, headers={**_HEADERS, "Clear-Site-Data": '"cookies"'}, media_type="text/html")


@router.get("/assets/{name}")
async def asset(name: str) -> Response:
    if name not in ASSETS:
        raise HTTPException(404)
    return _file(name)


@router.get("/favicon.ico")
async def favicon() -> Response:
    return Response(status_code=204, headers={"Cache-Control": "max-age=86400"})
