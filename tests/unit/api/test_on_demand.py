"""Probes and metrics without FastAPI, which the first other request loads."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from kraft_http.app import create_app
from kraft_http.on_demand import ANSWERS, OnDemand
from kraft_http.ports import Caller, Check, LoginRefused

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from tests.unit.api.edge_app import Port, refuse

Answer = tuple[int, dict[str, str], str]


class Serving(Port):
    """A node with two checks and one metric. `problem` is raised instead of metrics."""

    problem: Exception | None = None

    async def liveness(self) -> Sequence[Check]:
        return [Check(name="loop", ok=True, detail="0 ms")]

    async def readiness(self) -> Sequence[Check]:
        return [Check(name="registered", ok=True, detail="epoch 1")]

    async def replicas_in_sync(self) -> Check:
        return Check(name="in sync", ok=False, detail="2 are not")

    async def metrics(self, by: str | None) -> list[str]:
        if self.problem is not None:
            raise self.problem
        return [f"up 1 {by}\n"]


class Guarded(Serving):
    """A node that no caller may enter."""

    async def on_behalf_of(self, caller: Caller) -> Port:
        raise LoginRefused(401, "Log in.")


class Edge:
    """The application on demand over one node, and how often the whole was loaded."""

    def __init__(self, port: Any) -> None:
        self.loads = 0
        self._port = port
        self.app = OnDemand(port, self._load)

    def _load(self) -> Any:
        self.loads += 1
        return create_app(self._port, refuse)

    def ask(self, target: str, *, host: str = "localhost", method: str = "GET", app: Any = None) -> Answer:
        path, _, query = target.partition("?")
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "scheme": "http",
            "query_string": query.encode(),
            "headers": [(b"host", host.encode())],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 9644),
        }
        said: list[Any] = []

        async def send(message: Any) -> None:
            said.append(message)

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        asyncio.run((app or self.app)(scope, receive, send))
        headers = {name.decode(): value.decode() for name, value in said[0]["headers"]}
        return said[0]["status"], headers, b"".join(part.get("body", b"") for part in said[1:]).decode()

    def ask_whole(self, target: str, **how: Any) -> Answer:
        """The same request to the whole application."""
        return self.ask(target, app=create_app(self._port, refuse), **how)


@pytest.mark.parametrize("form", ANSWERS, ids=lambda form: f"{form[0]}?{form[1].decode()}")
def test_early_responses_are_those_of_the_whole_application(form: tuple[str, bytes]) -> None:
    edge = Edge(Serving())
    target = f"{form[0]}?{form[1].decode()}" if form[1] else form[0]
    early = edge.ask(target)
    assert early == edge.ask_whole(target)
    assert edge.loads == 0


@pytest.mark.parametrize(
    "target", ["/readyz?in_sync=perhaps", "/metrics?by=color", "/livez?x=1", "/nowhere", "/v1/node"]
)
def test_other_requests_load_the_whole_application_once(target: str) -> None:
    edge = Edge(Serving())
    expected = edge.ask_whole(target)
    assert edge.ask(target) == expected == edge.ask(target)
    assert edge.loads == 1
    assert edge.ask("/livez") == edge.ask_whole("/livez")


def test_a_request_that_fails_is_answered_by_the_whole_application() -> None:
    node = Serving()
    node.problem = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not you")
    edge = Edge(node)
    assert edge.ask("/metrics")[0] == 403
    assert edge.loads == 1


def test_a_foreign_host_is_refused_before_metrics_are_gathered() -> None:
    edge = Edge(Serving())
    assert edge.ask("/metrics", host="evil.example")[0] == 403
    assert edge.loads == 0


def test_metrics_need_a_login_and_probes_need_none() -> None:
    edge = Edge(Guarded())
    assert edge.ask("/metrics")[0] == 401
    assert edge.ask("/readyz")[0] == 200


def test_nothing_that_is_needed_early_imports_fastapi_or_pydantic() -> None:
    program = (
        "import sys, kraft.server.http_admin.service, kraft_http.on_demand, kraft_http.requests.connections, "
        "kraft_http.requests.handshakes; print(sorted({'fastapi', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"
