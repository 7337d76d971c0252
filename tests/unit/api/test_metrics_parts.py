"""A large text of metrics leaves part by part, a small one at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from kraft_http.app import create_app
from kraft_http.probes import PARTS_AT_ONCE

from tests.unit.api.edge_app import Port, refuse


class Measured(Port):
    def __init__(self, parts: int) -> None:
        self.parts = [f"kraft_part {number}\n" for number in range(parts)]

    async def metrics(self, by: str | None) -> Sequence[str]:
        await asyncio.sleep(0)
        return self.parts


async def sent(port: Any) -> list[dict[str, Any]]:
    """The messages of the answer, as the server gets them."""
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "path": "/metrics",
        "raw_path": b"/metrics",
        "query_string": b"",
        "headers": [(b"host", b"node")],
        "scheme": "http",
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "state": {},
    }
    messages: list[dict[str, Any]] = []
    is_over = asyncio.Event()
    asked = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> dict[str, Any]:
        for message in asked:
            return message
        await is_over.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        messages.append(message)

    await create_app(port, refuse)(scope, receive, send)
    return messages


@pytest.mark.parametrize(("parts", "is_streamed"), [(PARTS_AT_ONCE, False), (PARTS_AT_ONCE + 1, True)])
def test_a_metrics_text_of_many_parts_is_sent_part_by_part(parts: int, is_streamed: bool) -> None:
    port = Measured(parts)
    head, *rest = asyncio.run(sent(port))
    assert head["status"] == 200
    assert (b"content-length" in dict(head["headers"])) != is_streamed
    bodies = [message["body"] for message in rest if message["body"]]
    whole = [part.encode() for part in port.parts]
    assert bodies == (whole if is_streamed else [b"".join(whole)])
