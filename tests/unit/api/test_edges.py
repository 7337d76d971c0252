"""The HTTP edge over a port that is a test's: what it refuses itself, and what it counts."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from kraft_http.app import create_app
from kraft_http.requests.errors import ApiProblem
from kraft_http.routers.events import SSE, STREAMS_MAX, get_events

from tests.unit.api.edge_app import CLUSTER, Port, refuse

DIRECTORY = "dHR0dHR0dHR0dHR0dHR0dA"


@pytest.mark.parametrize("host", ["", "a b", "a..b", ".a", "-a", "a-", "a/b", "a:9093x", "ä", "a" * 64, "a\n", "[::1]"])
def test_a_voter_with_an_invalid_host_is_refused(host: str) -> None:
    assert posted(host) == 400


@pytest.mark.parametrize(
    "host", ["a", "node-1.example.org", "node_1", "10.0.0.1", "::1", "fe80::1%eth0", "a.example.", "xn--4ca"]
)
def test_a_voter_with_a_valid_host_is_requested(host: str) -> None:
    assert posted(host) == 503, "the cluster has to be asked"


def posted(host: str) -> int:
    async def post() -> int:
        transport = httpx.ASGITransport(app=create_app(Port(), refuse))  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://node") as http:
            body = {"node_id": 2, "directory_id": DIRECTORY, "endpoints": [{"host": host, "port": 9093}]}
            return (await http.post(f"/v3/clusters/{CLUSTER}/quorum/voters", json=body)).status_code

    return asyncio.run(post())


def test_an_event_stream_counts_towards_the_limit_from_its_grant_to_its_end() -> None:
    async def main() -> None:
        streams: list[int] = []
        request: Any = SimpleNamespace(
            headers={"accept": SSE}, app=SimpleNamespace(state=SimpleNamespace(event_streams=streams))
        )
        port: Any = Port()
        granted = [await get_events(request, port) for _ in range(STREAMS_MAX)]
        with pytest.raises(ApiProblem, match="streams of events are open already"):
            await get_events(request, port)

        async def receive() -> dict[str, str]:
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            await asyncio.sleep(0)

        async def refuse(message: Any) -> None:
            raise OSError("the client has gone")

        await granted[0]({"type": "http"}, receive, send)
        with pytest.raises(BaseException):  # noqa: B017  # A group or not, by the version of starlette.
            await granted[1]({"type": "http"}, receive, refuse)
        assert len(streams) == STREAMS_MAX - 2
        granted.append(await get_events(request, port))
        assert len(streams) == STREAMS_MAX - 1

    asyncio.run(main())
