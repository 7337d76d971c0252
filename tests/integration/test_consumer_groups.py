"""Consumer groups of KIP-848 (`group.protocol=consumer`) of unmodified clients: librdkafka's and Java's."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaError
from confluent_kafka.admin import NewPartitions

from jepsen.java.kafka import TOOLS, java
from kraft.testing.foreign.librdkafka import AdminClient, Consumer
from kraft.testing.node_process import NodeProcess
from tests.capabilities import require_capability
from tests.integration.group_clients import PARTITIONS, SECONDS_MAX, Reader, create, member, produce

GONE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC)
SETTINGS = (
    "--set",
    "group.consumer.min.heartbeat.interval.ms=100",
    "--set",
    "group.consumer.heartbeat.interval.ms=100",
    "--set",
    "group.consumer.assignment.interval.ms=100",
    "--set",
    "group.initial.rebalance.delay.ms=0",
)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("node"), *SETTINGS) as node:
        yield node


def consumer(node: NodeProcess, group: str, topic: str, **config: Any) -> Consumer:
    """A member that commits only when told."""
    settings = {name.replace("_", "."): value for name, value in config.items()}
    made = Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "log_level": 0,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )
    made.subscribe([topic])
    return made


def described(node: NodeProcess, group: str) -> Any:
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
    return admin.describe_consumer_groups([group])[group].result(SECONDS_MAX)


def cli_describes(node: NodeProcess, group: str) -> list[dict[str, Any]]:
    """What `kraft groups describe` tells."""
    command = (Path(sys.executable).with_name("kraft"), "groups", "describe", group, "-b", node.bootstrap, "-o", "json")
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS_MAX)
    found: list[dict[str, Any]] = json.loads(told.stdout)["groups"]
    return found


def test_partitions_move_as_consumers_join_and_leave(node: NodeProcess) -> None:
    topic = group = create(node, "come-and-go")
    produce(node, topic, 0, 60)
    reader = Reader(consumer(node, group, topic))
    reader.until(lambda: len(reader.all_values) == 60, "one member reads all")
    reader.members[0].commit(asynchronous=False)
    reader.members.append(consumer(node, group, topic))
    reader.until(reader.balanced(3, 3), "two members")
    reader.members.append(consumer(node, group, topic))
    reader.until(reader.balanced(2, 2, 2), "three members")
    produce(node, topic, 60, 60)
    reader.until(lambda: len(reader.all_values) == 120, "three members read what is new")
    for each in reader.members:
        each.commit(asynchronous=False)
    told = described(node, group)
    assert (told.state, told.type) == (ConsumerGroupState.STABLE, ConsumerGroupType.CONSUMER)
    assert sorted(len(each.target_assignment.topic_partitions) for each in told.members) == [2, 2, 2]
    [shown] = cli_describes(node, group)
    assert (shown["type"], shown["state"], shown["total_lag"]) == ("consumer", "Stable", 0)
    assert [len(each["partitions"]) for each in shown["members"]] == [2, 2, 2]
    assert {each["epoch"] for each in shown["members"]} == {shown["epoch"]}
    assert all(each["target_partitions"] == each["partitions"] for each in shown["members"])
    reader.members.pop(0).close()
    reader.until(reader.balanced(3, 3), "two are left")
    produce(node, topic, 120, 60)
    reader.until(lambda: len(reader.all_values) == 180, "two members read what is new")
    assert reader.all_values == list(range(180))
    for each in reader.members:
        each.commit(asynchronous=False)
        each.close()
    assert described(node, group).state == ConsumerGroupState.EMPTY
    late = Reader(member(node, group, topic))
    late.until(late.balanced(PARTITIONS), "a member of the classic protocol takes over the empty group")
    produce(node, topic, 180, 6)
    late.until(lambda: len(late.all_values) == 6, "it goes on from the commits")
    assert late.all_values == list(range(180, 186))
    late.members[0].close()


def test_a_static_member_gets_its_partitions_back(node: NodeProcess) -> None:
    topic = group = create(node, "static-consumer")
    first = consumer(node, group, topic, group_instance_id="one")
    second = consumer(node, group, topic, group_instance_id="two")
    reader = Reader(first, second)
    reader.until(reader.balanced(3, 3), "two members")
    had = {each.partition for each in first.assignment()}
    first.close()
    again = consumer(node, group, topic, group_instance_id="one")
    reader.members[0] = again
    reader.until(reader.balanced(3, 3), "it is back")
    assert {each.partition for each in again.assignment()} == had
    for each in reader.members:
        each.close()


def test_a_consumer_receives_partitions_added_to_its_topic(node: NodeProcess) -> None:
    topic = group = create(node, "growing-consumed", 2)
    reader = Reader(consumer(node, group, topic))
    reader.until(reader.balanced(2), "one member")
    _add_partitions(node, topic, 5)
    reader.until(reader.balanced(5), "it has the new partitions")
    reader.members[0].close()


def test_a_pattern_subscription_follows_created_and_deleted_topics(node: NodeProcess) -> None:
    """librdkafka leaves a pattern to the coordinator."""
    first, second, *_ = (create(node, name, 2) for name in ("pattern-1", "pattern-2", "no-pattern-3"))
    group = "of-a-pattern"
    one, two = consumer(node, group, "^pattern-[0-9]$"), consumer(node, group, "^pattern-[0-9]$")
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})

    def until_assigned(*topics: str) -> None:
        wanted = sorted((topic, partition) for topic in topics for partition in range(2))
        deadline = time.monotonic() + SECONDS_MAX
        has: list[tuple[str, int]] = []
        counts: list[int] = []
        while has != wanted or counts != [len(topics)] * 2:
            assert time.monotonic() < deadline, f"{has} ({counts}) instead of {wanted}"
            for each in (one, two):
                message = each.poll(0.05)
                assert message is None or message.error().code() in GONE, message
            has = sorted((each.topic, each.partition) for member in (one, two) for each in member.assignment())
            counts = [len(member.assignment()) for member in (one, two)]

    until_assigned(first, second)
    third = create(node, "pattern-3", 2)
    until_assigned(first, second, third)
    admin.delete_topics([first])[first].result(SECONDS_MAX)
    until_assigned(second, third)
    for each in (one, two):
        each.close()


def _add_partitions(node: NodeProcess, topic: str, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
    for future in admin.create_partitions([NewPartitions(topic, count)]).values():
        future.result(SECONDS_MAX)


def test_a_group_survives_its_coordinator(tmp_path: Path) -> None:
    with NodeProcess(tmp_path, *SETTINGS) as node:
        topic = group = create(node, "outlived")
        reader = Reader(consumer(node, group, topic), consumer(node, group, topic))
        reader.until(reader.balanced(3, 3), "two members")
        produce(node, topic, 0, 60)
        reader.until(lambda: len(reader.all_values) == 60, "they read all")
        for each in reader.members:
            each.commit(asynchronous=False)
        ids = {each.member_id for each in described(node, group).members}
        node.kill()
        node.start()
        produce(node, topic, 60, 60)
        reader.until(lambda: len(reader.all_values) == 120, "they go on")
        assert reader.all_values == list(range(120))
        assert {each.member_id for each in described(node, group).members} == ids
        for each in reader.members:
            each.close()


def test_java_and_librdkafka_consumers_share_a_group(node: NodeProcess, tmp_path: Path) -> None:
    require_capability("java17")
    require_capability("mvn")
    topic = group = create(node, "with-java")
    produce(node, topic, 0, 60)
    printed = tmp_path / "java.txt"
    with printed.open("w") as output:
        running = subprocess.Popen(
            [
                *java("-Xmx256M"),
                TOOLS["console-consumer"],
                *("--bootstrap-server", node.bootstrap, "--topic", topic, "--group", group, "--from-beginning"),
                *("--command-property", "group.protocol=consumer"),
            ],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            ours = consumer(node, group, topic)
            reader = Reader(ours)

            def shared() -> bool:
                members = described(node, group).members
                return sorted(len(each.assignment.topic_partitions) for each in members) == [3, 3]

            reader.until(shared, "each has half of the partitions")
            java_has = set(range(PARTITIONS)) - {each.partition for each in ours.assignment()}
            assert len(java_has) == 3
            produce(node, topic, 1000, 60)
            wanted = {str(value) for value in range(1000, 1060) if value % PARTITIONS in java_has}

            def java_read() -> bool:
                return wanted <= set(printed.read_text().split())

            reader.until(java_read, "Java reads its half")
            ours.close()
        finally:
            running.terminate()
            running.wait(SECONDS_MAX)
