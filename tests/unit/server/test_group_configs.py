"""The configuration of consumer groups and share groups is that of the moment."""

from __future__ import annotations

from typing import Any

from kraft.common.config.resource_type import ResourceType
from kraft.coordinator.group.streams.configured_topology import Status
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kraft.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.protocol.messages.list_groups_request import ListGroupsRequest
from kraft.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from kraft.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from kraft.world.simulated import Universe
from tests.unit.coordinator.group.streams.applications import reads, topology
from tests.unit.server.brokers import simulate
from tests.unit.server.nodes import Running, configuration, create, running
from tests.unit.server.share.members import Member, configure, turn_on


async def alter(run: Running, name: str, value: str) -> None:
    configs = [AlterableConfig(name=name, config_operation=0, value=value)]
    resources = [AlterConfigsResource(resource_type=ResourceType.BROKER, resource_name="", configs=configs)]
    response = await run.client.call(IncrementalAlterConfigsRequest(resources=resources))
    assert response.responses[0].error_code == 0, response


async def beat(run: Running, member: str, epoch: int) -> Any:
    """A heartbeat, which tells with epoch 0 what the member wants."""
    joins: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id=member, member_epoch=epoch, **(joins if epoch == 0 else {})
    )
    response = await run.client.call(request)
    assert response.error_code == 0, response
    return response


def test_the_next_assignment_is_computed_after_the_interval() -> None:
    async def play(universe: Universe) -> None:
        async with running(universe, configuration()) as run:
            await create(run.client, "t", 2)
            await run.client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
            await universe.sleep(5)
            await alter(run, "group.consumer.assignment.interval.ms", "15000")
            first = (await beat(run, "m", 0)).member_epoch
            await beat(run, "n", 0)
            await universe.sleep(5)
            assert (await beat(run, "m", first)).member_epoch == first
            await alter(run, "group.consumer.assignment.interval.ms", "5000")
            assert (await beat(run, "m", first)).assignment.topic_partitions[0].partitions == [0]

    simulate(play)


def test_the_next_assignment_of_a_share_group_is_computed_after_its_interval() -> None:
    async def play(universe: Universe) -> None:
        async with running(universe, configuration("share.coordinator.state.topic.num.partitions=1")) as run:
            await turn_on(run.client)
            await create(run.client, "t", 2)
            await alter(run, "group.share.assignment.interval.ms", "15000")
            member = Member(run.client, "m")
            await member.beat()
            await universe.sleep(5)
            assert ((await member.beat()).error_code, member.partitions) == (0, [])
            await alter(run, "group.share.assignment.interval.ms", "5000")
            await member.beat()
            assert member.partitions == [0, 1]

    simulate(play)


async def run_thread(run: Running, member: str, epoch: int, **changes: Any) -> Any:
    """A heartbeat of a thread of a streams application that owns nothing. It has a store."""
    shape = topology(reads("t", stores=["store"])) if epoch == 0 else None
    fields: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "topology": shape, "process_id": member}
    nothing: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    request = StreamsGroupHeartbeatRequest(
        group_id="g", member_id=member, member_epoch=epoch, **(nothing | (fields if epoch == 0 else {}) | changes)
    )
    response = await run.client.call(request)
    assert response.error_code == 0, response
    return response


def test_the_next_assignment_of_a_streams_group_is_computed_after_its_interval() -> None:
    """From the first heartbeat on: the broker creates the changelog, and members get tasks once it exists."""

    async def play(universe: Universe) -> None:
        async with running(universe, configuration()) as run:
            await create(run.client, "t", 2)
            await run.client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
            await universe.sleep(5)
            await configure(run.client, "g", {"streams.initial.rebalance.delay.ms": "0"})
            await alter(run, "group.streams.assignment.interval.ms", "15000")
            first = await run_thread(run, "m", 0)
            assert [status.status_code for status in first.status] == [Status.MISSING_INTERNAL_TOPICS]
            await universe.sleep(5)
            second = await run_thread(run, "m", first.member_epoch)
            assert [status.status_code for status in second.status] == [Status.ASSIGNMENT_DELAYED]
            await alter(run, "group.streams.assignment.interval.ms", "5000")
            third = await run_thread(run, "m", first.member_epoch)
            assert [(each.subtopology_id, each.partitions) for each in third.active_tasks] == [("0", [0, 1])]
            described = await run.client.call(StreamsGroupDescribeRequest(group_ids=["g"]))
            (group,) = described.groups
            assert (group.group_state, group.assignor_name) == ("Stable", "sticky")
            assert group.topology.subtopologies[0].state_changelog_topics[0].partitions == 2
            listed = await run.client.call(ListGroupsRequest(types_filter=["Streams"], states_filter=["stable"]))
            assert [(each.group_id, each.group_type, each.protocol_type) for each in listed.groups] == [
                ("g", "streams", "streams")
            ]
            await run_thread(run, "m", -1, active_tasks=None, standby_tasks=None, warmup_tasks=None)
            deleted = await run.client.call(DeleteGroupsRequest(groups_names=["g"]))
            assert [each.error_code for each in deleted.results] == [0]

    simulate(play)


def test_a_share_group_has_its_own_heartbeat_interval_and_session_timeout() -> None:
    async def play(universe: Universe) -> None:
        settings = ("group.share.session.timeout.ms=45000", "share.coordinator.state.topic.num.partitions=1")
        async with running(universe, configuration(*settings)) as run:
            await turn_on(run.client)
            await create(run.client, "t", 1)
            own = {"share.heartbeat.interval.ms": "9000", "share.session.timeout.ms": "60000"}
            await configure(run.client, "g", own)
            for group_id, interval_ms in (("g", 9_000), ("h", 5_000)):
                member = Member(run.client, "m", group_id)
                await member.join(universe)
                assert (await member.beat()).heartbeat_interval_ms == interval_ms
            await universe.sleep(50)
            still = Member(run.client, "m", "g")
            still.epoch = 1
            code = (await still.beat()).error_code
            assert code != ErrorCode.UNKNOWN_MEMBER_ID
            gone = Member(run.client, "m", "h")
            gone.epoch = 1
            assert (await gone.beat()).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    simulate(play)
