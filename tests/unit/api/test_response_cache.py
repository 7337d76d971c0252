"""Questions to every broker, which those who look again and again ask once in two seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from kraft_http.app import create_app
from kraft_http.ports import Caller, ListedTopic, TopicFacts, TopicFactsPage, TopicGroups
from kraft_http.requests.response_cache import ANSWERS_MAX, KEPT_SECONDS, ResponseCache

from kraft.common.errors import ApiError
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
from kraft.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kraft.server.http_admin.access import Permissions
from tests.unit.api.edge_app import CLUSTER, Port, refuse

TOPICS = f"/v3/clusters/{CLUSTER}/topics"


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def now(self) -> float:
        return self.seconds


class Question:
    """Answers with how often it was asked, once it may."""

    def __init__(self) -> None:
        self.asked = 0
        self.may_answer = asyncio.Event()
        self.failure: Exception | None = None

    async def ask(self) -> int:
        self.asked += 1
        number = self.asked
        await self.may_answer.wait()
        if self.failure is not None:
            raise self.failure
        return number


def run(test: Callable[[Clock, ResponseCache, Question], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = Clock()
        await test(clock, ResponseCache(clock.now), Question())

    asyncio.run(main())


def test_concurrent_identical_requests_share_one_response() -> None:
    async def test(clock: Clock, recent: ResponseCache, question: Question) -> None:
        waiting = [asyncio.create_task(recent.of("k", question.ask)) for _ in range(5)]
        await asyncio.sleep(0)
        waiting[0].cancel()  # The one who asked goes away.
        await asyncio.sleep(0)
        question.may_answer.set()
        assert await asyncio.gather(*waiting[1:]) == [1, 1, 1, 1]

    run(test)


def test_a_response_is_cached_for_two_seconds_under_its_key() -> None:
    async def test(clock: Clock, recent: ResponseCache, question: Question) -> None:
        question.may_answer.set()
        assert await recent.of("k", question.ask) == 1
        clock.seconds += KEPT_SECONDS - 0.1
        assert await recent.of("k", question.ask) == 1
        assert await recent.of("other", question.ask) == 2
        clock.seconds += 0.1
        assert await recent.of("k", question.ask) == 3

    run(test)


def test_a_failed_query_is_not_cached() -> None:
    async def test(clock: Clock, recent: ResponseCache, question: Question) -> None:
        question.failure = ApiError(ErrorCode.NOT_COORDINATOR)
        question.may_answer.set()
        for _ in range(2):
            with pytest.raises(ApiError):
                await recent.of("k", question.ask)
        assert question.asked == 2

    run(test)


def test_beyond_the_cache_limit_each_request_is_executed_alone() -> None:
    async def test(clock: Clock, recent: ResponseCache, question: Question) -> None:
        question.may_answer.set()
        for key in range(ANSWERS_MAX):
            await recent.of(key, question.ask)
        assert await recent.of("beyond", question.ask) == ANSWERS_MAX + 1
        assert await recent.of("beyond", question.ask) == ANSWERS_MAX + 2
        assert await recent.of(0, question.ask) == 1
        clock.seconds += KEPT_SECONDS
        assert await recent.of("beyond", question.ask) == await recent.of("beyond", question.ask)

    run(test)


class Asked(Port):
    """Two topics and no group. Callers are their Authorization, and counted is what is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def on_behalf_of(self, caller: Caller) -> Any:
        await asyncio.sleep(0)
        return Theirs(self, caller.authorization)


class Theirs(Port):
    def __init__(self, node: Asked, name: str | None) -> None:
        self._node = node
        self._name = name

    def permissions(self) -> Hashable:
        return self._name

    async def listed_topics(self) -> list[ListedTopic]:
        await asyncio.sleep(0)
        return [
            ListedTopic(name=name, topic_id=bytes(16), is_internal=False, partitions_count=1, replication_factor=1)
            for name in ("a", "bb")
        ]

    async def topic_groups(self, topic: str) -> TopicGroups:
        await asyncio.sleep(0)
        self._node.asked.append("groups")
        return TopicGroups(coordinators={}, left_out=0, silent=())

    async def topic_facts(self, topics: Any) -> TopicFactsPage:
        await asyncio.sleep(0)
        self._node.asked.append("facts")
        zero: dict[str, Any] = dict.fromkeys(
            ("leader_bytes", "replica_bytes", "records_in", "bytes_in", "bytes_out", "groups"), 0
        )
        facts = tuple(TopicFacts(name=name, records=len(name), lag=9 - len(name), **zero, tiers=()) for name in topics)
        return TopicFactsPage(topics=facts, silent=())

    async def call(self, api_key: int, version: int, request: Any, *, node_id: int | None = None) -> Any:
        await asyncio.sleep(0)
        if api_key == ApiKey.DESCRIBE_CLUSTER:
            return DescribeClusterResponse(cluster_id=CLUSTER, brokers=[DescribeClusterBroker(broker_id=1, host="a")])
        assert api_key == ApiKey.METADATA
        partition = MetadataResponsePartition(leader_id=1, replica_nodes=[1], isr_nodes=[1])
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="a", port=1)],
            topics=[
                MetadataResponseTopic(name=name, topic_id=bytes(15) + name[:1].encode(), partitions=[partition])
                for name in ("a", "bb")
            ],
        )


def got(port: Asked, requests: list[tuple[str, str]]) -> list[Any]:
    """What each caller is told, all at once."""

    async def ask() -> list[Any]:
        transport = httpx.ASGITransport(app=create_app(port, refuse))  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://node") as http:
            answers = await asyncio.gather(
                *(http.get(path, headers={"Authorization": name}) for name, path in requests)
            )
        assert [answer.status_code for answer in answers] == [200] * len(answers)
        return [answer.json() for answer in answers]

    return asyncio.run(ask())


def test_sorted_lists_are_cached_per_set_of_permissions() -> None:
    node = Asked()
    told = got(
        node,
        [
            ("alice", f"{TOPICS}?sort=-records"),
            ("alice", f"{TOPICS}?sort=records"),
            ("bob", f"{TOPICS}?sort=-records"),
            ("alice", f"{TOPICS}?sort=-lag"),
        ],
    )
    assert [[topic["topic_name"] for topic in each["data"]] for each in told] == [
        ["bb", "a"],
        ["a", "bb"],
        ["bb", "a"],
        ["a", "bb"],
    ]
    assert node.asked == ["facts", "facts"]


def test_empty_topics_are_queried_again() -> None:
    node = Asked()
    got(node, [("alice", f"{TOPICS}?empty_only=true"), ("alice", f"{TOPICS}?empty_only=true")])
    assert node.asked == ["facts", "facts"], "whoever deletes them must not be told of a moment ago"


def test_lists_of_a_topics_groups_are_cached_per_set_of_permissions() -> None:
    node = Asked()
    asked = [(name, f"/v1/topics/{topic}/groups") for name in ("alice", "bob") for topic in ("a", "a", "bb")]
    assert [each["topic_name"] for each in got(node, asked)] == ["a", "a", "bb"] * 2
    assert node.asked == ["groups"] * 4


def test_a_permission_key_compares_principal_host_and_rules_by_identity() -> None:
    rules: Any = SimpleNamespace()
    equal: Any = SimpleNamespace()
    assert rules == equal, "others that say the same are no reason to trust"
    own = Permissions("User:a", "h", rules)
    assert (own, hash(own)) == (Permissions("User:a", "h", rules), hash(Permissions("User:a", "h", rules)))
    for other in (
        Permissions("User:b", "h", rules),
        Permissions("User:a", "i", rules),
        Permissions("User:a", "h", equal),
    ):
        assert own != other
    assert own != "User:a"
