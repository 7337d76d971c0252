"""A node that fails as a test says."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from kraft_http.app import create_app

from tests.unit.api.edge_app import Port


def asked(port: Port, path: str, method: str = "GET", **options: Any) -> tuple[httpx.Response, list[Any]]:
    """The answer, and what was told in the log."""
    lines: list[Any] = []

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=create_app(port, lines.append))  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://node") as http:
            return await http.request(method, path, **options)

    return asyncio.run(ask()), lines
