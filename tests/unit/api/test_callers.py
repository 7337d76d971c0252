"""Nothing but probes is answered to somebody who is not known, and the rest is answered for the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from kraft_http.app import ROUTERS, create_app
from kraft_http.ports import Caller, EventPage, LoginRefused
from kraft_http.requests.scopes import CERTIFICATE, PROBES, SOURCE

from tests.unit.api.edge_app import CLUSTER, Port, refuse


class Guarded(Port):
    """Knows alice; who she is, the answers tell."""

    def __init__(self) -> None:
        self.callers: list[Caller] = []
        self.refusal = LoginRefused(401, "Log in.")

    async def on_behalf_of(self, caller: Caller) -> Port:
        await asyncio.sleep(0)
        self.callers.append(caller)
        if caller.authorization != "Basic alice":
            raise self.refusal
        return Hers()

    async def liveness(self) -> list[Any]:
        await asyncio.sleep(0)
        return []

    readiness = liveness


class Asking(Guarded):
    identity = replace(Port.identity, asks_for_password=True)


class Hers(Port):
    async def events(self, after_id: int, wait_seconds: float) -> EventPage:
        await asyncio.sleep(0)
        return EventPage(events=(), missed=False, last_id=4711)


def asked(port: Any, method: str, path: str, *, state: dict[str, Any] | None = None, **more: Any) -> httpx.Response:
    async def ask() -> httpx.Response:
        app = create_app(port, refuse)

        async def connected(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, "state": state or {}}, receive, send)

        transport = httpx.ASGITransport(app=connected)  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://node") as http:
            return await http.request(method, path, **more)

    return asyncio.run(ask())


def routes() -> Iterator[tuple[str, str]]:
    for router in ROUTERS:
        for route in router.routes:
            for method in sorted(route.methods):  # type: ignore[attr-defined]
                yield method, route.path.replace("{cluster_id}", CLUSTER)  # type: ignore[attr-defined]
    yield "GET", "/openapi.json"
    yield "GET", "/nothing"


def test_every_route_requires_authentication() -> None:
    open_to_all = []
    for method, path in routes():
        answer = asked(Asking(), method, path)
        if answer.status_code == 401:
            assert answer.headers["www-authenticate"] == 'Basic realm="kraft"'
        else:
            open_to_all.append(path)
    assert sorted(set(open_to_all)) == sorted([*PROBES, "/logout"])


def test_a_refused_login_explains_the_remedy() -> None:
    answer = asked(Guarded(), "POST", "/v3/clusters", json={"a": 1})
    body = answer.json()
    assert (answer.status_code, body["error_code"], body["detail"]) == (401, 40101, "Log in.")
    assert answer.headers["connection"] == "close", "its body is not read"
    assert "connection" not in asked(Guarded(), "GET", "/v3/clusters").headers


def test_a_client_that_guesses_passwords_gets_a_retry_after_header() -> None:
    port = Guarded()
    port.refusal = LoginRefused(429, "Too many.", 7)
    answer = asked(port, "GET", "/v1/node")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
    assert "www-authenticate" not in answer.headers


def test_routes_use_the_permissions_of_the_caller() -> None:
    answer = asked(Guarded(), "GET", "/v1/events", headers={"Authorization": "Basic alice"})
    assert answer.json()["last_id"] == 4711


def test_the_client_address_is_that_of_the_connection_whatever_the_headers() -> None:
    port = Guarded()
    asked(
        port, "GET", "/v1/node", state={SOURCE: "10.0.0.7", CERTIFICATE: b"der"}, headers={"X-Forwarded-For": "9.9.9.9"}
    )
    assert [(caller.host, caller.certificate) for caller in port.callers] == [("10.0.0.7", b"der")]


@pytest.mark.parametrize("path", PROBES)
def test_health_probes_are_answered_without_a_login(path: str) -> None:
    port = Guarded()
    assert asked(port, "GET", path).status_code == 200
    assert port.callers == []


def test_a_browser_logout_clears_its_credentials() -> None:
    answer = asked(Asking(), "GET", "/logout")
    assert (answer.status_code, answer.headers["clear-site-data"]) == (200, '"cookies"')
    assert 'href="/"' in answer.text
    assert asked(Port(), "GET", "/logout").status_code == 404


def test_the_api_describes_its_login_methods() -> None:
    def document(port: Any) -> Any:
        return asked(port, "GET", "/openapi.json", headers={"Authorization": "Basic alice"}).json()

    told = document(Asking())
    assert told["components"]["securitySchemes"] == {"basic": {"type": "http", "scheme": "basic"}}
    assert (told["security"], told["paths"]["/livez"]["get"]["security"]) == ([{"basic": []}], [])
    assert "security" not in document(Port())
