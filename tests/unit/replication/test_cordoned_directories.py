"""Cordoned log directories (KIP-1066) of a broker with two: where new replicas go, which moves are refused, and what
clients and the controller are told."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kraft.common.config.resource_type import ResourceType
from kraft.common.ids import Uuid
from kraft.metadata.records.config_record import ConfigRecord
from kraft.metadata.records.feature_level_record import FeatureLevelRecord
from kraft.metadata.records.partition_record import PartitionRecord
from kraft.metadata.records.topic_record import TopicRecord
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kraft.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from kraft.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from kraft.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from kraft.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from kraft.world.simulated import Universe
from tests.unit.replication.logs.log_dir_moves import FIRST, SECOND, mover
from tests.unit.server.brokers import NODE, UNASSIGNED, Broker, broker, simulate

TOPIC = Uuid(b"t" * 16)
LEVEL = 30
BOTH = (FIRST, SECOND)
SET, APPEND, SUBTRACT = 0, 2, 3


def cordon(text: str | None) -> ConfigRecord:
    return ConfigRecord(
        resource_type=ResourceType.BROKER, resource_name=str(NODE), name="cordoned.log.dirs", value=text
    )


def level(level: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(name="metadata.version", feature_level=level)


def _accept(request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    """The controller's answer."""
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(resource_type=each.resource_type, resource_name=each.resource_name)
            for each in request.resources
        ]
    )


def held(made: Broker) -> dict[str, int]:
    """The number of logs in each directory."""
    return {directory.path: len(directory.logs) for directory in made.logs.directories}


async def described(made: Broker, version: int | None = None) -> dict[str, bool]:
    response = await made.ask(DescribeLogDirsRequest(topics=[]), version)
    return {result.log_dir: result.is_cordoned for result in response.results}


def test_new_replicas_avoid_a_cordoned_directory_and_existing_ones_stay() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, BOTH) as made:
            made.topic("before", 4)
            made.publish(cordon(SECOND))
            made.topic("during", 5)
            assert held(made) == {FIRST: 7, SECOND: 2}
            made.publish(cordon(None))
            made.topic("after", 5)
            assert held(made) == {FIRST: 7, SECOND: 7}

    simulate(play)


def test_a_cordon_applies_to_the_topics_of_its_own_image() -> None:
    """The first image of a start has both."""

    async def play(universe: Universe) -> None:
        async with broker(universe, BOTH, knows_itself=False) as made:
            partition = PartitionRecord(
                partition_id=0, topic_id=TOPIC, replicas=[NODE], isr=[NODE], leader=NODE, directories=[UNASSIGNED]
            )
            made.publish(TopicRecord(name="t", topic_id=TOPIC), partition, cordon(FIRST))
            assert held(made) == {FIRST: 0, SECOND: 1}

    simulate(play)


def test_the_only_online_directory_takes_replicas_although_it_is_cordoned() -> None:
    """As in Apache Kafka: it is the controller that assigns no replicas to a broker without another directory."""

    async def play(universe: Universe) -> None:
        async with broker(universe, BOTH, sets=[f"cordoned.log.dirs={SECOND}"]) as made:
            made.topic("t")
            made.replicas.directory_failed(FIRST, "gone")
            made.topic("u", 2)
            assert held(made)[SECOND] == 2

    simulate(play)


def test_a_broker_with_all_directories_cordoned_spreads_its_assigned_replicas() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, BOTH, sets=["cordoned.log.dirs=*"]) as made:
            made.topic("t", 4)
            assert held(made) == {FIRST: 2, SECOND: 2}

    simulate(play)


def test_the_directory_assigned_in_the_metadata_is_used_although_it_is_cordoned() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, BOTH, sets=[f"cordoned.log.dirs={SECOND}"]) as made:
            second = made.logs.directories[1]
            assert made.logs.directory_for_new(second.directory_id) is second
            assert made.logs.directory_for_new(None) is made.logs.directories[0]

    simulate(play)


def test_a_move_to_a_cordoned_directory_is_refused() -> None:
    async def play(universe: Universe) -> None:
        async with mover(universe) as it:
            it.made.topic("t")
            it.made.publish(cordon(SECOND))
            assert await it.move() == ErrorCode.INVALID_REPLICA_ASSIGNMENT
            assert await it.move(topic="unknown") == ErrorCode.INVALID_REPLICA_ASSIGNMENT
            it.made.publish(cordon(""))
            assert await it.move() == ErrorCode.NONE
            await universe.sleep(1.0)
            assert it.at == f"{SECOND}/t-0"

    simulate(play)


def test_a_move_out_of_a_cordoned_directory_is_made() -> None:
    async def play(universe: Universe) -> None:
        async with mover(universe, f"cordoned.log.dirs={FIRST}") as it:
            it.made.topic("t")
            it.made.publish(cordon(SECOND))
            assert await it.move(FIRST) == ErrorCode.NONE
            await universe.sleep(1.0)
            assert it.at == f"{FIRST}/t-0"

    simulate(play)


def test_described_directories_show_whether_they_are_cordoned() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, BOTH, sets=[f"cordoned.log.dirs={SECOND}"]) as made:
            made.publish(level(LEVEL - 1))
            assert await described(made) == {FIRST: False, SECOND: False}
            made.publish(level(LEVEL))
            assert await described(made) == {FIRST: False, SECOND: True}
            assert await described(made, 4) == {FIRST: False, SECOND: False}
            made.publish(cordon("*"))
            assert await described(made) == {FIRST: True, SECOND: True}

    simulate(play)


@pytest.mark.parametrize(
    ("current", "operation", "text", "reason"),
    [
        (None, SET, "/three", "Missing entries : /three"),
        (None, SET, f"*,{FIRST}", "must not contain other values"),
        (FIRST, APPEND, "*", "must not contain other values"),
        ("/gone", APPEND, FIRST, "Missing entries : /gone"),
        ("/gone", SUBTRACT, "/gone", None),
        (FIRST, APPEND, SECOND, None),
        (None, SET, "*", None),
    ],
)
def test_only_directories_of_the_broker_are_cordoned(
    current: str | None, operation: int, text: str, reason: str | None
) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, BOTH) as made:
            made.publish(cordon(current))
            made.controller.answers[IncrementalAlterConfigsRequest.API_KEY] = _accept
            wanted = AlterableConfig(name="cordoned.log.dirs", config_operation=operation, value=text)
            resource = AlterConfigsResource(
                resource_type=ResourceType.BROKER, resource_name=str(NODE), configs=[wanted]
            )
            result = (await made.ask(IncrementalAlterConfigsRequest(resources=[resource]))).responses[0]
            if reason is None:
                assert result.error_code == ErrorCode.NONE
            else:
                assert result.error_code == ErrorCode.INVALID_REQUEST
                assert reason in result.error_message

    simulate(play)


def test_the_controller_is_told_of_cordoned_directories_before_the_broker_is_unfenced() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, BOTH, sets=[f"cordoned.log.dirs={SECOND}"], knows_itself=False) as made:
            first, second = (bytes(directory.directory_id or b"") for directory in made.logs.directories)
            registered = made.offset + 2

            def beat(request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
                behind = request.current_metadata_offset < registered
                return BrokerHeartbeatResponse(is_caught_up=not behind, is_fenced=behind)

            made.controller.answers[BrokerRegistrationRequest.API_KEY] = lambda _: BrokerRegistrationResponse(
                broker_epoch=1
            )
            made.controller.answers[BrokerHeartbeatRequest.API_KEY] = beat

            def told() -> list[Any]:
                return [each for each in made.controller.asked if isinstance(each, BrokerHeartbeatRequest)]

            async with trio.open_nursery() as nursery:
                nursery.start_soon(made.server.lifecycle.run, [], [first, second], -1)
                made.publish(level(LEVEL))
                await universe.sleep(1.0)
                assert {each.cordoned_log_dirs for each in told()} == {None}, "its configuration may be outdated"
                made.publish(made.register())
                await made.server.lifecycle.unfenced.wait()
                unfencing = next(each for each in told() if each.current_metadata_offset >= registered)
                assert unfencing.cordoned_log_dirs == [second]
                count = len(told())
                made.publish(cordon("*"))
                await universe.sleep(0.01)
                assert [each.cordoned_log_dirs for each in told()[count:]] == [[first, second]]
                made.publish(cordon(""))
                await universe.sleep(0.01)
                assert told()[-1].cordoned_log_dirs == []
                nursery.cancel_scope.cancel()

    simulate(play)


def test_a_cordon_of_an_unknown_directory_is_logged_and_has_no_effect() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, BOTH) as made:
            made.publish(cordon("/gone"))
            made.topic("t", 2)
            assert held(made) == {FIRST: 1, SECOND: 1}
            assert any("/gone" in str(event) for event in made.events)

    simulate(play)
