"""The verdict that a node gathers from others, some of which may be of another release."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from kraft_http.health.health import ClusterHealth
from kraft_http.ports import BrokerFacts, ClusterFacts

from kraft.common.errors import ApiError
from kraft.common.status_keys import WAITING_ELECTIONS, pages_of
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_configs_request import DescribeConfigsRequest
from kraft.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kraft.server.facts import node_status
from kraft.server.facts.node_status import NodeStatus

FACTS = ClusterFacts(
    controller_id=1,
    controller_epoch=4,
    voters=(1,),
    brokers=tuple(BrokerFacts(node_id=number, host="a", port=number) for number in (1, 2, 3)),
    topics_count=0,
    partitions_count=0,
    impaired=(),
)


class Controller:
    """A channel to a controller that tells of waits in `document`, and of no quorum."""

    def __init__(self, document: object) -> None:
        self.document = document

    async def send(self, request: object, timeout: float) -> DescribeConfigsResponse:
        if not isinstance(request, DescribeConfigsRequest):
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        pages = pages_of(WAITING_ELECTIONS, self.document)
        entries = [DescribeConfigsResourceResult(name=name, value=value) for name, value in pages]
        return DescribeConfigsResponse(results=[DescribeConfigsResult(configs=entries)])


def gathered(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[..., Awaitable[object]], channel: Any, facts: ClusterFacts = FACTS
) -> ClusterHealth:
    """The verdict of node 1, which hears from others what `ask` returns."""

    async def gather(_: object) -> ClusterFacts:
        return facts

    async def run(_: object) -> None:
        pass

    monkeypatch.setattr(node_status, "gather_facts", gather)
    monkeypatch.setattr(node_status, "ask_status", ask)
    monkeypatch.setattr(NodeStatus, "own", lambda _: {"node_id": 1})
    node: Any = SimpleNamespace(
        config=SimpleNamespace(node_id=1),
        remote=None,
        world=SimpleNamespace(
            threads=SimpleNamespace(run=run),
            clock=SimpleNamespace(move_on_after=trio.move_on_after, wall_ms=lambda: 0),
        ),
    )
    return trio.run(NodeStatus(node, channel).cluster_health)


@pytest.mark.parametrize("elections", [{}, {"count": "many"}, [1], 7])
@pytest.mark.parametrize("document", [[], {"node_id": 3, "unmade_topics": "none"}, {"waiting_replicas": []}])
def test_a_node_with_an_unreadable_status_is_shown_as_unknown(
    monkeypatch: pytest.MonkeyPatch, document: object, elections: object
) -> None:
    """Everybody else is judged all the same."""

    async def ask(_: object, node_id: int, *__: object) -> object:
        return {"node_id": 2, "offline_log_dirs": ["/d"]} if node_id == 2 else document

    health = gathered(monkeypatch, ask, Controller(elections))
    assert [(each.node_id, each.is_known, each.offline_log_dirs) for each in health.nodes] == [
        (1, True, []),
        (2, True, ["/d"]),
        (3, False, []),
    ]
    assert "What node 3 reported cannot be decoded here" in next(
        each.summary for each in health.reasons if each.code == "node_status_unknown"
    )
    assert not health.waiting_elections.partitions


def test_a_live_node_that_other_nodes_cannot_reach_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_status, "ANSWER_SECONDS_MAX", 0.05)

    async def ask(_: object, node_id: int, *__: object) -> object:
        if node_id == 2:
            raise ConnectionError("broker 2: a:2 refuses connections")
        await trio.sleep_forever()
        return None

    reasons = {each.code: each for each in gathered(monkeypatch, ask, Controller([])).reasons}
    assert reasons["nodes_unreachable"].summary == (
        "Node 2 is live, but node 1 cannot reach it (broker 2: a:2 refuses connections). "
        "Node 3 is live, but node 1 cannot reach it (no answer within 0.05 s)."
    )
    assert "advertised.listeners" in reasons["nodes_unreachable"].remedy


def test_a_node_that_shuts_down_or_refuses_the_status_request_is_not_shown_as_unreachable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopping = replace(FACTS, brokers=(*FACTS.brokers[:2], replace(FACTS.brokers[2], shutting_down=True)))

    async def ask(_: object, node_id: int, *__: object) -> object:
        if node_id == 2:
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        raise ConnectionError("it is gone")

    reasons = gathered(monkeypatch, ask, Controller([]), stopping).reasons
    assert "nodes_unreachable" not in [each.code for each in reasons]
