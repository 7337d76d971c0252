"""A live service moves from the classic protocol to the consumer protocol of KIP-848, and back, one member at a time:
unmodified librdkafka under load, over real processes. Nothing is missed, and nothing is read twice."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaError, KafkaException, TopicPartition

from kraft.testing.foreign.librdkafka import AdminClient, Consumer, Producer
from kraft.testing.node_process import NodeProcess
from tests.integration.group_clients import PARTITIONS, assigned, create
from tests.integration.migrating import SECONDS_MAX, SETTINGS

SETTLING = (KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("node"), *SETTINGS) as node:
        yield node


class Service:
    """Members of one group that commit each record before they ask for the next, and a producer that never pauses."""

    def __init__(
        self, node: NodeProcess, name: str, strategy: str, *, static: bool = False, node_dies: bool = False
    ) -> None:
        self.node = node
        self.topic = self.group = create(node, name)
        self.strategy = strategy
        self.static = static
        self.node_dies = node_dies
        self.members: list[Consumer] = []
        self.producer = Producer({"bootstrap.servers": node.bootstrap, "log_level": 0})
        self.numbers = count()
        self.sent = 0
        self.read: Counter[int] = Counter()
        self.commit_beginnings()

    def commit_beginnings(self) -> None:
        """So that members always have where to go on, and a commit that is lost is an error of theirs: none may fall
        back on a policy. (librdkafka, where it has looked up an offset by policy while partitions were taken from it,
        may look it up once more half a second later, and read all again.)"""
        clerk = Consumer({"bootstrap.servers": self.node.bootstrap, "log_level": 0, "group.id": self.group})
        places = [TopicPartition(self.topic, partition, 0) for partition in range(PARTITIONS)]
        clerk.commit(offsets=places, asynchronous=False)
        clerk.close()

    def member(self, protocol: str, number: int) -> Consumer:
        classic = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 200}
        made = Consumer(
            {
                "bootstrap.servers": self.node.bootstrap,
                "log_level": 0,
                "group.id": self.group,
                "group.protocol": protocol,
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
                **({"group.instance.id": f"i{number}"} if self.static else {}),
                **({**classic, "partition.assignment.strategy": self.strategy} if protocol == "classic" else {}),
            }
        )
        made.subscribe([self.topic])
        return made

    def start(self, protocol: str, size: int) -> None:
        self.members = [self.member(protocol, number) for number in range(size)]
        self.until(self.balanced, f"{size} members of the {protocol} protocol")

    def replace(self, number: int, protocol: str) -> None:
        """The process of a member ends, and its new version starts."""
        self.members[number].close()
        self.members[number] = self.member(protocol, number)
        self.until(self.balanced, f"member {number} has moved to the {protocol} protocol")

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Produce and consume until something holds, and every record read is committed."""
        deadline = time.monotonic() + SECONDS_MAX
        while not condition():
            assert time.monotonic() < deadline, f"{what}: {[assigned(each) for each in self.members]}"
            self.sent = next(self.numbers) + 1
            self.producer.produce(self.topic, b"%d" % (self.sent - 1), partition=self.sent % PARTITIONS)
            self.producer.poll(0)
            for each in self.members:
                message = each.poll(0.005)
                if message is not None:
                    # An upgrade sends those away who wait for their JoinGroup, and librdkafka tells that.
                    known = message.error() is None or message.error().code() == KafkaError.REBALANCE_IN_PROGRESS
                    assert known or self.node_dies, message.error()
                if message is not None and message.error() is None:
                    self.read[int(message.value())] += 1
                    self.commit(each, message)

    def commit(self, consumer: Consumer, message: Any) -> None:
        """While a generation is being settled its members wait with their commits; one that was sent under the last
        generation is sent again. Where nodes die, a commit may fail: then the record is read again."""
        position = TopicPartition(message.topic(), message.partition(), message.offset() + 1)
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            try:
                consumer.commit(offsets=[position], asynchronous=False)
                return
            except KafkaException as problem:
                if self.node_dies:
                    return
                if problem.args[0].code() not in SETTLING or time.monotonic() > deadline:
                    raise

    def balanced(self) -> bool:
        """Whether each partition is somebody's, everybody has some, and all know the last generation or epoch."""
        owned = sorted(partition for each in self.members for partition in assigned(each))
        if owned != list(range(PARTITIONS)) or not all(assigned(each) for each in self.members):
            return False
        told = self.described()
        return told.state == ConsumerGroupState.STABLE and len(told.members) == len(self.members)

    def drain(self) -> None:
        """Read all that was produced so far."""
        assert self.producer.flush(SECONDS_MAX) == 0
        sent = self.sent
        self.until(lambda: all(number in self.read for number in range(sent)), f"all of {sent} records are read")

    def described(self) -> Any:
        admin = AdminClient({"bootstrap.servers": self.node.bootstrap, "log_level": 0})
        return admin.describe_consumer_groups([self.group])[self.group].result(SECONDS_MAX)

    def committed(self) -> dict[int, int]:
        """As the first member fetches them."""
        partitions = [TopicPartition(self.topic, partition) for partition in range(PARTITIONS)]
        return {each.partition: each.offset for each in self.members[0].committed(partitions, SECONDS_MAX)}

    def close(self) -> None:
        for each in self.members:
            each.close()


@pytest.mark.parametrize(("strategy", "static"), [("range", False), ("roundrobin", False), ("range", True)], ids=str)
def test_a_service_migrates_to_the_consumer_protocol_and_back_member_by_member(
    node: NodeProcess, strategy: str, static: bool
) -> None:
    service = Service(node, f"moves-{strategy}-{static}", strategy, static=static)
    service.start("classic", 3)
    assert service.described().type == ConsumerGroupType.CLASSIC
    for number in range(3):
        service.replace(number, "consumer")
        assert service.described().type == ConsumerGroupType.CONSUMER
    service.drain()
    before = service.committed()
    for number in range(3):
        assert service.described().type == ConsumerGroupType.CONSUMER
        service.replace(number, "classic")
    told = service.described()
    assert (told.type, told.state) == (ConsumerGroupType.CLASSIC, ConsumerGroupState.STABLE)
    after = service.committed()
    assert all(after[partition] >= before[partition] for partition in before)
    service.drain()
    twice = [number for number, times in service.read.items() if times > 1]
    assert not twice, f"{len(twice)} of {service.sent} records were read twice"
    service.close()


def test_a_service_migrates_while_its_coordinator_is_killed(tmp_path: Path) -> None:
    with NodeProcess(tmp_path, *SETTINGS) as node:
        service = Service(node, "killed", "range", node_dies=True)
        service.start("classic", 3)
        for number, protocol in [(0, "consumer"), (1, "consumer"), (1, "classic"), (0, "classic")]:
            service.members[number].close()
            service.members[number] = service.member(protocol, number)
            node.kill()
            node.start()
            service.until(service.balanced, f"member {number} has moved to the {protocol} protocol")
            service.drain()
        assert service.described().type == ConsumerGroupType.CLASSIC
        service.close()
