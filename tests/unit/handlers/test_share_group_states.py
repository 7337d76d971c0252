"""The share coordinator's APIs on a broker: off while share.version is 0, for brokers only, and durable in
`__share_group_state`."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kraft.common.errors import ApiError
from kraft.common.features import SHARE_VERSION
from kraft.common.internal_topics import SHARE_GROUP_STATE_TOPIC
from kraft.coordinator.share.share_coordinator import coordinator_key
from kraft.coordinator.share.share_state import SharePartitionKey
from kraft.metadata.records.feature_level_record import FeatureLevelRecord
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import delete_share_group_state_request as deleting
from kraft.protocol.messages import initialize_share_group_state_request as initializing
from kraft.protocol.messages import read_share_group_state_request as reading
from kraft.protocol.messages import read_share_group_state_summary_request as summarizing
from kraft.protocol.messages import write_share_group_state_request as writing
from kraft.protocol.messages.create_topics_request import CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kraft.security.acl_rules import AclRules
from kraft.security.acls import CLUSTER_NAME, AccessControlEntry, Operation, PatternType, Permission, ResourceKind
from kraft.world.simulated import Universe
from tests.unit.server.brokers import NODE, Broker, broker, simulate

AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def requests_for(topic_id: bytes, partition: int = 0) -> list[Any]:
    """A request of each of the five APIs, for one share partition."""
    return [
        initializing.InitializeShareGroupStateRequest(
            group_id="g",
            topics=[
                initializing.InitializeStateData(
                    topic_id=topic_id,
                    partitions=[initializing.PartitionData(partition=partition, start_offset=7)],
                )
            ],
        ),
        writing.WriteShareGroupStateRequest(
            group_id="g",
            topics=[
                writing.WriteStateData(
                    topic_id=topic_id,
                    partitions=[
                        writing.PartitionData(
                            partition=partition,
                            start_offset=9,
                            delivery_complete_count=2,
                            state_batches=[
                                writing.StateBatch(first_offset=9, last_offset=11, delivery_state=2, delivery_count=1)
                            ],
                        )
                    ],
                )
            ],
        ),
        reading.ReadShareGroupStateRequest(
            group_id="g",
            topics=[reading.ReadStateData(topic_id=topic_id, partitions=[reading.PartitionData(partition=partition)])],
        ),
        summarizing.ReadShareGroupStateSummaryRequest(
            group_id="g",
            topics=[
                summarizing.ReadStateSummaryData(
                    topic_id=topic_id, partitions=[summarizing.PartitionData(partition=partition)]
                )
            ],
        ),
        deleting.DeleteShareGroupStateRequest(
            group_id="g",
            topics=[
                deleting.DeleteStateData(topic_id=topic_id, partitions=[deleting.PartitionData(partition=partition)])
            ],
        ),
    ]


def turn_on(made: Broker, level: int = 1) -> None:
    made.publish(FeatureLevelRecord(name=SHARE_VERSION, feature_level=level))


def allow(made: Broker, operation: int) -> None:
    """Allow everybody this operation on the cluster, and nothing else."""
    right = AccessControlEntry(
        ResourceKind.CLUSTER, CLUSTER_NAME, PatternType.LITERAL, "User:*", "*", operation, Permission.ALLOW
    )
    assert made.server.authorizer is not None
    made.server.authorizer.take_rules(AclRules().changed((), (right,)))


async def result_of(made: Broker, request: Any) -> Any:
    (topic,) = (await made.ask(request)).results
    (result,) = topic.partitions
    assert topic.topic_id == request.topics[0].topic_id
    assert result.partition == request.topics[0].partitions[0].partition
    return result


def test_share_states_are_written_read_and_deleted_at_their_coordinator() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made, trio.open_nursery() as nursery:
            turn_on(made)
            nursery.start_soon(made.server.shares.run)
            topic_id = made.topic("t")
            made.topic(SHARE_GROUP_STATE_TOPIC, 3)
            await until_loaded(made, 3)
            initialize, write, read, summarize, delete = requests_for(topic_id)
            for request in (initialize, write):
                assert (await result_of(made, request)).error_code == ErrorCode.NONE
            state = await result_of(made, read)
            assert (state.start_offset, state.state_batches[0].last_offset) == (9, 11)
            summary = await result_of(made, summarize)
            assert (summary.start_offset, summary.delivery_complete_count) == (9, 2)
            place = made.server.shares.coordinator.partition_for(SharePartitionKey("g", topic_id, 0))
            ends = [made.partition(SHARE_GROUP_STATE_TOPIC, index).log.log_end_offset for index in range(3)]
            assert [end > 0 for end in ends] == [index == place for index in range(3)]
            assert (await result_of(made, delete)).error_code == ErrorCode.NONE
            assert (await result_of(made, summarize)).start_offset == -1
            nursery.cancel_scope.cancel()

    simulate(play)


async def until_loaded(made: Broker, partitions: int) -> None:
    runtime = made.server.shares.coordinator.runtime
    while not all(runtime.is_active(index) for index in range(partitions)):
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("index", range(5))
def test_share_state_apis_are_refused_while_share_groups_are_off(index: int) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            topic_id = made.topic("t")
            for level in (0, 1, 0):
                turn_on(made, level)
                code = (await result_of(made, requests_for(topic_id)[index])).error_code
                assert code == (ErrorCode.COORDINATOR_NOT_AVAILABLE if level else ErrorCode.UNSUPPORTED_VERSION)

    simulate(play)


def test_a_share_member_is_refused_while_share_groups_are_off() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            heartbeat = ShareGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=["t"])
            assert (await made.ask(heartbeat)).error_code == ErrorCode.UNSUPPORTED_VERSION

    simulate(play)


@pytest.mark.parametrize("index", range(5))
def test_share_state_apis_need_cluster_action(index: int) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=(AUTHORIZER,)) as made:
            turn_on(made)
            topic_id = made.topic("t")
            request = requests_for(topic_id)[index]
            allow(made, Operation.DESCRIBE)
            assert (await result_of(made, request)).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            allow(made, Operation.CLUSTER_ACTION)
            assert (await result_of(made, request)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    simulate(play)


def test_a_broker_that_resigned_a_share_state_partition_is_not_its_coordinator() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made, trio.open_nursery() as nursery:
            turn_on(made)
            nursery.start_soon(made.server.shares.run)
            topic_id, states = made.topic("t"), made.topic(SHARE_GROUP_STATE_TOPIC, replicas=(NODE, 2))
            made.change(states, isr=[NODE])
            await until_loaded(made, 1)
            initialize = requests_for(topic_id)[0]
            assert (await result_of(made, initialize)).error_code == ErrorCode.NONE
            made.change(states, leader=2)
            assert (await result_of(made, initialize)).error_code == ErrorCode.NOT_COORDINATOR
            nursery.cancel_scope.cancel()

    simulate(play)


def test_the_share_states_of_a_deleted_topic_are_deleted_by_its_metadata() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made, trio.open_nursery() as nursery:
            turn_on(made)
            nursery.start_soon(made.server.shares.run)
            topic_id = made.topic("t")
            made.topic(SHARE_GROUP_STATE_TOPIC)
            await until_loaded(made, 1)
            await result_of(made, requests_for(topic_id)[0])
            runtime = made.server.shares.coordinator.runtime
            assert runtime.read(0, lambda shard: len(shard.partitions)) == 1
            made.delete_topic(topic_id)
            await made.world.clock.sleep(1)
            assert runtime.read(0, lambda shard: len(shard.partitions)) == 0
            nursery.cancel_scope.cancel()

    simulate(play)


def test_redundant_share_states_are_deleted_from_the_log() -> None:
    sets = (
        "share.coordinator.cold.partition.snapshot.interval.ms=10000",
        "share.coordinator.state.topic.prune.interval.ms=15000",
    )

    async def play(universe: Universe) -> None:
        async with broker(universe, sets=sets) as made, trio.open_nursery() as nursery:
            turn_on(made)
            nursery.start_soon(made.server.shares.run)
            topic_id = made.topic("t")
            made.topic(SHARE_GROUP_STATE_TOPIC, cleanup_policy="delete")
            await until_loaded(made, 1)
            initialize, write, *_ = requests_for(topic_id)
            await result_of(made, initialize)
            for _ in range(30):
                await result_of(made, write)
            log = made.partition(SHARE_GROUP_STATE_TOPIC).log
            assert (log.log_start_offset, log.log_end_offset) == (0, 31)
            await made.world.clock.sleep(11)
            assert (log.log_start_offset, log.log_end_offset) == (0, 32), "a snapshot"
            await made.world.clock.sleep(5)
            assert log.log_start_offset == 31
            nursery.cancel_scope.cancel()

    simulate(play)


def created(made: Broker) -> list[Any]:
    """Let the controller create topics. Returns the topics that it will have created."""
    topics: list[Any] = []

    def create(request: CreateTopicsRequest) -> CreateTopicsResponse:
        (topic,) = request.topics
        topics.append(topic)
        made.topic(topic.name, topic.num_partitions)
        return CreateTopicsResponse(topics=[CreatableTopicResult(name=topic.name)])

    made.controller.answers[CreateTopicsRequest.API_KEY] = create
    return topics


def test_the_topic_of_share_states_is_created_with_its_settings() -> None:
    sets = (
        "share.coordinator.state.topic.num.partitions=4",
        "share.coordinator.state.topic.segment.bytes=2000000",
        "share.coordinator.state.topic.replication.factor=2",
        "share.coordinator.state.topic.min.isr=1",
        "log.retention.bytes=1000",
    )

    async def play(universe: Universe) -> None:
        async with broker(universe, sets=sets) as made:
            topics = created(made)
            assert made.server.shares.coordinator.partition_for(SharePartitionKey("g", bytes(16), 0)) < 4
            await made.server.shares._create_topic()
            (topic,) = topics
            assert (topic.num_partitions, topic.replication_factor) == (4, 2)
            assert {each.name: each.value for each in topic.configs} == {
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "min.insync.replicas": "1",
                "retention.bytes": "-1",
                "retention.ms": "-1",
                "segment.bytes": "2000000",
            }

    simulate(play)


def test_a_refused_creation_of_the_topic_of_share_states_is_raised_and_reported() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            code = ErrorCode.INVALID_REPLICATION_FACTOR
            made.controller.answers[CreateTopicsRequest.API_KEY] = lambda request: CreateTopicsResponse(
                topics=[CreatableTopicResult(name=request.topics[0].name, error_code=code, error_message="2 of 3")]
            )
            with pytest.raises(ApiError, match="2 of 3"):
                await made.server.shares._create_topic()
            unmade = made.server.services.unmade_topics.items(lambda name: False)
            assert [(each.topic, each.reason) for each in unmade] == [(SHARE_GROUP_STATE_TOPIC, "2 of 3")]

    simulate(play)


def test_the_share_coordinator_of_a_share_partition_is_found() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            turn_on(made)
            topics = created(made)
            key = coordinator_key(SharePartitionKey("g", made.topic("t"), 0))
            wrong = FindCoordinatorRequest(coordinator_keys=["g:t:0"], key_type=2)
            assert [each.error_code for each in (await made.ask(wrong, 6)).coordinators] == [ErrorCode.INVALID_REQUEST]
            assert topics == [], "a malformed key creates nothing"
            request = FindCoordinatorRequest(coordinator_keys=["x", key, ""], key_type=2)
            found = (await made.ask(request, 6)).coordinators
            assert [(each.key, each.error_code, each.node_id) for each in found] == [
                ("x", ErrorCode.INVALID_REQUEST, -1),
                (key, ErrorCode.NONE, NODE),
                ("", ErrorCode.INVALID_REQUEST, -1),
            ]
            assert [topic.name for topic in topics] == [SHARE_GROUP_STATE_TOPIC]
            assert (await made.ask(request, 5)).coordinators[1].error_code == ErrorCode.INVALID_REQUEST
            turn_on(made, 0)
            assert (await made.ask(request, 6)).coordinators[1].error_code == ErrorCode.INVALID_REQUEST

    simulate(play)


@pytest.mark.parametrize(
    ("version", "code"), [(6, ErrorCode.CLUSTER_AUTHORIZATION_FAILED), (5, ErrorCode.INVALID_REQUEST)]
)
def test_finding_share_coordinators_needs_cluster_action(version: int, code: int) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=(AUTHORIZER,)) as made:
            turn_on(made)
            allow(made, Operation.DESCRIBE)
            key = coordinator_key(SharePartitionKey("g", made.topic("t"), 0))
            request = FindCoordinatorRequest(coordinator_keys=[key], key_type=2)
            assert [each.error_code for each in (await made.ask(request, version)).coordinators] == [code]

    simulate(play)
