"""The verdict that a node gathers from others, some of which may be of another release."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import trio
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


@pytest.mark.parametrize("elections", [{}, {"count": "many"}, [1], 7])
@pytest.mark.parametrize("document", [[], {"node_id": 3, "unmade_topics": "none"}, {"waiting_replicas": []}])
def test_a_node_whose_words_cannot_be_read_is_unknown(
    monkeypatch: pytest.MonkeyPatch, document: object, elections: object
) -> None:
    """Everybody else is judged all the same."""

    async def facts(_: object) -> ClusterFacts:
        return FACTS

    async def ask(_: object, node_id: int, *__: object) -> object:
        return {"node_id": 2, "offline_log_dirs": ["/d"]} if node_id == 2 else document

    async def run(_: object) -> None:
        pass

    monkeypatch.setattr(node_status, "gather_facts", facts)
    monkeypatch.setattr(node_status, "ask_status", ask)
    monkeypatch.setattr(NodeStatus, "own", lambda _: {"node_id": 1})
    node: Any = SimpleNamespace(
        config=SimpleNamespace(node_id=1),
        remote=None,
        world=SimpleNamespace(
            threads=SimpleNamespace(run=run),
            clock=SimpleNamespace(move_on_after=lambda _: nullcontext(), wall_ms=lambda: 0),
        ),
    )
    channel: Any = Controller(elections)
    health = trio.run(NodeStatus(node, channel).cluster_health)
    assert [(each.node_id, each.is_known, each.offline_log_dirs) for each in health.nodes] == [
        (1, True, []),
        (2, True, ["/d"]),
        (3, False, []),
    ]
    assert "What node 3 told cannot be read here" in next(
        each.summary for each in health.reasons if each.code == "node_status_unknown"
    )
    assert not health.waiting_elections.partitions
