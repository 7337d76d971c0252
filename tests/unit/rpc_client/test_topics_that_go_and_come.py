"""What readers do when a topic is deleted, and recreated under its name: the others are read meanwhile, and no position
in the earlier topic is taken for one in the later."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.admin.offsets import EARLIEST
from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchRequest
from kraft.protocol.messages.list_offsets_request import ListOffsetsRequest
from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.record import Record
from kraft.rpc_client.connection import Disconnected, NotAdmitted
from kraft.rpc_client.consumer import Consumer
from kraft.rpc_client.errors import NoBroker, TopicRecreated
from kraft.world.simulated import Universe
from tests.unit.rpc_client.scripted_cluster import ScriptedCluster, begins, fetched, wanted

T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)
ANEW = b"another topic id"


class Topics:
    """Nodes with a record at each offset, whose value is the id of the topic that it is in."""

    def __init__(self, universe: Universe, **leaders: list[int]) -> None:
        self.cluster = ScriptedCluster(universe, leaders, self)
        self.clock = universe.world_for("client").clock
        self.positions: list[tuple[str, int]] = []
        """All that a Fetch asked for in a topic that there is."""

    async def __call__(self, request: Any, _: int | None) -> Any:
        await self.clock.sleep(0.01)
        if isinstance(request, ListOffsetsRequest):
            return begins(request, 3)
        assert isinstance(request, FetchRequest)
        ids = {topic.topic: bytes(topic.topic_id) for topic in request.topics}
        return fetched(
            {each: self._partition(each, offset, ids[each.topic]) for each, offset in wanted(request).items()}
        )

    def _partition(self, partition: TopicPartition, offset: int, topic_id: bytes) -> tuple[int, bytes]:
        name = partition.topic
        if name not in self.cluster.leaders or topic_id != self.cluster.topic_id(name):
            return ErrorCode.UNKNOWN_TOPIC_ID, b""
        self.positions.append((name, offset))
        return ErrorCode.NONE, build_batch([Record(offset, 0, None, topic_id)], base_offset=offset, leader_epoch=0)


def test_a_deleted_topic_is_paused_and_read_from_its_start_when_recreated() -> None:
    async def main(universe: Universe) -> None:
        topics = Topics(universe, t=[1], u=[1])
        consumer = Consumer(topics.cluster, reset=EARLIEST)
        consumer.assign({T0: 40, U0: 0})
        while consumer.positions[T0] < 45:
            await consumer.poll(1.0)
        del topics.cluster.leaders["t"]
        for _ in range(20):
            assert {each.partition for each in await consumer.poll(1.0)} == {U0}
        topics.cluster.leaders["t"], topics.cluster.ids["t"] = [1], ANEW
        topics.positions.clear()
        found = [each for _ in range(400) for each in await consumer.poll(1.0)]
        of_new = [(each.record.offset, each.record.value) for each in found if each.partition == T0]
        assert of_new[:2] == [(3, ANEW), (4, ANEW)]
        assert min(offset for name, offset in topics.positions if name == "t") == 3

    Universe(1).run(main)


def test_a_topic_recreated_between_two_polls_is_read_from_its_start() -> None:
    async def main(universe: Universe) -> None:
        topics = Topics(universe, t=[1])
        consumer = Consumer(topics.cluster, reset=EARLIEST)
        consumer.assign({T0: 40})
        await consumer.poll(1.0)
        topics.cluster.ids["t"] = ANEW
        topics.positions.clear()
        assert [(each.record.offset, each.record.value) for each in await consumer.poll(5.0)] == [(3, ANEW)]
        assert topics.positions == [("t", 3)]

    Universe(1).run(main)


def test_without_a_reset_policy_a_recreated_topic_is_reported_and_other_topics_continue() -> None:
    async def main(universe: Universe) -> None:
        topics = Topics(universe, t=[1], u=[1])
        consumer = Consumer(topics.cluster)
        consumer.assign({T0: 40, U0: 0})
        await consumer.poll(1.0)
        topics.cluster.ids["t"] = ANEW
        with pytest.raises(TopicRecreated, match="topic t was deleted and recreated"):
            while True:
                await consumer.poll(1.0)
        consumer.unassign(T0)
        assert {each.partition for each in await consumer.poll(1.0)} == {U0}

    Universe(1).run(main)


def test_positions_of_a_deleted_topic_are_not_used_in_the_recreated_one() -> None:
    async def main(universe: Universe) -> None:
        topics = Topics(universe, t=[1])
        consumer = Consumer(topics.cluster)
        consumer.assign({T0: 40}, topic_ids={"t": topics.cluster.topic_id("t")})
        topics.cluster.ids["t"] = ANEW
        with pytest.raises(TopicRecreated):
            await consumer.poll(1.0)

    Universe(1).run(main)


def test_a_consumer_of_only_deleted_topics_waits_and_logs_the_reason() -> None:
    async def main(universe: Universe) -> None:
        topics = Topics(universe, t=[1])
        consumer = Consumer(topics.cluster, reset=EARLIEST)
        consumer.assign({T0: 0})
        del topics.cluster.leaders["t"]
        assert await consumer.poll(3.0) == []
        assert isinstance(consumer.obstacle, ApiError)
        assert consumer.obstacle.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert topics.cluster.metadata_asked <= 8, "with a growing pause"
        with pytest.raises(ApiError, match="t: there is no such topic"):
            await consumer.poll_or_tell(1.0)
        topics.cluster.leaders["t"] = [1]
        assert len(await consumer.poll(3.0)) == 1
        assert consumer.obstacle is None

    Universe(1).run(main)


def test_a_partition_without_a_known_start_offset_delays_no_other_partition() -> None:
    async def main(universe: Universe) -> None:
        topics = Topics(universe, t=[1], u=[2])

        async def answer(request: Any, node_id: int | None) -> Any:
            if isinstance(request, ListOffsetsRequest) and node_id == 1:
                raise Disconnected("the node is away")
            return await topics(request, node_id)

        topics.cluster.answer = answer
        consumer = Consumer(topics.cluster, reset=EARLIEST)
        consumer.assign({}, unplaced=[T0, U0])
        found = [each for _ in range(3) for each in await consumer.poll(5.0)]
        assert [(each.partition, each.record.offset) for each in found] == [(U0, 3), (U0, 4), (U0, 5)]
        assert T0 not in consumer.positions
        topics.cluster.answer = topics
        assert T0 in {each.partition for _ in range(200) for each in await consumer.poll(5.0)}

    Universe(1).run(main)


def test_poll_waits_while_the_only_node_is_down() -> None:
    async def main(universe: Universe) -> None:
        topics = Topics(universe, t=[1])
        problems: list[Exception] = [NoBroker("nobody"), Disconnected("the node closed the connection"), TimeoutError()]

        async def fail(*_: Any, **__: Any) -> Any:
            raise problem

        for problem in problems:
            consumer = Consumer(topics.cluster, reset=EARLIEST)
            consumer.assign({T0: 3})
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(topics.cluster, "call", fail)
                topics.cluster.forget()
                began = topics.clock.now()
                for seconds in (0.0, 2.0):
                    assert await consumer.poll(seconds) == []
                    assert consumer.obstacle is problem
                assert 2.0 <= topics.clock.now() - began <= 2.5
            assert [each.record.offset for each in await consumer.poll(2.0)] == [3]

    Universe(1).run(main)


def test_poll_raises_immediately_when_a_node_refuses_the_login() -> None:
    async def main(universe: Universe) -> None:
        topics = Topics(universe, t=[1])
        problem = NotAdmitted("the login failed")

        async def fail(*_: Any, **__: Any) -> Any:
            raise problem

        consumer = Consumer(topics.cluster, reset=EARLIEST)
        consumer.assign({T0: 3})
        assert [each.record.offset for each in await consumer.poll(2.0)] == [3]
        for way in ("call", "begin"):  # A Fetch is begun.
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(topics.cluster, way, fail)
                topics.cluster.forget()
                began = topics.clock.now()
                with pytest.raises(NotAdmitted):
                    await consumer.poll(2.0)
                assert topics.clock.now() - began < 0.1
        assert [each.record.offset for each in await consumer.poll(2.0)] == [4]

    Universe(1).run(main)
