"""Numbers of 64 bits as JSON strings, where a client asks for them."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute
from kraft_http.app import ROUTERS, create_app
from kraft_http.ports import Caller, EventFacts, EventPage, HistoryPage, NodeIdentity, TopicFacts, TopicFactsPage
from kraft_http.requests.int64 import tells_int64

BEYOND_DOUBLE = 2**53 + 1
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"


class Port:
    """A node with one topic, one event and a history."""

    identity = NodeIdentity(node_id=1, roles=("broker",), cluster_id=CLUSTER, version="test", admin_host="node")

    async def on_behalf_of(self, caller: Caller) -> Port:
        await asyncio.sleep(0)
        return self

    async def topic_facts(self, topics: Any) -> TopicFactsPage:
        await asyncio.sleep(0)
        sizes = {"records": BEYOND_DOUBLE, "leader_bytes": 7, "replica_bytes": 21}
        rates = {"records_in": 1.5, "bytes_in": 2.5, "bytes_out": 0.0}
        groups = {"groups": 1, "lag": 5}
        return TopicFactsPage(topics=(TopicFacts(name="t", **sizes, **rates, **groups, tiers=()),), silent=(2,))

    async def newest_events(self, count: int) -> EventPage:
        await asyncio.sleep(0)
        event = EventFacts(id=BEYOND_DOUBLE, time_ms=0, kind="leader.changed", fields={"epoch": 5})
        return EventPage(events=(event,), missed=False, last_id=BEYOND_DOUBLE)

    async def history(self, kind: str, name: str) -> HistoryPage:
        await asyncio.sleep(0)
        return HistoryPage(times_ms=(1, 2), series={"bytes_in": (0.5, 1.0)}, units={}, silent=())


def got(*paths: str) -> list[tuple[int, Any]]:
    """Status and document of each, asked one after the other by one task."""

    async def ask() -> list[tuple[int, Any]]:
        transport = httpx.ASGITransport(app=create_app(Port(), print))  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://node") as http:
            answers = [await http.get(path) for path in paths]
        return [(answer.status_code, answer.json()) for answer in answers]

    return asyncio.run(ask())


def is_known_to(route: Any) -> bool:
    return isinstance(route, APIRoute) and tells_int64(route)


def test_only_64_bit_numbers_become_strings() -> None:
    [(status, document)] = got("/v1/topic-facts?topic=t&int64=string")
    assert status == 200
    [topic] = document["data"]
    assert topic["records"] == str(BEYOND_DOUBLE)
    assert (topic["leader_bytes"], topic["replica_bytes"], topic["records_in"]) == ("7", "21", 1.5)
    assert document["unanswered_brokers"][0]["broker_id"] == 2


def test_the_int64_format_of_one_request_does_not_affect_the_next() -> None:
    path = "/v1/topic-facts?topic=t"
    (_, first), (_, second), (_, third) = got(f"{path}&int64=string", path, f"{path}&int64=number")
    assert first["data"][0]["records"] == str(BEYOND_DOUBLE)
    assert second == third
    assert second["data"][0]["records"] == BEYOND_DOUBLE


def test_the_int64_format_applies_to_responses_that_a_route_encodes_itself() -> None:
    [(_, document)] = got("/v1/events?newest=1&int64=string")
    assert document["last_id"] == document["data"][0]["id"] == str(BEYOND_DOUBLE)
    assert document["data"][0]["fields"] == {"epoch": 5}, "its schema tells nothing of them"


@pytest.mark.parametrize("query", ["int64=text", "int64=", "int64=string&int64=number"])
def test_an_unknown_int64_format_is_refused(query: str) -> None:
    [(status, document)] = got(f"/v1/topic-facts?topic=t&{query}")
    assert (status, document["detail"]) == (400, "int64 is one of: number, string.")


def test_a_response_without_64_bit_numbers_does_not_accept_the_parameter() -> None:
    [(status, document)] = got("/v1/node?int64=string")
    assert status == 400
    assert "no query parameter 'int64'" in document["detail"]


def test_the_openapi_document_describes_the_int64_parameter_where_it_applies() -> None:
    [(_, document)] = got("/openapi.json")
    knowing = {
        path
        for path, operations in document["paths"].items()
        for each in operations.get("get", {}).get("parameters", [])
        if each["name"] == "int64"
    }
    topic = "/v3/clusters/{cluster_id}/topics/{topic_name}"
    assert {"/v1/topic-facts", "/v1/topics/{topic_name}/records:search", f"{topic}/records"} <= knowing
    assert knowing == {route.path for router in ROUTERS for route in router.routes if is_known_to(route)}
    assert not {"/v1/node", topic} & knowing
    records = document["components"]["schemas"]["TopicFactsData"]["properties"]["records"]
    assert (records["type"], records["format"]) == (["integer", "string"], "int64")
    assert records["description"]
