"""Status keys in DescribeConfigs: told where they are named, in pages that fit the wire, and not without bound."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.common.errors import ApiError
from kraft.common.status_keys import (
    CLUSTER_HEALTH,
    NODE_STATUS,
    PAGE_CHARS,
    STATUS_KEYS,
    TOPIC_FACTS,
    TOPIC_GROUPS,
    WAITING_ELECTIONS,
    document_of,
    pages_of,
)
from kraft.handlers.configs import describe_configs as module
from kraft.handlers.configs.describe_configs import STATUSES_MAX
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kraft.world.simulated import Universe
from tests.unit.server.brokers import NODE, Broker, broker, simulate

TOPIC_KIND, BROKER_KIND = 2, 4
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@given(JSON.filter(lambda document: document is not None), st.integers(0, 3))
def test_a_status_document_is_reassembled_from_pages_in_any_order(document: Any, repeats: int) -> None:
    whole = [document, "é" * 6_000 * repeats]
    pages = list(pages_of(NODE_STATUS, whole))
    assert all(len(value.encode()) <= PAGE_CHARS for _, value in pages)
    assert document_of(NODE_STATUS, [*reversed(pages), ("kraft.other.0", "x"), ("broker.rack", None)]) == whole


def test_a_node_that_does_not_know_a_status_key_returns_no_value() -> None:
    assert document_of(NODE_STATUS, []) is None
    with pytest.raises(ValueError):
        document_of(NODE_STATUS, [(f"{NODE_STATUS}.1", "{}}")])


class Told:
    """What a broker tells, and what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self.groups: list[str | None] = []

    async def report(self, key: str, topic: str | None, group: str | None, client: str | None = None) -> Any | None:
        self.asked.append((key, topic))
        self.groups.append(group)
        if topic == "silent":
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "no controller")
        return None if key == CLUSTER_HEALTH and topic is not None else {"key": key, "topic": topic}


async def described(made: Broker, kind: int, name: str, *keys: str) -> Any:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    return (await made.ask(DescribeConfigsRequest(resources=[resource]), 4)).results[0]


def test_a_status_is_returned_only_when_its_key_is_requested() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            told = made.server.services.status = Told()  # type: ignore[assignment]
            made.topic("t")
            made.topic("silent")
            for kind, name in ((BROKER_KIND, ""), (BROKER_KIND, str(NODE)), (TOPIC_KIND, "t")):
                result = await described(made, kind, name)
                assert not [each.name for each in result.configs if each.name.startswith("kraft.status.")]
            assert told.asked == []
            result = await described(made, BROKER_KIND, str(NODE), NODE_STATUS, "broker.rack")
            entries = [(each.name, each.value) for each in result.configs]
            assert document_of(NODE_STATUS, entries) == {"key": NODE_STATUS, "topic": None}
            assert "broker.rack" in dict(entries)
            result = await described(made, TOPIC_KIND, "t", WAITING_ELECTIONS)
            assert [each.read_only for each in result.configs] == [True]
            assert (await described(made, TOPIC_KIND, "t", CLUSTER_HEALTH)).configs == []
            result = await described(made, TOPIC_KIND, "silent", WAITING_ELECTIONS, "retention.ms")
            assert (result.error_code, result.configs) == (ErrorCode.REQUEST_TIMED_OUT, [])

    simulate(play)


@pytest.mark.parametrize("is_super", [True, False])
def test_only_super_users_get_group_ids_in_a_status(monkeypatch: pytest.MonkeyPatch, is_super: bool) -> None:
    """As nodes are. Others may see a topic and not the groups that read it."""
    monkeypatch.setattr(module, "access_of", lambda context, node: SimpleNamespace(is_super=is_super))

    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            told = made.server.services.status = Told()  # type: ignore[assignment]
            made.topic("t")
            result = await described(made, TOPIC_KIND, "t", TOPIC_GROUPS, TOPIC_FACTS)
            assert [key for key, _ in told.asked] == [TOPIC_FACTS, *([TOPIC_GROUPS] if is_super else [])]
            assert len(result.configs) == 1 + is_super

    simulate(play)


def test_a_request_for_several_topics_returns_the_status_of_each() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.server.services.status = Told()  # type: ignore[assignment]
            made.topic("t")
            made.topic("u")
            resources = [
                DescribeConfigsResource(resource_type=TOPIC_KIND, resource_name=name, configuration_keys=[TOPIC_FACTS])
                for name in ("t", "u")
            ]
            results = (await made.ask(DescribeConfigsRequest(resources=resources), 4)).results
            told = [[(each.name, json.loads(each.value)["topic"]) for each in result.configs] for result in results]
            assert told == [[(f"{TOPIC_FACTS}.0", "t")], [(f"{TOPIC_FACTS}.0", "u")]]

    simulate(play)


def test_the_number_of_statuses_in_one_request_is_limited() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            told = made.server.services.status = Told()  # type: ignore[assignment]
            names = [f"t{number}" for number in range(STATUSES_MAX + 1)]
            for name in names:
                made.topic(name)
            resources = [
                DescribeConfigsResource(
                    resource_type=TOPIC_KIND, resource_name=name, configuration_keys=[WAITING_ELECTIONS]
                )
                for name in names
            ]
            results = (await made.ask(DescribeConfigsRequest(resources=resources), 4)).results
            assert [each.error_code for each in results] == [0] * STATUSES_MAX + [ErrorCode.POLICY_VIOLATION]
            assert len(told.asked) == STATUSES_MAX

    simulate(play)


def test_the_decision_record_lists_every_status_key() -> None:
    text = (Path(__file__).parents[4] / "docs/adr/0012-status-keys.md").read_text()
    listed = [line.split("`")[1] for line in text.splitlines() if line.startswith("| `kraft.status.")]
    assert sorted(listed) == sorted(STATUS_KEYS)
