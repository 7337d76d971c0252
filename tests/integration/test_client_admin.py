"""Administration by unmodified clients: topics, configurations, groups, records, the quorum."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka import TopicPartition as PythonTopicPartition

from kraft.testing.node_process import NodeProcess
from tests.integration.plain_clients import Record, kcat, read_confluent, write_confluent

SECONDS_MAX = 30


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("node"), "--set", "group.initial.rebalance.delay.ms=0") as node:
        yield node


@pytest.fixture(scope="module")
def admin(node: NodeProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})


def outcomes(futures: dict[Any, Any]) -> dict[Any, Any]:
    """What each came to: its result, or its error code."""
    found = {}
    for key, future in futures.items():
        try:
            found[key] = future.result(SECONDS_MAX)
        except KafkaException as problem:
            found[key] = problem.args[0].code()
    return found


def test_the_admin_client_creates_grows_and_deletes_topics(admin: AdminClient) -> None:
    wanted = [
        NewTopic("t1", 3, 1),
        NewTopic("t2", config={"retention.ms": "1000"}),
        NewTopic("bad name!", 1, 1),
        NewTopic("t3", 1, 2),
        NewTopic("t4", 0, 1),
    ]
    assert outcomes(admin.create_topics(wanted)) == {
        "t1": None,
        "t2": None,
        "bad name!": KafkaError.TOPIC_EXCEPTION,
        "t3": KafkaError.INVALID_REPLICATION_FACTOR,
        "t4": KafkaError.INVALID_PARTITIONS,
    }
    assert outcomes(admin.create_topics([NewTopic("t1", 1, 1)])) == {"t1": KafkaError.TOPIC_ALREADY_EXISTS}
    assert outcomes(admin.create_topics([NewTopic("t5", 1, 1)], validate_only=True)) == {"t5": None}
    assert outcomes(admin.create_topics([NewTopic("t6", 1, 1, config={"nonsense": "1"})])) == {
        "t6": KafkaError.INVALID_CONFIG
    }
    assert outcomes(admin.create_partitions([NewPartitions("t1", 5)])) == {"t1": None}
    assert outcomes(admin.create_partitions([NewPartitions("t1", 4)])) == {"t1": KafkaError.INVALID_PARTITIONS}
    assert outcomes(admin.create_partitions([NewPartitions("gone", 4)])) == {"gone": KafkaError.UNKNOWN_TOPIC_OR_PART}
    topics = admin.list_topics(timeout=SECONDS_MAX).topics
    assert {name: len(topic.partitions) for name, topic in topics.items() if name in ("t1", "t2", "t5", "t6")} == {
        "t1": 5,
        "t2": 1,
    }
    described = outcomes(admin.describe_topics(TopicCollection(["t1", "gone"]), include_authorized_operations=True))
    assert described["gone"] == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert [each.leader.id for each in described["t1"].partitions] == [1] * 5
    assert outcomes(admin.delete_topics(["t1", "gone"])) == {"t1": None, "gone": KafkaError.UNKNOWN_TOPIC_OR_PART}
    assert "t1" not in admin.list_topics(timeout=SECONDS_MAX).topics


def test_a_recreated_topic_has_a_new_id_and_no_records(node: NodeProcess, admin: AdminClient) -> None:
    ids = []
    for round_number in range(3):
        assert outcomes(admin.create_topics([NewTopic("again", 1, 1)])) == {"again": None}
        ids.append(str(outcomes(admin.describe_topics(TopicCollection(["again"])))["again"].topic_id))
        write_confluent(node.bootstrap, "again", [Record(None, b"%d" % round_number)], "none")
        assert [seen.record.value for seen in read_confluent(node.bootstrap, "again", 1)] == [b"%d" % round_number]
        assert outcomes(admin.delete_topics(["again"])) == {"again": None}
    assert len(set(ids)) == 3


def test_the_admin_client_describes_and_alters_configs(admin: AdminClient) -> None:
    assert outcomes(admin.create_topics([NewTopic("c", 1, 1, config={"cleanup.policy": "compact"})])) == {"c": None}

    def entries(kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
        (found,) = outcomes(admin.describe_configs([ConfigResource(kind, name)])).values()
        return found

    def alter(
        kind: ResourceType, name: str, key: str, value: str | None, operation: AlterConfigOpType = AlterConfigOpType.SET
    ) -> Any:
        entry = ConfigEntry(key, value, incremental_operation=operation)
        (found,) = outcomes(
            admin.incremental_alter_configs([ConfigResource(kind, name, incremental_configs=[entry])])
        ).values()
        return found

    before = entries(ResourceType.TOPIC, "c")
    assert (before["cleanup.policy"].value, before["cleanup.policy"].is_default) == ("compact", False)
    assert (before["retention.ms"].value, before["retention.ms"].is_default) == ("604800000", True)
    assert alter(ResourceType.TOPIC, "c", "retention.ms", "12345") is None
    assert alter(ResourceType.TOPIC, "c", "cleanup.policy", "delete", AlterConfigOpType.APPEND) is None
    assert alter(ResourceType.TOPIC, "c", "retention.ms", "no number") == KafkaError.INVALID_CONFIG
    after = entries(ResourceType.TOPIC, "c")
    assert (after["retention.ms"].value, after["cleanup.policy"].value) == ("12345", "compact,delete")
    assert alter(ResourceType.TOPIC, "c", "retention.ms", None, AlterConfigOpType.DELETE) is None
    assert entries(ResourceType.TOPIC, "c")["retention.ms"].is_default
    broker = entries(ResourceType.BROKER, "1")
    assert broker["node.id"].is_read_only
    assert alter(ResourceType.BROKER, "1", "log.retention.ms", "99999") is None
    assert entries(ResourceType.TOPIC, "c")["retention.ms"].value == "99999"
    assert alter(ResourceType.BROKER, "1", "log.retention.ms", None, AlterConfigOpType.DELETE) is None
    assert alter(ResourceType.BROKER, "1", "node.id", "7") == KafkaError.INVALID_REQUEST
    assert alter(ResourceType.TOPIC, "gone", "retention.ms", "1") == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_the_admin_client_deletes_records_and_lists_offsets(node: NodeProcess, admin: AdminClient) -> None:
    assert outcomes(admin.create_topics([NewTopic("d", 1, 1, config={"retention.ms": "-1"})])) == {"d": None}
    write_confluent(
        node.bootstrap,
        "d",
        [Record(b"k", b"%d" % index, (), 1_700_000_000_000 + (index * 7) % 100) for index in range(100)],
        "none",
    )
    partition = TopicPartition("d", 0)

    def listed(spec: Any) -> int:
        (found,) = outcomes(admin.list_offsets({partition: spec})).values()
        return found.offset

    assert [listed(spec) for spec in (OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.max_timestamp())] == [
        0,
        100,
        57,
    ]
    (deleted,) = outcomes(admin.delete_records([TopicPartition("d", 0, 40)])).values()
    assert deleted.low_watermark == 40
    assert (listed(OffsetSpec.earliest()), listed(OffsetSpec.latest())) == (40, 100)
    (refused,) = outcomes(admin.delete_records([TopicPartition("d", 0, 101)])).values()
    assert refused == KafkaError.OFFSET_OUT_OF_RANGE
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "log_level": 0,
            "group.id": "d",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition("d", 0, 0)])  # Out of range now: the client starts over at the earliest.
    message = consumer.poll(SECONDS_MAX)
    assert message is not None
    assert (message.offset(), message.value()) == (40, b"40")
    consumer.close()


def test_the_admin_client_lists_describes_alters_and_deletes_groups(node: NodeProcess, admin: AdminClient) -> None:
    assert outcomes(admin.create_topics([NewTopic("g", 2, 1)])) == {"g": None}
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "log_level": 0,
            "group.id": "g",
            "client.id": "reader",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["g"])
    deadline = time.monotonic() + SECONDS_MAX
    while len(consumer.assignment()) < 2:
        assert time.monotonic() < deadline
        consumer.poll(0.05)
    assert "g" in [each.group_id for each in admin.list_consumer_groups().result(SECONDS_MAX).valid]
    (described,) = outcomes(admin.describe_consumer_groups(["g"])).values()
    assert (described.state.name, described.partition_assignor, described.coordinator.id) == ("STABLE", "range", 1)
    assert [(each.client_id, len(each.assignment.topic_partitions)) for each in described.members] == [("reader", 2)]
    assert outcomes(admin.delete_consumer_groups(["g"])) == {"g": KafkaError.NON_EMPTY_GROUP}
    consumer.close()
    offsets = ConsumerGroupTopicPartitions("g", [TopicPartition("g", 0, 5), TopicPartition("g", 1, 7)])
    (altered,) = outcomes(admin.alter_consumer_group_offsets([offsets])).values()
    assert all(each.error is None for each in altered.topic_partitions)
    (listed,) = outcomes(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("g")])).values()
    assert sorted((each.partition, each.offset) for each in listed.topic_partitions) == [(0, 5), (1, 7)]
    assert outcomes(admin.delete_consumer_groups(["g", "gone"])) == {"g": None, "gone": KafkaError.GROUP_ID_NOT_FOUND}
    assert "g" not in [each.group_id for each in admin.list_consumer_groups().result(SECONDS_MAX).valid]


def test_the_kafka_python_admin_client_works(node: NodeProcess) -> None:
    admin = KafkaAdminClient(bootstrap_servers=node.bootstrap)
    try:
        admin.create_topics(
            {"p": {"num_partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "5000"}}},
            wait_for_metadata=True,
        )
        admin.create_partitions({"p": 3})
        admin.wait_for_topics(["p"])
        write_confluent(node.bootstrap, "p", [Record(None, b"v")] * 10, "none")
        partition = PythonTopicPartition("p", 0)
        assert admin.delete_records({partition: 4})[partition]["low_watermark"] == 4
        (topic,) = admin.describe_topics(["p"])
        assert len(topic["partitions"]) == 3
        quorum = admin.describe_metadata_quorum()
        assert quorum["topics"][0]["partitions"][0]["leader_id"] == 1
        assert admin.describe_features()["metadata.version"]["finalized"] == (33, 33)
        directories = admin.describe_log_dirs({"p": [0, 1, 2]})
        assert directories
        assert admin.describe_producers([partition])
        assert admin.describe_cluster()["controller_id"] == 1
        admin.delete_topics(["p"])
        assert "p" not in admin.list_topics()
    finally:
        admin.close()


def test_kcat_prints_the_cluster_metadata(node: NodeProcess) -> None:
    printed = kcat("-L", "-b", node.bootstrap)
    assert " 1 brokers:" in printed
    assert f"broker 1 at {node.bootstrap} (controller)" in printed


def test_the_producer_state_of_a_deleted_topic_is_removed(node: NodeProcess, admin: AdminClient) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap, "log_level": 0, "enable.idempotence": True})
    for _ in range(2):
        assert outcomes(admin.create_topics([NewTopic("reborn", 1, 1)])) == {"reborn": None}
        failures: list[Any] = []

        def delivered(problem: Any, _: Any, failures: list[Any] = failures) -> None:
            if problem:
                failures.append(problem)

        for index in range(10):
            producer.produce("reborn", b"%d" % index, on_delivery=delivered)
        assert producer.flush(SECONDS_MAX) == 0
        assert not failures
        assert outcomes(admin.delete_topics(["reborn"])) == {"reborn": None}
