"""Offsets that may take several attempts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import pytest
import trio

from kraft.admin.errors import Refused
from kraft.admin.offsets import LATEST, offsets_at
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import is_retriable
from kraft.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LEADER = 1
PARTITION = TopicPartition("t", 0)


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
def test_a_list_offsets_answer_without_an_offset_is_requested_again(first: int | None) -> None:
    port: Any = OffsetsTold(first, 7)
    assert trio.run(offsets_at, port, [PARTITION], LATEST) == {PARTITION: 7}


def test_a_partition_without_an_offset_fails_the_lookup() -> None:
    port: Any = OffsetsTold(-1)
    with pytest.raises(Refused, match="t-0: -1 is no offset"):
        trio.run(offsets_at, port, [PARTITION], LATEST)
    assert trio.run(offsets_at, port, [PARTITION], 5) == {PARTITION: -1}
