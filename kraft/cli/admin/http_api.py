"""What commands ask of a node's HTTP admin, where Kafka's protocol has no words for it."""

from __future__ import annotations

import http.client
from typing import Annotated
from urllib.parse import urlsplit

import typer

from kraft.common.errors import KraftError

DEFAULT_ADMIN = "http://127.0.0.1:8080"
SILENCE_SECONDS_MAX = 30.0
"""A stream says every ten seconds that it lives."""

Admin = Annotated[str, typer.Option("--admin", metavar="URL", envvar="KRAFT_ADMIN", help="The HTTP admin of a node.")]


def open_admin(admin: str, path: str, headers: dict[str, str]) -> http.client.HTTPResponse:
    """Raises KraftError where nobody answers, or with no."""
    try:
        address = urlsplit(admin if "//" in admin else f"//{admin}")
        host, port = address.hostname, address.port
    except ValueError as problem:
        raise KraftError(f"--admin {admin} is not a URL as {DEFAULT_ADMIN}: {problem}") from problem
    if not host or address.scheme not in ("", "http", "https"):
        raise KraftError(f"--admin {admin} is not a URL as {DEFAULT_ADMIN}")
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = kind(host, port, timeout=SILENCE_SECONDS_MAX)
    try:
        connection.request("GET", address.path.rstrip("/") + path, headers={"Connection": "close", **headers})
        response = connection.getresponse()
    except (OSError, http.client.HTTPException) as problem:
        raise KraftError(f"no HTTP admin answers at {admin}: {problem}") from problem
    if response.status != 200:
        raise KraftError(f"{admin} answers {response.status}: {response.read(2000).decode(errors='replace')}")
    return response
