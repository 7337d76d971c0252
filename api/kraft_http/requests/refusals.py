"""Error responses of code that runs before FastAPI is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


def refusal(request: Request, status: int, detail: str, error_code: int) -> Response:
    """The response of `kraft_http.requests.errors`, which is loaded now."""
    from kraft_http.requests.errors import error_response

    return error_response(request, status, detail, error_code)
