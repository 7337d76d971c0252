"""What nobody expected: answered like any other error, and told in the node's log once, with where it came from."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from kraft_http.app import create_app
from kraft_http.requests.reported_error import ReportedError
from starlette.types import Message

from tests.unit.api.edge_app import CLUSTER, Port
from tests.unit.api.failing_node import asked

TOPICS = f"/v3/clusters/{CLUSTER}/topics"


class Broken(Port):
    """Every request to the cluster meets `problem`."""

    def __init__(self, problem: Exception) -> None:
        self.problem = problem

    async def call(self, *arguments: Any, **named: Any) -> Any:
        raise self.problem

    async def listed_topics(self) -> Any:
        raise self.problem

    async def cluster_facts(self) -> Any:
        raise self.problem

    async def readiness(self) -> Any:
        raise self.problem


@pytest.mark.parametrize(
    ("path", "media_type"), [(TOPICS, "application/json"), ("/v1/brokers", "application/problem+json")]
)
def test_a_failure_has_the_usual_error_format_and_is_logged_once_with_its_traceback(path: str, media_type: str) -> None:
    answer, lines = asked(Broken(ZeroDivisionError("seven by zero")), path, headers={"x-request-id": "night-7"})
    assert (answer.status_code, answer.headers["content-type"]) == (500, media_type)
    problem = answer.json()
    assert (problem["error_code"], problem["status"], problem["instance"], problem["request_id"]) == (
        50002,
        500,
        path,
        "night-7",
    )
    assert problem["message"] == problem["detail"]
    assert f"GET {path}" in problem["message"]
    assert "log of node 1" in problem["message"]
    [line] = lines
    assert (line["level"], line["event"], line["method"], line["path"], line["request_id"]) == (
        "error",
        "request failed",
        "GET",
        path,
        "night-7",
    )
    assert "in cluster_facts" in line["traceback"] or "in listed_topics" in line["traceback"]
    assert line["traceback"].endswith("ZeroDivisionError: seven by zero\n")
    assert "seven" not in answer.text, "what went wrong inside is for the log"


@pytest.mark.parametrize("written", ["", "x" * 129, "a\tb", "ä"])
def test_an_invalid_request_id_is_neither_returned_nor_logged(written: str) -> None:
    answer, [line] = asked(Broken(ZeroDivisionError()), TOPICS, headers=[(b"x-request-id", written.encode())])
    assert "request_id" not in answer.json()
    assert "request_id" not in line


def test_a_stopped_node_is_not_a_failure() -> None:
    for path in (TOPICS, "/v1/brokers"):
        answer, lines = asked(Broken(ConnectionError("the node has stopped")), path)
        assert (answer.status_code, answer.headers["retry-after"], lines) == (503, "1", [])
        assert "the node has stopped" in answer.json()["detail"]


def test_a_slash_in_a_name_is_shown_unescaped() -> None:
    answer, _ = asked(Port(), "/v3/clusters/no%2Fslash/topics")
    assert answer.json()["detail"] == "Cluster no/slash does not exist."
    assert answer.json()["instance"] == "/v3/clusters/no/slash/topics"


async def sent(messages: list[Message], app: Any, path: str, method: str) -> list[Message]:
    """What `app` sends when it receives `messages`, of which the last one repeats."""
    answers: list[Message] = []
    rest = list(messages)

    async def receive() -> Message:
        await asyncio.sleep(0)
        return rest.pop(0) if len(rest) > 1 else rest[0]

    async def send(message: Message) -> None:
        await asyncio.sleep(0)
        answers.append(message)

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
        "headers": [(b"host", b"node")],
        "client": None,
        "server": ("node", 80),
    }
    await app(scope, receive, send)
    return answers


def test_a_failure_after_the_response_started_closes_the_connection_and_is_logged_once() -> None:
    class Halfway(Port):
        async def events(self, after_id: int, wait_seconds: float) -> Any:
            if wait_seconds:  # The first look, before a stream begins, waits for nothing.
                raise ZeroDivisionError

    lines: list[Any] = []
    port: Any = Halfway()

    async def main() -> None:
        transport = httpx.ASGITransport(app=create_app(port, lines.append))
        async with httpx.AsyncClient(transport=transport, base_url="http://node") as http:
            await http.get("/v1/events", headers={"accept": "text/event-stream"})

    with pytest.raises(ReportedError):
        asyncio.run(main())
    assert [line["path"] for line in lines] == ["/v1/events"]


def test_a_client_that_disconnects_while_it_sends_records_is_not_a_failure() -> None:
    class Topic(Port):
        async def call(self, *arguments: Any, **named: Any) -> Any:
            from kraft.protocol.messages.metadata_response import (
                MetadataResponse,
                MetadataResponsePartition,
                MetadataResponseTopic,
            )

            return MetadataResponse(
                topics=[MetadataResponseTopic(name="t", partitions=[MetadataResponsePartition(leader_id=1)])]
            )

    lines: list[Any] = []
    port: Any = Topic()
    messages: list[Message] = [
        {"type": "http.request", "body": b'{"value"', "more_body": True},
        {"type": "http.disconnect"},
    ]
    assert asyncio.run(sent(messages, create_app(port, lines.append), f"{TOPICS}/t/records", "POST")) == []
    assert lines == []
