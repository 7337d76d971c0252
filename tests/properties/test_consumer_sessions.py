"""The law of consumers' fetch sessions: who looks at what is due answers as who looks at everything, also when it
was waited for."""

from __future__ import annotations

import random
from typing import Any

import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft.handlers.fetch import fetch as handler
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kraft.replication.partition import READ_COMMITTED, READ_UNCOMMITTED
from kraft.world.simulated import Universe
from tests.unit.server.brokers import NODE, Broker, batch, broker, simulate

VERSION = 12
PARTITIONS = 12
STEPS = 40


class Consumer:
    """A session whose offsets follow what it is given. With `few` as large as can be it looks at everything."""

    def __init__(self, made: Broker, few: int, *, names_epochs: bool) -> None:
        self.made, self.few, self.names_epochs = made, few, names_epochs
        self.offsets = dict.fromkeys(range(PARTITIONS), 0)
        self.changed = dict(self.offsets)
        self.forgotten: list[int] = []
        self.session_id = self.epoch = 0

    def request(self, wait_ms: int, max_bytes: int, isolation: int) -> FetchRequest:
        topic = FetchTopic(
            topic="t",
            partitions=[
                FetchPartition(
                    partition=index,
                    fetch_offset=offset,
                    partition_max_bytes=1 << 20,
                    current_leader_epoch=self.made.partition("t", index).leader_epoch if self.names_epochs else -1,
                )
                for index, offset in self.changed.items()
            ],
        )
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=isolation,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[topic] if self.changed else [],
            forgotten_topics_data=[ForgottenTopic(topic="t", partitions=self.forgotten)] if self.forgotten else [],
        )
        self.changed, self.forgotten = {}, []
        return request

    async def fetch(self, wait_ms: int = 0, max_bytes: int = 1 << 20, isolation: int = READ_UNCOMMITTED) -> list[Any]:
        """What is answered, in order."""
        before, handler.FEW_PARTITIONS = handler.FEW_PARTITIONS, self.few
        try:
            pending = self.made.dispatch(self.request(wait_ms, max_bytes, isolation), VERSION)
        finally:
            handler.FEW_PARTITIONS = before
        answer = await self.made.answer_of(pending, FetchRequest.API_KEY, VERSION)
        assert not answer.error_code
        self.session_id, self.epoch = answer.session_id, self.epoch + 1
        found = [partition for topic in answer.responses for partition in topic.partitions]
        for partition in found:
            index, count = partition.partition_index, bytes(partition.records or b"").count(b"\xffone record")
            if count:
                self.offsets[index] += count
                self.changed[index] = self.offsets[index]
            elif partition.error_code == 1:
                self.changed[index] = self.offsets[index] = self.made.partition("t", index).log.log_start_offset
        return [
            (
                each.partition_index,
                each.error_code,
                each.high_watermark,
                each.last_stable_offset,
                each.log_start_offset,
                bytes(each.records or b""),
            )
            for each in found
        ]

    def want(self, index: int, *, wanted: bool) -> None:
        if wanted:
            self.changed[index] = self.offsets[index]
        else:
            self.changed.pop(index, None)
            self.forgotten.append(index)


def append(made: Broker, index: int) -> None:
    partition = made.partition("t", index)
    if partition.is_leader:
        partition.append(memoryview(bytearray(batch(b"\xffone record"))), 1, made.world.clock.wall_ms(), 0)


def happen(made: Broker, topic_id: bytes, draw: random.Random, consumers: list[Consumer]) -> None:
    index = draw.randrange(PARTITIONS)
    kind = draw.randrange(10)
    partition = made.partition("t", index)
    if kind < 6:
        append(made, index)
    elif kind == 6 and partition.is_leader:
        partition.delete_records_before(draw.randint(0, partition.log.high_watermark))
    elif kind == 7 and len(partition.replicas) > 1:
        leader = NODE if partition.leader_id != NODE else 2
        made.change(topic_id, index, leader=leader, isr=[NODE, 2] if leader == 2 else [NODE])
    elif kind == 8:
        wanted = draw.random() < 0.5
        for consumer in consumers:
            consumer.want(index, wanted=wanted)


async def compare(universe: Universe, draw: random.Random) -> None:
    async with broker(universe) as made:
        made.publish(made.register(2))
        replicas = draw.choice(((NODE,), (NODE, 2)))
        topic_id = made.topic("t", PARTITIONS, replicas=replicas)
        for index in range(PARTITIONS):
            made.change(topic_id, index, isr=[NODE])
        names_epochs = draw.random() < 0.5
        due, full = consumers = [Consumer(made, few, names_epochs=names_epochs) for few in (0, 1 << 30)]
        for _ in range(STEPS):
            for _ in range(draw.randrange(4)):
                happen(made, topic_id, draw, consumers)
            max_bytes = draw.choice((1, 200, 1 << 20))
            isolation = draw.choice((READ_UNCOMMITTED, READ_COMMITTED))
            wait_ms = draw.choice((0, 0, 50))
            answers: dict[Consumer, list[Any]] = {}

            async def ask(consumer: Consumer) -> None:
                answers[consumer] = await consumer.fetch(wait_ms, max_bytes, isolation)  # noqa: B023  # Ends first.

            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, due)
                nursery.start_soon(ask, full)
                if wait_ms:
                    await made.world.clock.sleep(0.02)
                    happen(made, topic_id, draw, [])
            assert answers[due] == answers[full]


@settings(deadline=None, max_examples=40)
@given(st.randoms(use_true_random=False))
def test_the_due_partitions_of_a_session_equal_those_of_a_full_scan(draw: random.Random) -> None:
    simulate(lambda universe: compare(universe, draw))
