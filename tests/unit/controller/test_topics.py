"""CreateTopics, DeleteTopics and CreatePartitions: what is refused, in which words, and what is written."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.common.errors import ApiError
from kraft.common.ids import ZERO_UUID
from kraft.controller.replication_control.create_partitions import create_partitions
from kraft.controller.replication_control.delete_topics import delete_topics
from kraft.controller.replication_control.replica_placer import StripedReplicaPlacer
from kraft.controller.request_context import ControllerRequestContext
from kraft.metadata.records.config_record import ConfigRecord
from kraft.metadata.records.partition_record import PartitionRecord
from kraft.metadata.records.topic_record import TopicRecord
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kraft.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
)
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kraft.world.steps import at_once
from tests.unit.controller.pure_cluster import PureCluster

CONTEXT = ControllerRequestContext(7)


def wanted(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    *,
    assignments: list[list[int]] | None = None,
    **configs: str | None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
            for index, ids in enumerate(assignments or [])
        ],
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


def test_a_topic_is_written_as_topic_then_config_then_partition_records() -> None:
    cluster = PureCluster(1, 2, 3)
    result = cluster.ask_for(wanted("t", 3, 2, retention_ms="1000"))
    assert [type(record) for record in result.records] == [
        TopicRecord,
        ConfigRecord,
        PartitionRecord,
        PartitionRecord,
        PartitionRecord,
    ]
    assert result.atomic
    answer = cluster.apply(result).topics[0]
    assert (answer.error_code, answer.error_message, answer.num_partitions, answer.replication_factor) == (
        0,
        None,
        3,
        2,
    )
    shown = {config.name: config for config in answer.configs or []}
    assert (shown["retention.ms"].value, shown["retention.ms"].config_source) == ("1000", 1)
    assert shown["cleanup.policy"].config_source == 5
    assert list(shown) == sorted(shown)
    for index in range(3):
        partition = cluster.partition("t", index)
        assert partition.isr == partition.replicas
        assert partition.leader == partition.replicas[0]
        assert (partition.leader_epoch, partition.partition_epoch, partition.leader_recovery_state) == (0, 0, 0)
        assert partition.directories == tuple(bytes([replica]) * 16 for replica in partition.replicas)


def test_minus_one_selects_the_default_partition_count_and_replication_factor() -> None:
    cluster = PureCluster(1, 2, default_replication_factor=2, num_partitions=4)
    cluster.apply(cluster.ask_for(wanted("t", -1, -1)))
    topic = cluster.image.topics.by_name("t")
    assert topic is not None
    assert len(topic.partitions) == 4
    assert len(topic.partitions[0].replicas) == 2


def test_validate_only_topic_creation_writes_nothing() -> None:
    result = PureCluster(1).ask_for(wanted("t"), validate_only=True)
    assert result.records == []
    assert result.response.topics[0].error_code == 0
    assert result.response.topics[0].num_partitions == 1


def test_a_client_without_describe_configs_permission_gets_the_topic_without_configs() -> None:
    context = ControllerRequestContext(7, may_describe_configs=lambda topic: False)
    answer = PureCluster(1).ask_for(wanted("t"), context=context).response.topics[0]
    assert (answer.error_code, answer.topic_config_error_code) == (0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert (answer.num_partitions, answer.replication_factor) == (-1, -1)


REFUSALS: list[tuple[CreatableTopic, int, str]] = [
    (wanted(""), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed"),
    (wanted("."), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: '.' is not allowed"),
    (wanted(".."), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: '..' is not allowed"),
    (
        wanted("a" * 250),
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"Topic name is invalid: the length of '{'a' * 250}' is longer than the max allowed length 249",
    ),
    (
        wanted("a b"),
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
    ),
    (wanted("old"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'old' already exists."),
    (wanted("old_t"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'old_t' already exists."),
    (wanted("old.t"), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic 'old.t' collides with existing topic: old_t"),
    (
        wanted("__cluster_metadata"),
        ErrorCode.INVALID_REQUEST,
        "Creation of internal topic __cluster_metadata is prohibited.",
    ),
    (wanted("t", 0), ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."),
    (wanted("t", -2), ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."),
    (
        wanted("t", 1, 0),
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "Replication factor must be larger than 0, or -1 to use the default value.",
    ),
    (
        wanted("t", 1, 4),
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "Unable to replicate the partition 4 time(s): The target replication factor of 4 cannot be reached "
        "because only 3 broker(s) are registered "
        "or some brokers have all their log directories cordoned.",
    ),
    (wanted("t", a=None, b="1"), ErrorCode.INVALID_CONFIG, "Null value not supported for topic configs: a"),
    (wanted("t", no_such_key="1"), ErrorCode.INVALID_CONFIG, "Unknown topic config name: no.such.key"),
    (
        wanted("t", 1, -1, assignments=[[1]]),
        ErrorCode.INVALID_REQUEST,
        "A manual partition assignment was specified, but numPartitions was not set to -1.",
    ),
    (
        wanted("t", -1, 1, assignments=[[1]]),
        ErrorCode.INVALID_REQUEST,
        "A manual partition assignment was specified, but replication factor was not set to -1.",
    ),
    (
        wanted("t", -1, -1, assignments=[[1], []]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "The manual partition assignment includes an empty replica list.",
    ),
    (
        wanted("t", -1, -1, assignments=[[9]]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "The manual partition assignment includes broker 9, but no such broker is registered.",
    ),
    (
        wanted("t", -1, -1, assignments=[[1, 1]]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "The manual partition assignment includes the broker 1 more than once.",
    ),
    (
        wanted("t", -1, -1, assignments=[[1], [1, 2]]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        (
            "The manual partition assignment includes a partition with 2 replica(s), but this is not consistent "
            "with previous partitions, which have 1 replica(s)."
        ),
    ),
    (
        wanted("t", -1, -1, assignments=[[3]]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        (
            "All brokers specified in the manual partition assignment for partition 0 are fenced or in controlled "
            "shutdown."
        ),
    ),
]


@pytest.mark.parametrize(("topic", "code", "message"), REFUSALS, ids=range(len(REFUSALS)))
def test_invalid_topic_creations_are_refused_with_a_reason(topic: CreatableTopic, code: int, message: str) -> None:
    cluster = PureCluster(1, 2, 3)
    cluster.topic("old", [1])
    cluster.topic("old_t", [1])
    cluster.fence(3)
    result = cluster.ask_for(topic, wanted("good"))
    answers = {answer.name: answer for answer in result.response.topics}
    assert (answers[topic.name].error_code, answers[topic.name].error_message) == (code, message)
    assert answers["good"].error_code == 0, "a bad topic does not stop the others"
    assert {record.name for record in result.records if isinstance(record, TopicRecord)} == {"good"}


def test_a_topic_name_given_twice_is_refused_once() -> None:
    answers = PureCluster(1).ask_for(wanted("a"), wanted("b"), wanted("a")).response.topics
    assert [(answer.name, answer.error_code) for answer in answers] == [("b", 0), ("a", ErrorCode.INVALID_REQUEST)]
    assert answers[1].error_message == "Duplicate topic name."


def test_partition_indexes_must_be_consecutive() -> None:
    topic = wanted("t", -1, -1, assignments=[[1], [1]])
    topic.assignments[1].partition_index = 2
    answer = PureCluster(1).ask_for(topic).response.topics[0]
    assert answer.error_message == "partitions should be a consecutive 0-based integer sequence"
    topic.assignments[1].partition_index = 0
    assert (
        PureCluster(1).ask_for(topic).response.topics[0].error_message
        == "Found multiple manual partition assignments for partition 0"
    )


def test_without_an_unfenced_broker_no_topic_is_created() -> None:
    cluster = PureCluster(1)
    cluster.fence(1)
    answer = cluster.ask_for(wanted("t")).response.topics[0]
    assert answer.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert answer.error_message == (
        "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have all their log "
        "directories cordoned."
    )


def test_a_fenced_replica_is_assigned_last_and_not_in_sync() -> None:
    cluster = PureCluster(1, 2)
    cluster.fence(2)
    cluster.apply(cluster.ask_for(wanted("t", 4, 2)))
    for index in range(4):
        partition = cluster.partition("t", index)
        assert (partition.replicas, partition.isr, partition.leader) == ((1, 2), (1,), 1)


@pytest.mark.parametrize(
    ("sizes", "allowed"), [([10_000], False), ([9_999], True), ([9_000, 2_000], False), ([10_001], False)]
)
def test_ten_thousand_records_are_the_limit_of_one_topic_creation_request(sizes: list[int], allowed: bool) -> None:
    topics = [wanted(f"t{index}", size) for index, size in enumerate(sizes)]
    if allowed:
        assert PureCluster(1).ask_for(*topics).response.topics[0].error_code == 0
        return
    with pytest.raises(ApiError) as refused:
        PureCluster(1).ask_for(*topics)
    assert refused.value.code == ErrorCode.POLICY_VIOLATION


def test_the_mutation_quota_refuses_single_topics() -> None:
    def charge(mutations: int) -> None:
        if mutations > 2:
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "too many")

    answers = (
        PureCluster(1)
        .ask_for(wanted("a", 3), wanted("b", 2), context=ControllerRequestContext(7, charge_mutations=charge))
        .response.topics
    )
    assert [answer.error_code for answer in answers] == [ErrorCode.THROTTLING_QUOTA_EXCEEDED, 0]


def delete(cluster: PureCluster, version: int = 6, **fields: Any) -> list[tuple[str | None, bytes, int, str | None]]:
    answer = cluster.apply(
        delete_topics(cluster.view, DeleteTopicsRequest(**fields), ControllerRequestContext(version))
    )
    return [(r.name, r.topic_id, r.error_code, r.error_message) for r in answer.responses]


def test_topics_are_deleted_by_name_and_by_id_with_their_configs() -> None:
    cluster = PureCluster(1)
    first, second = cluster.topic("a", [1], retention_ms="5"), cluster.topic("b", [1])
    answers = delete(cluster, topics=[DeleteTopicState(name="a"), DeleteTopicState(topic_id=second)])
    assert sorted(answers, key=str) == sorted([("a", first, 0, None), ("b", second, 0, None)], key=str)
    assert not cluster.image.topics.by_id
    assert not cluster.image.configs.resources


def test_invalid_topic_deletions_are_refused() -> None:
    cluster = PureCluster(1)
    known = cluster.topic("a", [1])
    other = cluster.topic("b", [1])
    states = [
        DeleteTopicState(name="twice"),
        DeleteTopicState(name="twice"),
        DeleteTopicState(name="gone"),
        DeleteTopicState(topic_id=b"x" * 16),
        DeleteTopicState(name=None, topic_id=ZERO_UUID),
        DeleteTopicState(name="both", topic_id=known),
        DeleteTopicState(name="b"),
        DeleteTopicState(topic_id=other),
    ]
    answers = delete(cluster, topics=states)
    assert (None, ZERO_UUID, ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.") in answers
    assert ("both", known, ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.") in answers
    assert ("twice", ZERO_UUID, ErrorCode.INVALID_REQUEST, "Duplicate topic name.") in answers
    assert (
        "b",
        other,
        ErrorCode.INVALID_REQUEST,
        "The provided topic name maps to an ID that was already supplied.",
    ) in answers
    codes = {(name, code) for name, _, code, _ in answers}
    assert ("gone", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) in codes
    assert (None, ErrorCode.UNKNOWN_TOPIC_ID) in codes
    assert set(cluster.image.topics.id_by_name) == {"a", "b"}


REMOTE_METADATA = "__remote_log_metadata"


def test_the_remote_log_metadata_topic_is_not_deleted_while_topics_have_remote_segments() -> None:
    cluster = PureCluster(1)
    metadata_id = cluster.topic(REMOTE_METADATA, [1])
    for name in ("a", "b", "c", "d"):
        cluster.topic(name, [1], remote_storage_enable="true")
    cluster.topic("never", [1], remote_storage_enable="false")
    for request in ({"topic_names": [REMOTE_METADATA]}, {"topics": [DeleteTopicState(topic_id=metadata_id)]}):
        ((name, _, code, message),) = delete(cluster, **request)
        assert (name, code) == (REMOTE_METADATA, ErrorCode.POLICY_VIOLATION)
        assert message == (
            "__remote_log_metadata cannot be deleted: it alone records which segments are in remote storage. "
            "Without it those of a, b, c and 1 more can be neither read nor deleted. "
            "Delete these topics first, or switch their tiering off "
            "(remote.storage.enable=false, remote.log.delete.on.disable=true), and set "
            "remote.log.storage.system.enable=false on every node."
        )
    assert [code for _, _, code, _ in delete(cluster, topic_names=["a", "b", "c", "d"])] == [0, 0, 0, 0]
    assert [code for _, _, code, _ in delete(cluster, topic_names=[REMOTE_METADATA])] == [0]


def test_the_remote_log_metadata_topic_is_not_deleted_while_nodes_have_tiering_enabled() -> None:
    """Segments of topics that were deleted are deleted by what it says."""
    cluster = PureCluster(1, remote_storage_enabled=True)
    cluster.topic(REMOTE_METADATA, [1])
    ((_, _, code, message),) = delete(cluster, topic_names=[REMOTE_METADATA])
    assert code == ErrorCode.POLICY_VIOLATION
    assert message is not None
    assert "those of deleted topics cannot be deleted" in message
    assert set(cluster.image.topics.id_by_name) == {REMOTE_METADATA}


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state", "__share_group_state"])
def test_other_internal_topics_can_be_deleted_as_in_kafka(name: str) -> None:
    cluster = PureCluster(1, remote_storage_enabled=True)
    cluster.topic(name, [1])
    assert [code for _, _, code, _ in delete(cluster, topic_names=[name])] == [0]


def test_delete_topic_enable_false_refuses_topic_deletion() -> None:
    cluster = PureCluster(1, delete_topic_enable=False)
    for version, code in ((2, ErrorCode.INVALID_REQUEST), (6, ErrorCode.TOPIC_DELETION_DISABLED)):
        with pytest.raises(ApiError) as refused:
            delete(cluster, version, topic_names=["a"])
        assert refused.value.code == code


def grow(
    cluster: PureCluster, *topics: CreatePartitionsTopic, validate_only: bool = False
) -> list[tuple[str, int, str | None]]:
    request = CreatePartitionsRequest(topics=list(topics), validate_only=validate_only)
    answer = cluster.apply(
        at_once(
            create_partitions(cluster.view, request, ControllerRequestContext(3), StripedReplicaPlacer(cluster._random))
        )
    )
    return [(result.name, result.error_code, result.error_message) for result in answer.results]


def more(name: str, count: int, assignments: list[list[int]] | None = None) -> CreatePartitionsTopic:
    listed = None if assignments is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
    return CreatePartitionsTopic(name=name, count=count, assignments=listed)


def test_partitions_are_added_to_a_topic() -> None:
    cluster = PureCluster(1, 2)
    cluster.topic("t", [1, 2])
    assert grow(cluster, more("t", 3)) == [("t", 0, None)]
    assert grow(cluster, more("t", 4, [[2, 1]])) == [("t", 0, None)]
    assert cluster.partition("t", 3).replicas == (2, 1)
    assert grow(cluster, more("t", 9), validate_only=True) == [("t", 0, None)]
    topic = cluster.image.topics.by_name("t")
    assert topic is not None
    assert list(topic.partitions) == [0, 1, 2, 3]


INTERNAL = ["__consumer_offsets", "__transaction_state", "__share_group_state", "__remote_log_metadata"]
CLUSTER_DEFAULT = ""


@pytest.mark.parametrize("name", INTERNAL)
def test_internal_topics_with_keys_placed_by_partition_count_refuse_new_partitions(name: str) -> None:
    cluster = PureCluster(1, 2)
    cluster.topic(name, [1, 2])
    for validate_only in (True, False):
        ((_, code, message),) = grow(cluster, more(name, 3), validate_only=validate_only)
        assert code == ErrorCode.POLICY_VIOLATION
        assert message is not None
        assert f"{name} stays at 1 partitions" in message
        assert "kraft.internal.topics.growth.enable=true" in message
    topic = cluster.image.topics.by_name(name)
    assert topic is not None
    assert len(topic.partitions) == 1


@pytest.mark.parametrize("name", INTERNAL)
def test_internal_topics_get_new_partitions_when_the_growth_setting_allows_it(name: str) -> None:
    static = PureCluster(1, 2, internal_topics_grow=True)
    dynamic = PureCluster(1, 2)
    dynamic.replay(
        ConfigRecord(
            resource_type=4,
            resource_name=CLUSTER_DEFAULT,
            name="kraft.internal.topics.growth.enable",
            value="true",
        )
    )
    for cluster in (static, dynamic):
        cluster.topic(name, [1, 2])
        assert grow(cluster, more(name, 3)) == [(name, 0, None)]


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (more("no", 2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        (more("t", 2), ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
        (
            more("t", 1),
            ErrorCode.INVALID_PARTITIONS,
            "The topic t currently has 2 partition(s); 1 would not be an increase.",
        ),
        (
            more("t", 4, [[1]]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            more("t", 3, [[1, 2]]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes a partition with 2 replica(s), but this is not "
            "consistent with previous partitions, "
            "which have 1 replica(s).",
        ),
    ],
)
def test_invalid_partition_additions_are_refused(topic: CreatePartitionsTopic, code: int, message: str | None) -> None:
    cluster = PureCluster(1, 2)
    cluster.topic("t", [1], [1])
    assert grow(cluster, topic) == [(topic.name, code, message)]


def test_adding_partitions_to_a_topic_named_twice_is_refused() -> None:
    cluster = PureCluster(1)
    cluster.topic("t", [1])
    assert grow(cluster, more("t", 2), more("t", 3)) == [("t", ErrorCode.INVALID_REQUEST, "Duplicate topic name.")]
