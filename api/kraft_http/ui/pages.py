"""Serving the pages. They talk to this API like any other client."""

from __future__ import annotations

import pkgutil
from typing import Final

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, RedirectResponse, Response

router = APIRouter(include_in_schema=False)

_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def _page(name: str) -> HTMLResponse:
    data = pkgutil.get_data("kraft_http.ui", name)
    assert data is not None, name
    return HTMLResponse(data, headers=_HEADERS)


@router.get("/")
async def status_page() -> Response:
    return _page("status.html")


@router.get("/docs")
async def docs_page() -> Response:
    return _page("docs.html")


@router.get("/ui")
async def ui_page() -> Response:
    return RedirectResponse("/")


@router.get("/favicon.ico")
async def favicon() -> Response:
    return Response(status_code=204, headers={"Cache-Control": "max-age=86400"})
