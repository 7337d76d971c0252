"""How much of a request's body is taken."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kraft_http.app import create_app

from tests.unit.api.edge_app import CLUSTER, Port, refuse

CHUNK = bytes(1 << 20)
CHUNKS = 40


async def sent(method: str, path: str, chunk: bytes) -> tuple[int, dict[bytes, bytes], int]:
    """Status and headers of the answer to a body of 40 MB, and how many chunks of it were taken."""
    taken = 0
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        nonlocal taken
        taken += 1
        await asyncio.sleep(0)
        return {"type": "http.request", "body": chunk, "more_body": taken < CHUNKS}

    async def send(message: Any) -> None:
        sent.append(message)
        await asyncio.sleep(0)

    port: Any = Port()
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"content-type", b"application/json"), (b"host", b"node")],
        "client": None,
        "server": ("node", 80),
    }
    await create_app(port, refuse)(scope, receive, send)
    return sent[0]["status"], dict(sent[0]["headers"]), taken


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "topics"),
        ("POST", "topics/t/records:batch"),
        ("POST", "quorum/voters"),
        ("PATCH", "topics/records"),
        ("PUT", "topics/t/configs/records"),
        ("PUT", "broker-configs/records"),
    ],
)
def test_an_endless_request_body_is_refused_before_it_is_buffered(method: str, path: str) -> None:
    status, headers, taken = asyncio.run(sent(method, f"/v3/clusters/{CLUSTER}/{path}", CHUNK))
    assert (status, headers.get(b"connection")) == (413, b"close")
    assert taken == 17
