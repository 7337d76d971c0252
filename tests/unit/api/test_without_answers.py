"""What the HTTP admin says when the node behind it, or its quorum, does not answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kraft_http import probes
from kraft_http.requests.deps import cluster_context
from kraft_http.routers import clusters
from starlette.requests import Request

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
from tests.unit.api.edge_app import CLUSTER, Port
from tests.unit.api.failing_node import asked


class Silent(Port):
    """Its loop hangs; it can only tell what brokers there are."""

    async def liveness(self) -> Any:
        await asyncio.Event().wait()

    readiness = cluster_facts = liveness

    async def call(self, api_key: int, *arguments: Any, **named: Any) -> Any:
        if api_key == ApiKey.DESCRIBE_CLUSTER:
            return DescribeClusterResponse(brokers=[DescribeClusterBroker(broker_id=1, host="h", port=9092)])
        return await self.liveness()


class Stopped(Port):
    async def liveness(self) -> Any:
        raise ConnectionError("the node has stopped")

    readiness = liveness


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz"])
@pytest.mark.parametrize(("port", "detail"), [(Silent(), "has not answered"), (Stopped(), "the node has stopped")])
def test_a_health_probe_of_an_unresponsive_node_fails_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, path: str, port: Port, detail: str
) -> None:
    monkeypatch.setattr(probes, "PROBE_SECONDS_MAX", 0.01)
    answer, lines = asked(port, path)
    assert (answer.status_code, answer.json()["ok"], lines) == (503, False, [])
    assert detail in answer.json()["checks"][0]["detail"]


@pytest.mark.parametrize("path", ["/v3/clusters", f"/v3/clusters/{CLUSTER}"])
def test_a_cluster_without_an_active_controller_is_still_described(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(clusters, "QUORUM_SECONDS_MAX", 0.01)
    answer, _ = asked(Silent(), path)
    assert answer.status_code == 200
    told = answer.json()
    assert (told["data"][0] if "data" in told else told)["controller"] is None


def test_the_self_link_of_a_list_contains_the_query() -> None:
    path = f"/v3/clusters/{CLUSTER}/consumer-groups/a%20b%3Fc%2Fd%25/consumers"
    scope = {
        "type": "http",
        "method": "GET",
        "scheme": "http",
        "path": f"/v3/clusters/{CLUSTER}/consumer-groups/a b?c\ue02fd%/consumers",
        "raw_path": path.encode(),
        "query_string": b"q=%3D",
        "headers": [(b"host", b"node:80")],
        "server": ("node", 80),
        "root_path": "",
    }
    port: Any = Port()
    context = asyncio.run(cluster_context(Request(scope), port, CLUSTER))
    assert str(context.url) == f"http://node:80{path}?q=%3D"
