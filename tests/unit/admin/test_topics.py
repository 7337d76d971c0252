"""Operations on topics that may take several attempts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import pytest
import trio

from kraft.admin.errors import Refused
from kraft.admin.offsets import LATEST, offsets_at
from kraft.admin.topics import TO_END, delete_records
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

LEADER = 1
GROWTH = 10
PARTITION = TopicPartition("t", 0)


class GrowingPartition:
    """A port to the leader of a partition that has GROWTH records more at each request. A follower keeps it from
    answering the first deletion in time."""

    def __init__(self) -> None:
        self.end = 0
        self.begin = 0
        self.asked: list[type] = []

    async def by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        return {LEADER: list(partitions)}

    async def retrying(self, operation: Callable[[], Awaitable[Any]], *, final: Sequence[int] = ()) -> Any:
        try:
            return await operation()
        except Refused:
            return await operation()

    async def of_each(self, ask: Callable[[int], Awaitable[Any]], items: Iterable[int]) -> list[Any]:
        return [await ask(item) for item in items]

    async def ask(self, request: Any, answer: type, *, node_id: int) -> Any:
        await trio.lowlevel.checkpoint()
        self.end += GROWTH
        self.asked.append(type(request))
        if isinstance(request, ListOffsetsRequest):
            told = ListOffsetsPartitionResponse(partition_index=0, offset=self.end)
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[told])])
        assert isinstance(request, DeleteRecordsRequest)
        offset = request.topics[0].partitions[0].offset
        self.begin = self.end if offset == TO_END else offset
        is_first = self.asked.count(DeleteRecordsRequest) == 1
        result = DeleteRecordsPartitionResult(
            partition_index=0,
            low_watermark=self.begin,
            error_code=ErrorCode.REQUEST_TIMED_OUT if is_first else ErrorCode.NONE,
        )
        return DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(name="t", partitions=[result])])


def test_another_attempt_deletes_no_records_that_have_come_since() -> None:
    port: Any = GrowingPartition()
    assert trio.run(delete_records, port, {PARTITION: TO_END}) == {PARTITION: GROWTH}
    assert port.begin == GROWTH
    assert port.asked == [ListOffsetsRequest, DeleteRecordsRequest, DeleteRecordsRequest]


def test_an_offset_is_not_asked_for_where_one_is_given() -> None:
    port: Any = GrowingPartition()
    assert trio.run(delete_records, port, {PARTITION: 5}) == {PARTITION: 5}
    assert port.asked == [DeleteRecordsRequest, DeleteRecordsRequest]


class OffsetsTold:
    """A port to the leader of a partition that answers ListOffsets so, one answer a request; the last one stays."""

    def __init__(self, *answers: int | None) -> None:
        self.answers = list(answers)

    async def by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        return {LEADER: list(partitions)}

    async def retrying(self, operation: Callable[[], Awaitable[Any]], *, final: Sequence[int] = ()) -> Any:
        for _ in range(2):
            try:
                return await operation()
            except Refused as problem:
                if not is_retriable(problem.code):
                    raise
        return await operation()

    async def of_each(self, ask: Callable[[int], Awaitable[Any]], items: Iterable[int]) -> list[Any]:
        return [await ask(item) for item in items]

    async def ask(self, request: Any, answer: type, *, node_id: int) -> Any:
        await trio.lowlevel.checkpoint()
        told = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        found = [] if told is None else [ListOffsetsPartitionResponse(partition_index=0, offset=told)]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=found)])


@pytest.mark.parametrize("first", [-1001, -1, None])
def test_an_end_that_is_no_offset_is_asked_for_again(first: int | None) -> None:
    port: Any = OffsetsTold(first, 7)
    assert trio.run(offsets_at, port, [PARTITION], LATEST) == {PARTITION: 7}


def test_a_partition_without_an_offset_fails_the_question() -> None:
    port: Any = OffsetsTold(-1)
    with pytest.raises(Refused, match="t-0: -1 is no offset"):
        trio.run(offsets_at, port, [PARTITION], LATEST)
    assert trio.run(offsets_at, port, [PARTITION], 5) == {PARTITION: -1}
