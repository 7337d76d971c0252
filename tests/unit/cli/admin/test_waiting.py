"""What does not end because somebody is away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraft.admin.offsets import EARLIEST
from kraft.cli.admin.app import main
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from kraft.protocol.messages.list_offsets_request import ListOffsetsRequest
from kraft.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.record import Record
from tests.unit.cli.admin.asked import asker
from tests.unit.rpc_client.scripted_cluster import ScriptedCluster, fetched

AWAY_SECONDS = 40.0
T0 = TopicPartition("t", 0)


async def answer(request: Any, _: int | None) -> Any:
    if isinstance(request, ListOffsetsRequest):
        assert request.topics[0].partitions[0].timestamp == EARLIEST
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name="t", partitions=[ListOffsetsPartitionResponse(partition_index=0, offset=0)]
                )
            ]
        )
    return fetched({T0: (ErrorCode.NONE, build_batch([Record(0, 0, None, b"found")], base_offset=0))})


async def answer_as_no_leader(request: Any, node_id: int | None) -> Any:
    """Whoever leads is no leader any more when it is asked for records, and nobody is for a while."""
    return (
        await answer(request, node_id)
        if isinstance(request, ListOffsetsRequest)
        else fetched({T0: (ErrorCode.NOT_LEADER_OR_FOLLOWER, b"")})
    )


async def come_back(cluster: ScriptedCluster) -> None:
    await cluster.world.clock.sleep(AWAY_SECONDS)
    cluster.leaders["t"] = [1]
    cluster.answer = answer


@pytest.mark.parametrize(("leader", "first"), [(-1, answer), (1, answer_as_no_leader)])
def test_consume_resumes_when_a_leader_returns_and_reports_its_wait_once(
    leader: int, first: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kraft.cli.admin.records.consume.ask", asker({"t": [leader]}, first, come_back))
    assert main(["consume", "t", "--from-beginning", "-c", "1"]) == 0
    told = capfd.readouterr()
    assert told.out == "found\n"
    assert told.err.count("\n") == 1
    assert "t-0" in told.err
    assert "LEADER" in told.err


@pytest.mark.parametrize(("leader", "first"), [(-1, answer), (1, answer_as_no_leader)])
def test_consume_ends_at_its_timeout(
    leader: int, first: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    lasted: list[float] = []

    async def watch(cluster: ScriptedCluster) -> None:
        while True:
            lasted.append(cluster.world.clock.now())
            await cluster.world.clock.sleep(0.5)

    monkeypatch.setattr("kraft.cli.admin.records.consume.ask", asker({"t": [leader]}, first, watch))
    assert main(["consume", "t", "--from-beginning", "--timeout", "20"]) == 1
    assert 19 <= lasted[-1] - lasted[0] <= 25, "simulated time"
    assert "t-0" in capfd.readouterr().err


def test_a_group_without_a_coordinator_is_awaited_only_until_the_timeout(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def nobody(_: FindCoordinatorRequest, __: int | None) -> Any:
        return FindCoordinatorResponse(
            coordinators=[Coordinator(key="g", error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)]
        )

    lasted: list[float] = []

    async def watch(cluster: ScriptedCluster) -> None:
        while True:
            lasted.append(cluster.world.clock.now())
            await cluster.world.clock.sleep(0.5)

    monkeypatch.setattr("kraft.cli.admin.records.consume.ask", asker({"t": [1]}, nobody, watch))
    assert main(["consume", "t", "-g", "g", "--timeout", "20"]) == 1
    assert 19 <= lasted[-1] - lasted[0] <= 30, "simulated time"
    assert "kraft: waiting: coordinator of group g" in capfd.readouterr().err


def test_a_missing_topic_is_reported_immediately(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraft.cli.admin.records.consume.ask", asker({}, answer))
    assert main(["consume", "t"]) == 3
