"""Several nodes of a cluster that are asked at once."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kraft.admin.errors import Refused
from kraft.admin.transport import AT_ONCE_MAX
from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.connection import Disconnected
from kraft.rpc_client.errors import NoBroker
from kraft.world.simulated import Universe
from tests.unit.rpc_client.scripted_cluster import ScriptedCluster


async def nothing(*_: object) -> Any:
    raise AssertionError("nobody is asked")


def cluster_of(universe: Universe) -> Cluster:
    return ScriptedCluster(universe, {}, nothing)


def test_concurrent_requests_are_limited_and_responses_keep_their_order() -> None:
    async def main(universe: Universe) -> None:
        under_way, most = 0, 0

        async def ask(number: int) -> int:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            for _ in range(50 - number):
                await trio.lowlevel.checkpoint()
            under_way -= 1
            return number

        assert await cluster_of(universe).of_each(ask, range(50)) == list(range(50))
        assert most == AT_ONCE_MAX

    Universe(1).run(main)


def test_the_first_failure_cancels_the_other_requests_and_is_raised_alone() -> None:
    async def main(universe: Universe) -> None:
        started, ended = [], []

        async def ask(number: int) -> int:
            started.append(number)
            if number == 1:
                while len(started) < 3:
                    await trio.lowlevel.checkpoint()
                raise Refused(ErrorCode.POLICY_VIOLATION, "it")
            try:
                await trio.sleep_forever()
            finally:
                ended.append(number)

        with pytest.raises(Refused, match="it: "):
            await cluster_of(universe).of_each(ask, range(3))
        assert sorted(ended) == [0, 2]

    Universe(1).run(main)


def test_unresponsive_brokers_are_left_out_on_request() -> None:
    async def main(universe: Universe) -> None:
        async def ask(broker_id: int) -> int:
            if broker_id == 2:
                raise Disconnected("broker 2 has gone")
            return 10 * broker_id

        assert await cluster_of(universe).ask_brokers(ask, [1, 2, 3]) == [10, 30]
        with pytest.raises(Disconnected):
            await cluster_of(universe).of_each(ask, [1, 2, 3])

    Universe(1).run(main)


def test_a_broker_that_may_be_left_out_is_asked_once_without_retries() -> None:
    async def main(universe: Universe) -> None:
        attempts: list[int] = []

        async def answer(request: Any, node_id: int | None) -> Any:
            assert node_id is not None
            attempts.append(node_id)
            if node_id == 2:
                raise NoBroker("broker 2 is not among the live brokers")
            if node_id == 3 and attempts.count(3) == 1:
                raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "loading")
            return node_id

        cluster = ScriptedCluster(universe, {}, answer)

        async def ask(broker_id: int) -> int:
            told: int = await cluster.retrying(lambda: cluster.call(None, node_id=broker_id))
            return told

        began = universe.world_for("client").clock.now()
        assert await cluster.ask_brokers(ask, [1, 2, 3]) == [1, 3]
        assert universe.world_for("client").clock.now() - began < 1
        assert (attempts.count(2), attempts.count(3)) == (1, 2), "a broker that answers may be asked again"
        assert cluster.silent == {2: "broker 2 is not among the live brokers"}

        async def answer_all(request: Any, node_id: int | None) -> Any:
            return node_id

        cluster.answer = answer_all
        assert await cluster.ask_brokers(ask, [2]) == [2]
        assert cluster.silent == {}

    Universe(1).run(main)
