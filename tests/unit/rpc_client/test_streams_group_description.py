"""Streams groups as `kraft.admin` describes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraft.admin.groups import describe_group, describe_groups
from kraft.admin.streams_groups import StreamsTask, describe_streams_group
from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kraft.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse
from kraft.protocol.messages.consumer_group_describe_response import DescribedGroup as DescribedConsumerGroup
from kraft.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kraft.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from kraft.protocol.messages.list_groups_request import ListGroupsRequest
from kraft.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse
from kraft.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kraft.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from kraft.protocol.messages.streams_group_describe_response import (
    Assignment,
    Endpoint,
    KeyValue,
    Member,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from kraft.protocol.messages.streams_group_describe_response import DescribedGroup as DescribedStreamsGroup
from kraft.world.simulated import Universe
from tests.unit.rpc_client.scripted_cluster import ScriptedCluster

GROUP = "words"


class Coordinator(ScriptedCluster):
    async def coordinator(self, group_id: str) -> int:
        return 1

    async def versions(self, node_id: int) -> dict[int, tuple[int, int]]:
        return {ConsumerGroupDescribeRequest.API_KEY: (0, 1), StreamsGroupDescribeRequest.API_KEY: (0, 1)}


def words(*sources: str) -> DescribedStreamsGroup:
    """A group with two members. The first subtopology reads `sources`, the second one a repartition topic."""
    changelog = TopicInfo(name="words-counts-changelog", partitions=2, topic_configs=[KeyValue(key="a", value="b")])
    topology = Topology(
        epoch=3,
        subtopologies=[
            Subtopology(subtopology_id="0", source_topics=list(sources), repartition_sink_topics=["words-repartition"]),
            Subtopology(
                subtopology_id="1",
                repartition_source_topics=[TopicInfo(name="words-repartition", partitions=2)],
                state_changelog_topics=[changelog],
            ),
        ],
    )
    first = Member(
        member_id="m1",
        member_epoch=7,
        process_id="p1",
        client_id="c1",
        client_host="/h1",
        topology_epoch=3,
        user_endpoint=Endpoint(host="h1", port=80),
        client_tags=[KeyValue(key="zone", value="a")],
        assignment=Assignment(
            active_tasks=[TaskIds(subtopology_id="0", partitions=[0, 1]), TaskIds(subtopology_id="1", partitions=[0])],
            standby_tasks=[TaskIds(subtopology_id="1", partitions=[1])],
        ),
        target_assignment=Assignment(active_tasks=[TaskIds(subtopology_id="0", partitions=[0])]),
    )
    second = Member(member_id="m0", assignment=Assignment(active_tasks=[TaskIds(subtopology_id="1", partitions=[1])]))
    return DescribedStreamsGroup(
        group_id=GROUP,
        group_state="Stable",
        group_epoch=8,
        assignment_epoch=7,
        topology=topology,
        members=[first, second],
        assignor_name="sticky",
    )


def answering(described: DescribedStreamsGroup, listed_type: str = "streams") -> Callable[[Any, int | None], Any]:
    async def answer(request: Any, node_id: int | None) -> Any:
        if isinstance(request, DescribeGroupsRequest):
            unknown = [
                DescribedGroup(group_id=each, error_code=ErrorCode.GROUP_ID_NOT_FOUND) for each in request.groups
            ]
            return DescribeGroupsResponse(groups=unknown)
        if isinstance(request, ConsumerGroupDescribeRequest):
            others = [
                DescribedConsumerGroup(group_id=each, error_code=ErrorCode.GROUP_ID_NOT_FOUND)
                for each in request.group_ids
            ]
            return ConsumerGroupDescribeResponse(groups=others)
        if isinstance(request, StreamsGroupDescribeRequest):
            return StreamsGroupDescribeResponse(groups=[described])
        if isinstance(request, ListGroupsRequest):
            return ListGroupsResponse(groups=[ListedGroup(group_id=GROUP, group_type=listed_type)])
        counts = {"lines": 2, "more": 1}
        topics = [
            MetadataResponseTopic(
                name=each.name,
                partitions=[MetadataResponsePartition(partition_index=index) for index in range(counts[each.name])],
            )
            for each in request.topics
        ]
        return MetadataResponse(topics=topics)

    return answer


def test_a_streams_group_is_described_with_its_topology_and_tasks() -> None:
    async def main(universe: Universe) -> None:
        group = await describe_streams_group(Coordinator(universe, {}, answering(words("lines"))), GROUP)
        assert (group.state, group.assignor, group.epoch, group.assignment_epoch) == ("Stable", "sticky", 8, 7)
        assert group.topology_epoch == 3
        assert [each.member_id for each in group.members] == ["m0", "m1"]
        member = group.members[1]
        assert (member.process_id, member.endpoint, member.tags) == ("p1", "h1:80", {"zone": "a"})
        assert [str(task) for task in member.tasks.active] == ["0_0", "0_1", "1_0"]
        assert member.tasks.standby == (StreamsTask("1", 1),)
        assert member.target.active == (StreamsTask("0", 0),)
        assert [topic.name for topic in group.internal_topics] == ["words-counts-changelog", "words-repartition"]
        assert group.internal_topics[0].configs == {"a": "b"}

    Universe(1).run(main)


def test_members_of_a_streams_group_own_the_partitions_that_their_active_tasks_read() -> None:
    async def main(universe: Universe) -> None:
        cluster = Coordinator(universe, {}, answering(words("lines")))
        group = await describe_group(cluster, GROUP)
        assert (group.type, group.protocol_type, group.epoch, group.assignor) == ("streams", "streams", 8, "sticky")
        repartitioned = TopicPartition("words-repartition", 0)
        member = group.members[1]
        assert member.assignment == (TopicPartition("lines", 0), TopicPartition("lines", 1), repartitioned)
        assert member.target == (TopicPartition("lines", 0),)
        assert (member.epoch, member.is_classic) == (7, False)
        assert await describe_groups(cluster, [GROUP], 1) == [group]

    Universe(1).run(main)


def test_a_task_has_no_partition_of_a_topic_with_fewer_partitions() -> None:
    async def main(universe: Universe) -> None:
        group = await describe_group(
            Coordinator(universe, {"lines": [1, 1], "more": [1]}, answering(words("lines", "more"))), GROUP
        )
        lines = (TopicPartition("lines", 0), TopicPartition("lines", 1))
        assert group.members[1].assignment[:3] == (*lines, TopicPartition("more", 0))
        assert TopicPartition("more", 1) not in group.members[1].assignment

    Universe(1).run(main)


@pytest.mark.parametrize("code", [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION])
def test_a_streams_group_that_is_not_described_is_refused_with_the_reason(code: int) -> None:
    async def main(universe: Universe) -> None:
        refused = DescribedStreamsGroup(group_id=GROUP, error_code=code)
        for describe in (describe_group, describe_streams_group):
            with pytest.raises(ApiError) as refusal:
                await describe(Coordinator(universe, {}, answering(refused)), GROUP)
            assert refusal.value.code == code
            assert ("streams.version is 0" in str(refusal.value)) == (code == ErrorCode.UNSUPPORTED_VERSION)

    Universe(1).run(main)
