"""Deleting records: all leaders at once, each partition by itself, and in as many attempts as it takes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from kraft.admin.delete_records import TO_END, Deletion, delete_records
from kraft.admin.errors import Refused
from kraft.common.errors import ApiError, KraftError
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode, is_retriable
from kraft.protocol.messages.delete_records_request import DeleteRecordsRequest
from kraft.protocol.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kraft.protocol.messages.list_offsets_request import ListOffsetsRequest
from kraft.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kraft.rpc_client.connection import Disconnected

GROWTH = 10
A, B, C = (TopicPartition("t", index) for index in range(3))


class Leaders:
    """A port to partitions that each have a leader of their own (partition N: node N + 1), and GROWTH records more at
    each request. `codes` are what DeleteRecords is answered with, in turn, the last one always."""

    def __init__(self, **codes: list[int]) -> None:
        self.codes = {int(name[1:]): told for name, told in codes.items()}
        self.unled: set[TopicPartition] = set()
        self.silent: set[int] = set()
        self.hung: set[int] = set()
        self.end = 0
        self.begins: dict[int, int] = {}
        self.asked: list[tuple[int, type]] = []
        self.attempts_max = 3

    async def by_leader(
        self, partitions: Iterable[TopicPartition], unled: dict[TopicPartition, ApiError]
    ) -> dict[int, list[TopicPartition]]:
        wanted = list(partitions)
        for each in self.unled.intersection(wanted):
            unled[each] = Refused(ErrorCode.LEADER_NOT_AVAILABLE, str(each))
        return {each.partition + 1: [each] for each in wanted if each not in self.unled}

    async def retrying(self, operation: Callable[[], Awaitable[Any]]) -> Any:
        last: Exception | None = None
        for _ in range(self.attempts_max):
            with trio.move_on_after(10):
                try:
                    return await operation()
                except (KraftError, TimeoutError) as problem:
                    if isinstance(problem, ApiError) and not is_retriable(problem.code):
                        raise
                    last = problem
        raise KraftError("not done in time") from last

    async def of_each(self, ask: Callable[[int], Awaitable[Any]], items: Iterable[int]) -> list[Any]:
        async with trio.open_nursery() as nursery:
            for item in items:
                nursery.start_soon(ask, item)
        return []

    async def ask_brokers(self, ask: Callable[[int], Awaitable[Any]], items: Iterable[int]) -> list[Any]:
        return [await ask(item) for item in items if item not in self.silent]

    async def ask(self, request: Any, answer: type, *, node_id: int) -> Any:
        await trio.lowlevel.checkpoint()
        self.end += GROWTH
        self.asked.append((node_id, type(request)))
        index = node_id - 1
        if node_id in self.hung:
            await trio.sleep_forever()
        if node_id in self.silent:
            raise Disconnected(f"node {node_id} is gone")
        if isinstance(request, ListOffsetsRequest):
            told = ListOffsetsPartitionResponse(partition_index=index, offset=self.end)
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[told])])
        assert isinstance(request, DeleteRecordsRequest)
        codes = self.codes.get(index, [ErrorCode.NONE])
        code = codes.pop(0) if len(codes) > 1 else codes[0]
        self.begins[index] = request.topics[0].partitions[0].offset
        result = DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=self.begins[index] if not code else -1, error_code=code
        )
        return DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(name="t", partitions=[result])])


def deleted(port: Any, before: dict[TopicPartition, int]) -> Deletion:
    return trio.run(delete_records, port, before)


def test_a_retry_deletes_no_records_produced_meanwhile() -> None:
    port = Leaders(_0=[ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE])
    assert deleted(port, {A: TO_END}).require() == {A: GROWTH}
    assert [kind for _, kind in port.asked] == [ListOffsetsRequest, DeleteRecordsRequest, DeleteRecordsRequest]


def test_no_end_offset_is_requested_for_a_given_offset() -> None:
    port = Leaders()
    assert deleted(port, {A: 5}).require() == {A: 5}
    assert port.asked == [(1, DeleteRecordsRequest)]


@pytest.mark.parametrize("before", [5, TO_END])
def test_a_failing_partition_does_not_block_the_others(before: int) -> None:
    port = Leaders(_1=[ErrorCode.REQUEST_TIMED_OUT])
    outcome = deleted(port, dict.fromkeys((A, B, C), before))
    assert list(outcome.begins) == [A, C]
    [(partition, problem)] = outcome.failed.items()
    assert partition == B
    assert "a replica has not followed yet (REQUEST_TIMED_OUT)" in str(problem)
    with pytest.raises(Refused, match="t-1"):
        outcome.require()
    nodes = [node for node, kind in port.asked if kind is DeleteRecordsRequest]
    assert (sorted(nodes[:3]), nodes[3:]) == ([1, 2, 3], [2, 2]), "only the one that failed is asked again"


def test_a_partition_without_a_live_leader_does_not_block_the_others() -> None:
    port = Leaders()
    port.unled, port.silent = {A}, {2}
    outcome = deleted(port, {A: TO_END, B: 5, C: TO_END})
    assert list(outcome.begins) == [C]
    assert "LEADER_NOT_AVAILABLE" in str(outcome.failed[A])
    assert str(outcome.failed[B]) == "node 2 is gone"


def test_a_hanging_leader_does_not_delay_the_others() -> None:
    port: Any = Leaders()
    port.hung = {1}
    outcome = trio.run(delete_records, port, {A: 5, B: 5}, clock=MockClock(autojump_threshold=0))
    assert outcome.begins == {B: 5}
    assert str(outcome.failed[A]) == "not done in time"


def test_a_permanent_error_is_not_retried() -> None:
    port = Leaders(_0=[ErrorCode.POLICY_VIOLATION], _1=[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
    outcome = deleted(port, {A: 5, B: 5, C: 5})
    assert (outcome.begins, list(outcome.failed)) == ({C: 5}, [A, B])
    assert len(port.asked) == 3
