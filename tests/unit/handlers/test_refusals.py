"""What brokers answer to requests that ask for nonsense, for nothing, or for the same thing twice: as Apache Kafka
4.3.1 does."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.handlers.configs.describe_configs import CONFIGS_MAX
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kraft.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kraft.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kraft.protocol.messages.describe_producers_request import DescribeProducersRequest
from kraft.protocol.messages.describe_producers_request import TopicRequest as ProducersOfTopic
from kraft.protocol.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kraft.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kraft.world.simulated import Universe
from tests.unit.server.brokers import NODE, batch, broker, simulate


def answer_to(request: Any, version: int | None = None) -> Any:
    """The answer of a broker that leads `t`."""
    found: list[Any] = []

    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            found.append(await made.ask(request, version))

    simulate(play)
    return found[0]


def fetch(topic: str = "t", isolation: int = 0) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    return FetchRequest(
        max_wait_ms=0, max_bytes=1000, isolation_level=isolation, topics=[FetchTopic(topic=topic, partitions=[wanted])]
    )


def test_fetch_accepts_only_two_isolation_levels() -> None:
    answer = answer_to(fetch(isolation=5), 12)
    (partition,) = answer.responses[0].partitions
    assert (answer.error_code, partition.error_code) == (ErrorCode.UNKNOWN_SERVER_ERROR,) * 2
    assert (partition.high_watermark, list(partition.aborted_transactions)) == (-1, [])


def test_fetch_by_id_with_an_unknown_isolation_level_names_no_partitions() -> None:
    answer = answer_to(fetch(isolation=5), 13)
    assert (answer.error_code, list(answer.responses)) == (ErrorCode.UNKNOWN_SERVER_ERROR, [])


def test_a_fetch_of_an_unknown_topic_lists_no_aborted_transactions() -> None:
    (partition,) = answer_to(fetch("missing"), 12).responses[0].partitions
    assert (partition.error_code, list(partition.aborted_transactions)) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])


def list_offsets(*indexes: int, isolation: int = 0) -> ListOffsetsRequest:
    topics = [
        ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=index, timestamp=-1)])
        for index in indexes
    ]
    return ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics)


def test_a_partition_listed_twice_in_list_offsets_is_answered_once() -> None:
    (topic,) = answer_to(list_offsets(0, 0)).topics
    assert [(each.partition_index, each.error_code, each.offset) for each in topic.partitions] == [
        (0, ErrorCode.INVALID_REQUEST, -1)
    ]


def test_list_offsets_with_an_unknown_isolation_level_is_refused() -> None:
    (topic,) = answer_to(list_offsets(0, isolation=7)).topics
    assert [each.error_code for each in topic.partitions] == [ErrorCode.UNKNOWN_SERVER_ERROR]


def test_a_topic_named_twice_in_a_metadata_request_is_returned_once() -> None:
    answer = answer_to(MetadataRequest(topics=[MetadataRequestTopic(name="t"), MetadataRequestTopic(name="t")]))
    assert [topic.name for topic in answer.topics] == ["t"]


def test_a_negative_cursor_is_refused_for_each_topic() -> None:
    answer = answer_to(
        DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name="t")], cursor=Cursor(topic_name="t", partition_index=-1)
        )
    )
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("t", ErrorCode.INVALID_REQUEST)]


def test_a_cursor_on_a_deleted_topic_does_not_skip_partitions_of_the_next_topic() -> None:
    missing, described = answer_to(
        DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name="gone"), TopicRequest(name="t")],
            cursor=Cursor(topic_name="gone", partition_index=1),
        )
    ).topics
    assert (missing.name, missing.error_code) == ("gone", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert [partition.partition_index for partition in described.partitions] == [0]


@pytest.mark.parametrize("limit", [0, -5])
def test_at_least_one_partition_is_described_per_response(limit: int) -> None:
    (topic,) = answer_to(
        DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")], response_partition_limit=limit)
    ).topics
    assert len(topic.partitions) == 1


def test_invalid_topic_names_are_refused() -> None:
    (topic,) = answer_to(DescribeTopicPartitionsRequest(topics=[TopicRequest(name="no/slash")])).topics
    assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    (producers,) = answer_to(
        DescribeProducersRequest(topics=[ProducersOfTopic(name="no/slash", partition_indexes=[0])])
    ).topics
    assert producers.partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_describe_producers_of_an_unknown_topic_is_refused() -> None:
    (topic,) = answer_to(
        DescribeProducersRequest(topics=[ProducersOfTopic(name="missing", partition_indexes=[0])])
    ).topics
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert topic.partitions[0].error_message


@pytest.mark.parametrize(("producer_id", "epoch"), [(77, -1), (-1, 4)])
def test_an_incomplete_producer_identity_is_refused(producer_id: int, epoch: int) -> None:
    answer = answer_to(
        InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=1000, producer_id=producer_id, producer_epoch=epoch
        ),
        5,
    )
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (ErrorCode.INVALID_REQUEST, -1, -1)


@pytest.mark.parametrize("kind", [2, 9])
def test_a_refused_endpoint_type_is_not_echoed(kind: int) -> None:
    answer = answer_to(DescribeClusterRequest(endpoint_type=kind))
    assert answer.error_code in (ErrorCode.MISMATCHED_ENDPOINT_TYPE, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)
    assert answer.endpoint_type == 1


def test_configs_of_an_unknown_topic_have_an_empty_error_message() -> None:
    (result,) = answer_to(
        DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=2, resource_name="missing")])
    ).results
    assert (result.error_code, result.error_message) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")


def test_find_coordinator_for_one_key_returns_an_error_message() -> None:
    assert answer_to(FindCoordinatorRequest(key="k", key_type=9), 3).error_message


def test_a_resource_named_twice_is_described_once() -> None:
    """Kafka repeats it."""
    topic = DescribeConfigsResource(resource_type=2, resource_name="t")
    assert [each.resource_name for each in answer_to(DescribeConfigsRequest(resources=[topic, topic])).results] == ["t"]
    producers = ProducersOfTopic(name="t", partition_indexes=[0, 0])
    (described,) = answer_to(DescribeProducersRequest(topics=[producers, producers])).topics
    assert [each.partition_index for each in described.partitions] == [0]
    assert [each.group_id for each in answer_to(DescribeGroupsRequest(groups=["g", "g"])).groups] == ["g"]
    transactions = answer_to(DescribeTransactionsRequest(transactional_ids=["x", "x"])).transaction_states
    assert [each.transactional_id for each in transactions] == ["x"]


def test_a_follower_answers_epoch_end_offsets_only_to_a_debugging_consumer() -> None:
    """Of an epoch beyond its log it tells the last one. Kafka's followers refuse."""
    found: list[Any] = []

    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            topic = made.topic("t", replicas=(NODE, 2))
            made.partition("t").append(memoryview(batch(b"v")), 1, made.world.clock.wall_ms(), 0)
            made.change(topic, leader=2)
            for replica, epoch in ((-2, 0), (-2, 9), (-1, 0)):
                wanted = OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=epoch)
                request = OffsetForLeaderEpochRequest(
                    replica_id=replica, topics=[OffsetForLeaderTopic(topic="t", partitions=[wanted])]
                )
                (told,) = (await made.ask(request)).topics[0].partitions
                found.append((told.error_code, told.leader_epoch, told.end_offset))

    simulate(play)
    assert found == [(0, 0, 1), (0, 0, 1), (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1)]


def test_the_number_of_config_keys_in_one_response_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    assert CONFIGS_MAX == 400_000
    monkeypatch.setattr("kraft.handlers.configs.describe_configs.CONFIGS_MAX", 2)
    resources = [
        DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=keys)
        for keys in (["retention.ms", "cleanup.policy"], ["segment.bytes"])
    ]
    first, second = answer_to(DescribeConfigsRequest(resources=resources)).results
    assert (first.error_code, len(first.configs)) == (0, 2)
    assert (second.error_code, second.configs) == (ErrorCode.POLICY_VIOLATION, [])
