"""One HTTP request that has to ask several brokers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kraft_http.kafka import client
from kraft_http.kafka.brokers import replica_offsets
from kraft_http.kafka.client import Kafka, of_each
from kraft_http.kafka.offsets import LATEST, list_offsets

from kraft.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

PLACE = ("t", 0)


class Port:
    """Brokers that answer once all three have been asked; broker 2 then says that it is not there."""

    def __init__(self) -> None:
        self.asked: list[int | None] = []
        self.all_asked = asyncio.Event()

    async def call(self, api_key: int, version: int, request: Any, *, node_id: int | None = None) -> Any:
        self.asked.append(node_id)
        if len(self.asked) == 3:
            self.all_asked.set()
        await self.all_asked.wait()
        if node_id == 2:
            raise ConnectionRefusedError("broker 2")
        partitions = [
            ListOffsetsPartitionResponse(partition_index=partition.partition_index, offset=10)
            for partition in request.topics[0].partitions
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=partitions)])


def test_replicas_are_asked_side_by_side_and_one_that_is_silent_is_left_out() -> None:
    async def main() -> None:
        port: Any = Port()
        async with asyncio.timeout(30):
            found = await replica_offsets(Kafka(port), {3: [PLACE], 2: [PLACE], 1: [PLACE]})
        assert list(found.items()) == [((1, PLACE), 10), ((3, PLACE), 10)]

    asyncio.run(main())


def test_leaders_are_asked_side_by_side_and_one_failure_is_the_answer() -> None:
    async def main() -> None:
        port: Any = Port()
        async with asyncio.timeout(30):
            with pytest.raises(client.KafkaProblem, match="broker 2 cannot be reached"):
                await list_offsets(Kafka(port), {("t", 0): 1, ("t", 1): 2, ("t", 2): 3}, LATEST)

    asyncio.run(main())


def test_so_many_are_asked_at_a_time_and_their_answers_keep_the_order() -> None:
    async def main() -> None:
        under_way, most = 0, 0

        async def ask(number: int) -> int:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            for _ in range(50 - number):
                await asyncio.sleep(0)
            under_way -= 1
            return number

        assert await of_each(ask, range(50)) == list(range(50))
        assert most == client.AT_ONCE_MAX

    asyncio.run(main())
