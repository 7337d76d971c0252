"""Web pages of others: a browser on an operator's machine must not administer the cluster for them."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kraft_http.app import create_app
from kraft_http.ports import NodeIdentity
from kraft_http.requests.middleware import host_of, is_address

from tests.unit.api.edge_app import CLUSTER, Port, refuse

TOPICS = f"/v3/clusters/{CLUSTER}/topics"
RECORDS = f"{TOPICS}/orders/records"
JSON = {"content-type": "application/json"}


class Bound(Port):
    """A node whose HTTP admin is bound to one address, or to all of them."""

    def __init__(self, bound: str = "127.0.0.1", *further: str) -> None:
        self.identity = NodeIdentity(
            node_id=1,
            roles=("broker", "controller"),
            cluster_id=CLUSTER,
            version="test",
            admin_host=bound,
            advertised_hosts=("127.0.0.1", "broker-7.example.org"),
            allowed_hosts=further,
        )


def asked(
    port: Port, method: str, path: str, headers: dict[str, str], content: bytes | None = None, server: str = "127.0.0.1"
) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=create_app(port, refuse))  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{server}:8080") as http:
            return await http.request(method, path, headers=headers, content=content)

    return asyncio.run(ask())


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("host", ["evil.example:8080", "localhost.evil.example", "10.0.0.9:8080", "a b", ""])
def test_a_request_with_an_unknown_host_name_is_refused_with_the_config_key(method: str, host: str) -> None:
    answer = asked(Bound(), method, TOPICS, {"host": host, **JSON}, b"{}" if method != "GET" else None)
    assert (answer.status_code, answer.json()["error_code"]) == (403, 40302)
    assert "kraft.admin.allowed.hosts" in answer.json()["message"]


@pytest.mark.parametrize(
    ("port", "host"),
    [
        (Bound(), "127.0.0.1:8080"),
        (Bound(), "localhost:8080"),
        (Bound(), "LOCALHOST."),
        (Bound("::1"), "[::1]:8080"),
        (Bound(), "broker-7.example.org:8080"),
        (Bound("0.0.0.0"), "192.168.7.7:9999"),
        (Bound("::"), "[fe80::1]"),
        (Bound(""), "10.0.0.1"),
        (Bound("127.0.0.1", "Kafka.Example.org"), "kafka.example.org:443"),
    ],
)
def test_a_request_with_a_configured_host_name_is_served(port: Port, host: str) -> None:
    assert asked(port, "GET", "/openapi.json", {"host": host}).status_code == 200


def test_the_local_address_of_a_connection_is_an_accepted_host_name() -> None:
    served = asked(Bound("kafka-1.example.org"), "GET", "/openapi.json", {"host": "10.0.0.7"}, server="10.0.0.7")
    assert served.status_code == 200
    refused = asked(Bound("kafka-1.example.org"), "GET", "/openapi.json", {"host": "10.0.0.8"}, server="10.0.0.7")
    assert refused.status_code == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://localhost:3000"},
        {"origin": "http://127.0.0.1:3000"},
        {"origin": "http://broker-7.example.org"},
        {"origin": "http://localhost"},
        {"origin": "null"},
        {"origin": "http://[broken"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "origin": "http://localhost:8080"},
    ],
)
def test_a_change_requested_by_a_page_of_another_origin_is_refused(method: str, headers: dict[str, str]) -> None:
    answer = asked(Bound(), method, TOPICS, {"host": "localhost:8080", **JSON, **headers}, b"{}")
    assert (answer.status_code, answer.json()["error_code"]) == (403, 40303)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://localhost:8080", "sec-fetch-site": "same-origin"},
        {"origin": "HTTP://LOCALHOST:8080"},
        {"sec-fetch-site": "none"},
        {"origin": "https://admin.example.org"},
    ],
)
def test_a_change_requested_by_the_own_page_or_without_a_page_is_executed(headers: dict[str, str]) -> None:
    port = Bound("127.0.0.1", "admin.example.org")
    answer = asked(port, "POST", TOPICS, {"host": "localhost:8080", **JSON, **headers}, b'{"topic_name": "t"}')
    assert answer.status_code == 503, "the cluster has to be asked"


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_link_from_another_site_may_be_followed(method: str) -> None:
    headers = {"host": "localhost:8080", "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert asked(Bound(), method, "/openapi.json", headers).status_code in (200, 405)


@pytest.mark.parametrize(
    ("path", "content_type"),
    [(RECORDS, kind) for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None)]
    + [(f"{RECORDS}:batch", "text/plain"), (TOPICS, "text/plain;charset=application/json"), (TOPICS, None)],
)
def test_a_body_without_a_json_content_type_is_refused(path: str, content_type: str | None) -> None:
    headers = {"host": "localhost:8080"} | ({} if content_type is None else {"content-type": content_type})
    answer = asked(Bound(), "POST", path, headers, b'{"value": {"type": "JSON", "data": 1}}')
    assert (answer.status_code, answer.json()["error_code"]) == (415, 415)
    assert "Content-Type: application/json" in answer.json()["message"]


@pytest.mark.parametrize(
    "content_type", ["application/json", "Application/JSON; charset=utf-8", "application/vnd.a+json"]
)
def test_json_is_accepted_under_any_json_content_type(content_type: str) -> None:
    headers = {"host": "localhost:8080", "content-type": content_type}
    assert asked(Bound(), "POST", TOPICS, headers, b'{"topic_name": "t"}').status_code == 503


def test_a_request_without_a_host_header_is_not_from_a_browser() -> None:
    """HTTP/1.0, which load balancers' probes speak."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "http_version": "1.0",
        "method": "GET",
        "scheme": "http",
        "path": "/openapi.json",
        "raw_path": b"/openapi.json",
        "query_string": b"",
        "root_path": "",
        "headers": [],
        "client": None,
        "server": ("10.0.0.1", 8080),
    }
    port: Any = Bound()
    asyncio.run(create_app(port, refuse)(scope, receive, send))
    assert sent[0]["status"] == 200


@given(st.text(max_size=60))
def test_any_host_header_is_parsed_or_rejected(text: str) -> None:
    host = host_of(text)
    assert host is None or host == host_of(host if ":" not in host else f"[{host}]")


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)), st.one_of(st.none(), st.integers(0, 65535)))
def test_an_address_is_parsed_with_and_without_a_port(address: Any, port: int | None) -> None:
    shown = f"[{address}]" if address.version == 6 else str(address)
    host = host_of(shown if port is None else f"{shown}:{port}")
    assert host is not None
    assert is_address(host)
