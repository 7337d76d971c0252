"""Consumers of groups, as clients' tests run them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka.admin import NewTopic

from kraft.testing.foreign.librdkafka import AdminClient, Consumer, Producer
from kraft.testing.node_process import NodeProcess

SECONDS_MAX = 30


PARTITIONS = 6


PROMPT = ("--set", "group.initial.rebalance.delay.ms=0")


def create(node: NodeProcess, topic: str, partitions: int = PARTITIONS) -> str:
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        future.result(SECONDS_MAX)
    return topic


def produce(node: NodeProcess, topic: str, first: int, count: int, partitions: int = PARTITIONS) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap, "log_level": 0})
    for index in range(first, first + count):
        producer.produce(topic, b"%d" % index, partition=index % partitions)
    assert producer.flush(SECONDS_MAX) == 0


def member(node: NodeProcess, group: str, topic: str, revoked: list[object] | None = None, **config: Any) -> Consumer:
    """One that commits only when told. What is taken from it in a rebalance is added to `revoked`."""
    settings = {name.replace("_", "."): value for name, value in config.items()}
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "log_level": 0,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 200,
            **settings,
        }
    )
    taken = [] if revoked is None else revoked
    consumer.subscribe([topic], on_revoke=lambda _, partitions: taken.append(partitions))
    return consumer


class Reader:
    """Polls several members in turn, as long as asked; `values` is all they have read, by member."""

    def __init__(self, *members: Consumer) -> None:
        self.members = list(members)
        self.values: dict[Consumer, list[int]] = {}

    def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while not condition():
            assert time.monotonic() < deadline, (
                f"{what}: {[assigned(each) for each in self.members]} {self.values.values()}"
            )
            for each in self.members:
                message = each.poll(0.01)
                if message is not None:
                    assert message.error() is None, message.error()
                    self.values.setdefault(each, []).append(int(message.value()))

    @property
    def all_values(self) -> list[int]:
        return sorted(value for values in self.values.values() for value in values)

    def balanced(self, *sizes: int) -> Callable[[], bool]:
        """Every partition has one owner, and the owners have this many each."""

        def condition() -> bool:
            owned = [assigned(each) for each in self.members]
            return sorted(map(len, owned)) == sorted(sizes) and sorted(
                partition for each in owned for partition in each
            ) == list(range(sum(sizes)))

        return condition


def assigned(consumer: Consumer) -> list[int]:
    return sorted(each.partition for each in consumer.assignment())
