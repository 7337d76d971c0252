"""Topics that are asked for again under the same Idempotency-Key are created once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from kraft_http.app import create_app
from kraft_http.ports import Caller
from kraft_http.requests.errors import ApiProblem
from kraft_http.requests.idempotency import KEPT_SECONDS, KEYS_MAX, IdempotencyKeys

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from tests.unit.api.edge_app import CLUSTER, Port, refuse


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def now(self) -> float:
        return self.seconds


class Change:
    """Answers with how often it was made."""

    def __init__(self) -> None:
        self.made = 0
        self.may_end = asyncio.Event()
        self.failure: Exception | None = None

    async def make(self) -> int:
        self.made += 1
        number = self.made
        await self.may_end.wait()
        if self.failure is not None:
            raise self.failure
        return number


def run(test: Callable[[Clock, IdempotencyKeys, Change], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = Clock()
        await test(clock, IdempotencyKeys(clock.now), Change())

    asyncio.run(main())


def test_a_repeated_request_gets_the_first_response_after_the_first_client_disconnected() -> None:
    async def test(clock: Clock, keys: IdempotencyKeys, change: Change) -> None:
        first = asyncio.create_task(keys.of("User:a", "k", b"body", change.make))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        first.cancel()
        second = asyncio.create_task(keys.of("User:a", "k", b"body", change.make))
        await asyncio.sleep(0)
        change.may_end.set()
        assert await second == 1
        clock.seconds += KEPT_SECONDS - 1
        assert await keys.of("User:a", "k", b"body", change.make) == 1
        clock.seconds += 1
        assert await keys.of("User:a", "k", b"body", change.make) == 2

    run(test)


def test_an_idempotency_key_belongs_to_its_caller_and_one_body() -> None:
    async def test(clock: Clock, keys: IdempotencyKeys, change: Change) -> None:
        change.may_end.set()
        assert await keys.of("User:a", "k", b"body", change.make) == 1
        assert await keys.of("User:b", "k", b"other", change.make) == 2
        with pytest.raises(ApiProblem, match="already used with another body") as refused:
            await keys.of("User:a", "k", b"other", change.make)
        assert (refused.value.status, change.made) == (422, 2)

    run(test)


def test_a_failed_response_is_not_cached() -> None:
    async def test(clock: Clock, keys: IdempotencyKeys, change: Change) -> None:
        change.may_end.set()
        change.failure = ConnectionError("no controller")
        with pytest.raises(ConnectionError):
            await keys.of("User:a", "k", b"body", change.make)
        change.failure = None
        assert await keys.of("User:a", "k", b"other", change.make) == 2

    run(test)


def test_the_oldest_responses_are_evicted_but_no_change_in_progress() -> None:
    async def test(clock: Clock, keys: IdempotencyKeys, change: Change) -> None:
        quick = Change()
        quick.may_end.set()
        waiting = [asyncio.create_task(keys.of("User:a", "slow", b"", change.make))]
        await asyncio.sleep(0)
        for number in range(KEYS_MAX):
            await keys.of("User:a", f"quick-{number}", b"", quick.make)
        assert await keys.of("User:a", "quick-1", b"", quick.make) == 2
        assert await keys.of("User:a", "quick-0", b"", quick.make) == KEYS_MAX + 1
        waiting += [asyncio.create_task(keys.of("User:a", f"slow-{n}", b"", change.make)) for n in range(KEYS_MAX - 1)]
        await asyncio.sleep(0)
        with pytest.raises(ApiProblem, match="are in progress") as refused:
            await keys.of("User:a", "more", b"", change.make)
        assert refused.value.status == 503
        change.may_end.set()
        assert await waiting[0] == 1
        await asyncio.gather(*waiting)

    run(test)


class Creating(Port):
    """Counts the topics that it creates. Callers are their Authorization."""

    def __init__(self) -> None:
        self.created: list[str] = []

    async def on_behalf_of(self, caller: Caller) -> Any:
        await asyncio.sleep(0)
        return For(self, caller.authorization or "")


class For(Port):
    def __init__(self, node: Creating, name: str) -> None:
        self._node = node
        self._name = name

    def principal(self) -> str:
        return self._name

    async def call(self, api_key: int, version: int, request: Any, *, node_id: int | None = None) -> Any:
        await asyncio.sleep(0)
        assert api_key == ApiKey.CREATE_TOPICS
        [topic] = request.topics
        self._node.created.append(topic.name)
        made = CreatableTopicResult(
            name=topic.name, topic_id=bytes([len(self._node.created)] * 16), num_partitions=1, replication_factor=1
        )
        return CreateTopicsResponse(topics=[made])


def posted(node: Creating, *requests: tuple[str, str | None, dict[str, Any]]) -> list[httpx.Response]:
    async def post() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=create_app(node, refuse))  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://node") as http:
            return [
                await http.post(
                    f"/v3/clusters/{CLUSTER}/topics",
                    json=body,
                    headers={"Authorization": name} | ({} if key is None else {"Idempotency-Key": key}),
                )
                for name, key, body in requests
            ]

    return asyncio.run(post())


def test_a_topic_is_created_once_per_idempotency_key() -> None:
    node = Creating()
    first, again, other_body, other_caller = posted(
        node,
        ("alice", "k", {"topic_name": "t"}),
        ("alice", "k", {"topic_name": "t"}),
        ("alice", "k", {"topic_name": "t", "partitions_count": 3}),
        ("bob", "k", {"topic_name": "u"}),
    )
    assert (first.status_code, first.headers["location"]) == (201, again.headers["location"])
    assert (again.status_code, again.content) == (201, first.content)
    assert other_body.status_code == 422
    assert other_caller.status_code == 201
    assert node.created == ["t", "u"]


def test_without_an_idempotency_key_each_request_is_executed() -> None:
    node = Creating()
    first, second = posted(node, ("alice", None, {"topic_name": "t"}), ("alice", None, {"topic_name": "t"}))
    assert node.created == ["t", "t"]
    assert first.json()["topic_id"] != second.json()["topic_id"]


def test_an_idempotency_key_may_be_neither_empty_nor_long() -> None:
    node = Creating()
    answers = posted(node, ("alice", "", {"topic_name": "t"}), ("alice", "k" * 256, {"topic_name": "t"}))
    assert [answer.status_code for answer in answers] == [400, 400]
    assert node.created == []
