"""The configuration of consumer groups is that of the moment."""

from __future__ import annotations

from typing import Any

from kraft.common.config.resource_type import ResourceType
from kraft.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.world.simulated import Universe
from tests.unit.server.brokers import simulate
from tests.unit.server.nodes import Running, configuration, create, running


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
