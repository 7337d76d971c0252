"""No request, however many items it names, holds the loop for 20 ms in one step.

The requests that decode most elements, each with nearly as many as a request may have, against a broker with a topic
of a thousand partitions and the shards of its groups. Steps are measured in processor time of the loop's thread.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import trio

from kraft.common.errors import ApiError
from kraft.common.internal_topics import OFFSETS_TOPIC
from kraft.network.reply import Reply
from kraft.protocol import api_keys
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.framing import SIZE_BYTES, encode_request
from kraft.protocol.messages import (
    alter_configs_request,
    alter_partition_reassignments_request,
    alter_replica_log_dirs_request,
    create_partitions_request,
    create_topics_request,
    delete_groups_request,
    delete_records_request,
    delete_topics_request,
    describe_configs_request,
    describe_groups_request,
    describe_log_dirs_request,
    describe_producers_request,
    describe_topic_partitions_request,
    elect_leaders_request,
    find_coordinator_request,
    incremental_alter_configs_request,
    join_group_request,
    leave_group_request,
    list_groups_request,
    list_offsets_request,
    metadata_request,
    offset_commit_request,
    offset_delete_request,
    offset_fetch_request,
    offset_for_leader_epoch_request,
    sync_group_request,
)
from kraft.protocol.primitives import ELEMENTS_MAX
from kraft.world.simulated import Universe
from tests.loop_steps import loop_steps
from tests.unit.server.brokers import Broker, broker, simulate

STEP_SECONDS_MAX = 0.08
"""Four times the aim of 20 ms: a machine that is shared with other tests is slower, by processor time too. What these
tests are there for took 198 ms to 53 s."""
PARTITIONS = 1000
MANY = ELEMENTS_MAX - 500
HALF = MANY // 2


def names(count: int) -> list[str]:
    return [f"n{number}" for number in range(count)]


def large_requests() -> dict[str, Callable[[], tuple[Any, int]]]:
    commit, fetch, delete = offset_commit_request, offset_fetch_request, offset_delete_request
    records, epochs, listed = delete_records_request, offset_for_leader_epoch_request, list_offsets_request
    dirs, producers, elect = alter_replica_log_dirs_request, describe_producers_request, elect_leaders_request
    moves, configs, incremental = (
        alter_partition_reassignments_request,
        describe_configs_request,
        incremental_alter_configs_request,
    )
    paged, altered, grown = describe_topic_partitions_request, alter_configs_request, create_partitions_request
    log_dirs = describe_log_dirs_request
    made: dict[str, Callable[[], Any]] = {
        "Metadata of unknown topics": lambda: metadata_request.MetadataRequest(
            topics=[metadata_request.MetadataRequestTopic(name=name) for name in names(MANY)]
        ),
        "FindCoordinator": lambda: find_coordinator_request.FindCoordinatorRequest(coordinator_keys=names(MANY)),
        "DescribeGroups": lambda: describe_groups_request.DescribeGroupsRequest(groups=names(MANY)),
        "DeleteGroups": lambda: delete_groups_request.DeleteGroupsRequest(groups_names=names(MANY)),
        "ListGroups": lambda: list_groups_request.ListGroupsRequest(states_filter=names(MANY)),
        "OffsetCommit": lambda: commit.OffsetCommitRequest(
            group_id="g",
            topics=[
                commit.OffsetCommitRequestTopic(
                    name="t",
                    topic_id=TOPIC,
                    partitions=[commit.OffsetCommitRequestPartition(partition_index=index) for index in range(MANY)],
                )
            ],
        ),
        "OffsetCommit of unknown topics": lambda: commit.OffsetCommitRequest(
            group_id="g",
            topics=[
                commit.OffsetCommitRequestTopic(name=name, partitions=[commit.OffsetCommitRequestPartition()])
                for name in names(HALF)
            ],
        ),
        "OffsetFetch": lambda: fetch.OffsetFetchRequest(
            groups=[
                fetch.OffsetFetchRequestGroup(
                    group_id="g",
                    topics=[
                        fetch.OffsetFetchRequestTopics(name="t", topic_id=TOPIC, partition_indexes=list(range(MANY)))
                    ],
                )
            ]
        ),
        "OffsetFetch of many groups": lambda: fetch.OffsetFetchRequest(
            groups=[fetch.OffsetFetchRequestGroup(group_id=name) for name in names(MANY)]
        ),
        "OffsetDelete": lambda: delete.OffsetDeleteRequest(
            group_id="g",
            topics=[
                delete.OffsetDeleteRequestTopic(
                    name="t",
                    partitions=[delete.OffsetDeleteRequestPartition(partition_index=index) for index in range(MANY)],
                )
            ],
        ),
        "LeaveGroup": lambda: leave_group_request.LeaveGroupRequest(
            group_id="g", members=[leave_group_request.MemberIdentity(member_id=name) for name in names(MANY)]
        ),
        "JoinGroup": lambda: join_group_request.JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[join_group_request.JoinGroupRequestProtocol(name=name) for name in names(MANY)],
        ),
        "SyncGroup": lambda: sync_group_request.SyncGroupRequest(
            group_id="g",
            protocol_type="consumer",
            protocol_name="range",
            assignments=[sync_group_request.SyncGroupRequestAssignment(member_id=name) for name in names(MANY)],
        ),
        "DeleteRecords": lambda: records.DeleteRecordsRequest(
            timeout_ms=1000,
            topics=[
                records.DeleteRecordsTopic(
                    name="t",
                    partitions=[records.DeleteRecordsPartition(partition_index=index) for index in range(MANY)],
                )
            ],
        ),
        "ListOffsets": lambda: listed.ListOffsetsRequest(
            replica_id=-1,
            topics=[
                listed.ListOffsetsTopic(
                    name="t",
                    partitions=[listed.ListOffsetsPartition(partition_index=index) for index in range(MANY)],
                )
            ],
        ),
        "ListOffsets of one partition": lambda: listed.ListOffsetsRequest(
            replica_id=-1,
            topics=[listed.ListOffsetsTopic(name="t", partitions=[listed.ListOffsetsPartition()] * MANY)],
        ),
        "OffsetForLeaderEpoch": lambda: epochs.OffsetForLeaderEpochRequest(
            replica_id=-2,
            topics=[
                epochs.OffsetForLeaderTopic(
                    topic="t", partitions=[epochs.OffsetForLeaderPartition(partition=index) for index in range(MANY)]
                )
            ],
        ),
        "DescribeConfigs of one broker": lambda: configs.DescribeConfigsRequest(
            resources=[configs.DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)]
            * 20_000,
            include_synonyms=True,
            include_documentation=True,
        ),
        "DescribeConfigs of groups": lambda: configs.DescribeConfigsRequest(
            resources=[
                configs.DescribeConfigsResource(resource_type=32, resource_name=name, configuration_keys=None)
                for name in names(20_000)
            ]
        ),
        "DescribeConfigs of unknown topics": lambda: configs.DescribeConfigsRequest(
            resources=[
                configs.DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=None)
                for name in names(MANY)
            ]
        ),
        "DescribeConfigs with many keys": lambda: configs.DescribeConfigsRequest(
            resources=[
                configs.DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=names(MANY))
            ]
        ),
        "AlterReplicaLogDirs": lambda: dirs.AlterReplicaLogDirsRequest(
            dirs=[
                dirs.AlterReplicaLogDir(
                    path="/nowhere",
                    topics=[dirs.AlterReplicaLogDirTopic(name="t", partitions=list(range(MANY)))],
                )
            ]
        ),
        "DescribeLogDirs": lambda: log_dirs.DescribeLogDirsRequest(
            topics=[log_dirs.DescribableLogDirTopic(topic="t", partitions=list(range(MANY)))]
        ),
        "DescribeProducers": lambda: producers.DescribeProducersRequest(
            topics=[producers.TopicRequest(name="t", partition_indexes=list(range(MANY)))]
        ),
        "DescribeTopicPartitions": lambda: paged.DescribeTopicPartitionsRequest(
            topics=[paged.TopicRequest(name=name) for name in names(MANY)], response_partition_limit=2000
        ),
        "AlterConfigs": lambda: altered.AlterConfigsRequest(
            resources=[altered.AlterConfigsResource(resource_type=2, resource_name=name) for name in names(HALF)]
        ),
        "IncrementalAlterConfigs": lambda: incremental.IncrementalAlterConfigsRequest(
            resources=[incremental.AlterConfigsResource(resource_type=2, resource_name=name) for name in names(HALF)]
        ),
        "CreateTopics": lambda: create_topics_request.CreateTopicsRequest(
            topics=[
                create_topics_request.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
                for name in names(MANY // 4)
            ]
        ),
        "DeleteTopics": lambda: delete_topics_request.DeleteTopicsRequest(
            topics=[delete_topics_request.DeleteTopicState(name=name) for name in names(MANY)]
        ),
        "CreatePartitions": lambda: grown.CreatePartitionsRequest(
            topics=[grown.CreatePartitionsTopic(name=name, count=2) for name in names(HALF)]
        ),
        "ElectLeaders": lambda: elect.ElectLeadersRequest(
            topic_partitions=[elect.TopicPartitions(topic="t", partitions=list(range(MANY)))]
        ),
        "AlterPartitionReassignments": lambda: moves.AlterPartitionReassignmentsRequest(
            topics=[
                moves.ReassignableTopic(
                    name="t", partitions=[moves.ReassignablePartition(partition_index=index) for index in range(HALF)]
                )
            ]
        ),
    }
    return made


REQUESTS = large_requests()
TOPIC = (1).to_bytes(16, "big")


async def longest_step(made: Broker, request: Any) -> tuple[str | None, float]:
    """Of serving `request`, as its connection would: task and processor seconds."""
    version = type(request).VALID_VERSIONS[1]
    if type(request).__name__ == "DescribeConfigsRequest":
        version = 4
    handler = made.server.services.registry.get(request.API_KEY)
    assert handler is not None
    version = min(version, handler.max_version)
    frame = memoryview(bytearray(encode_request(request.API_KEY, version, 7, "client", request)[SIZE_BYTES:]))
    small = type(request)()
    for codec in (small, api_keys.response_class(request.API_KEY)()):  # Compiled now: once in the life of a node.
        codec.decode(codec.encode(version), version)
    del request
    gc.collect()
    gc.freeze()
    with loop_steps() as steps:
        outcome = made.server.dispatcher.dispatch(made.peer, frame)
        if not isinstance(outcome, Reply):
            await outcome
        await made.world.clock.sleep(0.001)
    gc.unfreeze()
    return steps.longest_since()


@pytest.mark.parametrize("size", [3 << 20, 5 << 20, 90 << 20])
def test_the_size_of_member_metadata_is_limited(size: int) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made, trio.open_nursery() as nursery:
            made.topic(OFFSETS_TOPIC, 1)
            await nursery.start(made.server.groups.run)
            await made.world.clock.sleep(1)
            protocol = join_group_request.JoinGroupRequestProtocol(name="range", metadata=bytes(size))
            join = join_group_request.JoinGroupRequest(
                group_id="g",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                protocol_type="consumer",
                protocols=[protocol],
            )
            assignment = sync_group_request.SyncGroupRequestAssignment(member_id="m", assignment=bytes(size))
            sync = sync_group_request.SyncGroupRequest(
                group_id="g", protocol_type="consumer", protocol_name="range", assignments=[assignment]
            )
            fits = size < 4 << 20
            for version in (0, 4, 9):
                answer = await made.ask(join, version)
                expected = ErrorCode.MEMBER_ID_REQUIRED if version >= 4 else ErrorCode.NONE
                assert answer.error_code == (expected if fits else ErrorCode.UNKNOWN_SERVER_ERROR)
            for version in (0, 5):
                answer = await made.ask(sync, version)
                assert answer.error_code == (ErrorCode.UNKNOWN_MEMBER_ID if fits else ErrorCode.UNKNOWN_SERVER_ERROR)
            nursery.cancel_scope.cancel()

    simulate(play)


def refuse(request: Any) -> Any:
    raise ApiError(ErrorCode.POLICY_VIOLATION, "the test's controller takes nothing")


@pytest.mark.parametrize("case", REQUESTS, ids=lambda case: case.replace(" ", "-"))
def test_no_large_request_blocks_the_event_loop(case: str) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t", PARTITIONS)
            made.topic(OFFSETS_TOPIC, 4)
            for key in api_keys.known_keys():
                made.controller.answers[key] = refuse
            async with trio.open_nursery() as nursery:
                await nursery.start(made.server.groups.run)
                await made.world.clock.sleep(1)
                task, seconds = await longest_step(made, REQUESTS[case]())
                nursery.cancel_scope.cancel()
            assert seconds < STEP_SECONDS_MAX, f"{case}: {seconds * 1000:.0f} ms in {task}"

    simulate(play)
