"""Consumer groups of unmodified clients: members come and go, commits are kept, nothing is read twice or skipped.
The same group in several clients at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import ConsumerGroupState, KafkaError, TopicPartition
from kafka import KafkaConsumer

from kraft.testing.foreign.librdkafka import AdminClient
from kraft.testing.node_process import NodeProcess
from tests.integration.group_clients import PARTITIONS, PROMPT, SECONDS_MAX, Reader, assigned, create, member, produce
from tests.integration.plain_clients import kcat


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("node"), *PROMPT) as node:
        yield node


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_partitions_are_reassigned_as_members_join_and_leave(node: NodeProcess, strategy: str) -> None:
    topic, group = create(node, f"come-{strategy}"), f"come-{strategy}"
    produce(node, topic, 0, 60)
    settings = {"partition_assignment_strategy": strategy}
    reader = Reader(member(node, group, topic, **settings))
    reader.until(lambda: len(reader.all_values) == 60, "one member reads all")
    reader.members[0].commit(asynchronous=False)
    reader.members.append(member(node, group, topic, **settings))
    reader.until(reader.balanced(3, 3), "two members")
    reader.members.append(member(node, group, topic, **settings))
    reader.until(reader.balanced(2, 2, 2), "three members")
    produce(node, topic, 60, 60)
    reader.until(lambda: len(reader.all_values) == 120, "three members read what is new")
    for each in reader.members:
        each.commit(asynchronous=False)
    reader.members.pop(0).close()
    reader.until(reader.balanced(3, 3), "two are left")
    produce(node, topic, 120, 60)
    reader.until(lambda: len(reader.all_values) == 180, "two members read what is new")
    assert reader.all_values == list(range(180))
    for each in reader.members:
        each.commit(asynchronous=False)
        each.close()
    late = Reader(member(node, group, topic, **settings))
    late.until(late.balanced(PARTITIONS), "the group goes on with another")
    produce(node, topic, 180, 6)
    late.until(lambda: len(late.all_values) == 6, "it goes on from the commits")
    assert late.all_values == list(range(180, 186))
    late.members[0].close()


def test_a_static_member_rejoins_without_a_rebalance(node: NodeProcess) -> None:
    topic, group = create(node, "static"), "static"
    revoked: list[object] = []
    first = member(node, group, topic, group_instance_id="one", session_timeout_ms=20_000)
    second = member(node, group, topic, revoked, group_instance_id="two", session_timeout_ms=20_000)
    reader = Reader(first, second)
    reader.until(reader.balanced(3, 3), "two members")
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})

    def description() -> Any:
        return admin.describe_consumer_groups([group])[group].result(SECONDS_MAX)

    owned = assigned(first)
    assert sorted(each.group_instance_id for each in description().members) == ["one", "two"]
    revoked.clear()  # While the group came together.
    first.close()  # A static member does not leave the group by closing.
    assert description().state == ConsumerGroupState.STABLE
    again = member(node, group, topic, group_instance_id="one", session_timeout_ms=20_000)
    reader.members[0] = again
    reader.until(lambda: assigned(again) == owned, "the same partitions for the same name")
    assert not revoked
    fenced: list[int] = []
    again.close()
    replaced = member(node, group, topic, group_instance_id="one", session_timeout_ms=20_000)
    reader.members[0] = replaced
    reader.until(lambda: assigned(replaced) == owned, "the same once more")
    newest = member(node, group, topic, group_instance_id="one", session_timeout_ms=20_000)
    reader.members[0] = newest
    reader.until(lambda: assigned(newest) == owned, "the newest of one name has its partitions")
    deadline = time.monotonic() + SECONDS_MAX
    while not fenced:  # The one it replaced finds out by its next heartbeat.
        assert time.monotonic() < deadline
        message = replaced.poll(0.05)
        if message is not None and message.error() is not None:
            fenced.append(message.error().code())
    assert fenced == [KafkaError._FATAL]
    assert not revoked
    for each in (second, newest, replaced):
        each.close()


def test_manual_commits_keep_metadata_and_can_be_deleted(node: NodeProcess) -> None:
    topic, group = create(node, "manual"), "manual"
    produce(node, topic, 0, 60)
    consumer = member(node, group, topic)
    reader = Reader(consumer)
    reader.until(lambda: len(reader.all_values) == 60, "all is read")
    answered = consumer.commit(
        offsets=[TopicPartition(topic, 0, 3, metadata="half way"), TopicPartition(topic, 1, 0)], asynchronous=False
    )
    assert all(each.error is None for each in answered)
    committed = {
        each.partition: each
        for each in consumer.committed([TopicPartition(topic, index) for index in range(3)], timeout=SECONDS_MAX)
    }
    assert (committed[0].offset, committed[0].metadata) == (3, "half way")
    assert (committed[1].offset, committed[2].offset) == (0, -1001)  # Nothing committed for the third.
    consumer.close()
    again = Reader(member(node, group, topic))
    again.until(lambda: len(again.all_values) == 57, "three of partition 0 are behind the commit")
    again.members[0].close()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_commits_and_members_survive_a_node_restart(tmp_path: Path, how: str) -> None:
    with NodeProcess(tmp_path, *PROMPT) as node:
        topic, group = create(node, "through"), "through"
        produce(node, topic, 0, 60)
        consumer = member(node, group, topic, reconnect_backoff_max_ms=200)
        reader = Reader(consumer)
        reader.until(lambda: len(reader.all_values) == 60, "all is read")
        consumer.commit(asynchronous=False)
        node.stop() if how == "stop" else node.kill()
        node.start()
        produce(node, topic, 60, 30)
        reader.until(lambda: len(reader.all_values) >= 90, "the member goes on")
        assert reader.all_values == list(range(90))  # Nothing before the commit, nothing twice.
        committed = consumer.committed(
            [TopicPartition(topic, index) for index in range(PARTITIONS)], timeout=SECONDS_MAX
        )
        assert [each.offset for each in committed] == [10] * PARTITIONS
        consumer.commit(asynchronous=False)
        consumer.close()
        node.stop() if how == "stop" else node.kill()
        node.start()
        produce(node, topic, 90, 6)
        late = Reader(member(node, group, topic))
        late.until(lambda: len(late.all_values) == 6, "a new member goes on from the commits")
        assert late.all_values == list(range(90, 96))
        late.members[0].close()


def test_aiokafka_consumers_share_a_group(node: NodeProcess) -> None:
    topic = create(node, "aio")
    produce(node, topic, 0, 60)

    async def run() -> list[int]:
        def new() -> AIOKafkaConsumer:
            return AIOKafkaConsumer(
                topic,
                bootstrap_servers=node.bootstrap,
                group_id="aio",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                heartbeat_interval_ms=200,
            )

        values: list[int] = []

        async def read(consumer: AIOKafkaConsumer, condition: Callable[[], bool]) -> None:
            while not condition():
                for messages in (await consumer.getmany(timeout_ms=50)).values():
                    values.extend(int(message.value) for message in messages)

        first, second = new(), new()
        await first.start()
        await asyncio.wait_for(read(first, lambda: len(values) == 60), SECONDS_MAX)
        await first.commit()
        await second.start()
        balanced = lambda: len(first.assignment()) == len(second.assignment()) == 3  # noqa: E731
        await asyncio.wait_for(asyncio.gather(read(first, balanced), read(second, balanced)), SECONDS_MAX)
        produce(node, topic, 60, 60)
        complete = lambda: len(values) >= 120  # noqa: E731
        await asyncio.wait_for(asyncio.gather(read(first, complete), read(second, complete)), SECONDS_MAX)
        await first.commit()
        await second.commit()
        await first.stop()
        await asyncio.wait_for(read(second, lambda: len(second.assignment()) == PARTITIONS), SECONDS_MAX)
        await second.stop()
        return sorted(values)

    assert asyncio.run(run()) == list(range(120))


def test_kafka_python_consumers_share_a_group(node: NodeProcess) -> None:
    topic = create(node, "python")
    produce(node, topic, 0, 60)

    def new() -> KafkaConsumer:
        """It knows the topic before it joins: who leads a group without that assigns nothing, and may not join again
        when it learns of the topic meanwhile."""
        consumer = KafkaConsumer(
            bootstrap_servers=node.bootstrap,
            group_id="python",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=200,
            metadata_max_age_ms=1000,
        )
        deadline = time.monotonic() + SECONDS_MAX
        while not consumer.partitions_for_topic(topic):
            assert time.monotonic() < deadline
        consumer.subscribe([topic])
        return consumer

    members, values = [new()], []

    def read(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while not condition():
            assert time.monotonic() < deadline
            for each in members:
                for messages in each.poll(timeout_ms=50).values():
                    values.extend(int(message.value) for message in messages)

    try:
        read(lambda: len(values) == 60)
        members[0].commit()
        members.append(new())
        read(lambda: [len(each.assignment()) for each in members] == [3, 3])
        produce(node, topic, 60, 60)
        read(lambda: len(values) >= 120)
        for each in members:
            each.commit()
    finally:
        for each in members:
            each.close()
    assert sorted(values) == list(range(120))


def test_a_kcat_group_resumes_at_its_committed_offset(node: NodeProcess) -> None:
    topic = create(node, "kcat")
    arguments = ("-b", node.bootstrap, "-G", "kcat", "-X", "auto.offset.reset=earliest", "-c", "30", "-q", topic)
    produce(node, topic, 0, 30)
    assert sorted(map(int, kcat(*arguments).split())) == list(range(30))
    produce(node, topic, 30, 30)
    assert sorted(map(int, kcat(*arguments).split())) == list(range(30, 60))
