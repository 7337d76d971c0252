"""The APIs of streams groups at a broker: rights, names of topics, internal topics, and topology descriptions."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.common.features import STREAMS_VERSION
from kraft.coordinator.group.streams.configured_topology import Status
from kraft.coordinator.group.streams.heartbeat import HeartbeatResult
from kraft.coordinator.group.streams.topology import InternalTopic
from kraft.metadata.records.feature_level_record import FeatureLevelRecord
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kraft.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from kraft.protocol.messages.streams_group_describe_response import DescribedGroup, StreamsGroupDescribeResponse
from kraft.protocol.messages.streams_group_describe_response import Subtopology as DescribedSubtopology
from kraft.protocol.messages.streams_group_describe_response import Topology as DescribedTopology
from kraft.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from kraft.protocol.messages.streams_group_heartbeat_response import Status as StatusMessage
from kraft.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from kraft.protocol.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from kraft.security.acls import Operation
from kraft.world.simulated import Universe
from tests.unit.coordinator.group.streams.applications import reads, topology
from tests.unit.handlers.test_share_group_states import AUTHORIZER
from tests.unit.handlers.test_share_rights import GROUP, TOPIC, allow
from tests.unit.server.brokers import Broker, broker, simulate


def turn_on(made: Broker, level: int = 1) -> None:
    made.publish(FeatureLevelRecord(name=STREAMS_VERSION, feature_level=level))


def joining(*topics: str, stores: tuple[str, ...] = ()) -> StreamsGroupHeartbeatRequest:
    return StreamsGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        rebalance_timeout_ms=1,
        topology=topology(reads(*topics, stores=stores)),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="p",
    )


DESCRIPTION = StreamsGroupTopologyDescriptionUpdateRequest(group_id="g", member_id="m")


def lacking(made: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the coordinator answer that the topic "store" is missing."""

    async def heartbeat(request: Any, caller: Any) -> HeartbeatResult:
        status = StatusMessage(status_code=Status.MISSING_INTERNAL_TOPICS, status_detail="missing")
        response = StreamsGroupHeartbeatResponse(heartbeat_interval_ms=5_000, status=[status])
        return HeartbeatResult(response, {"store": InternalTopic("store", 3, 0, (("cleanup.policy", "compact"),))})

    monkeypatch.setattr(made.server.groups.streams, "heartbeat", heartbeat)


def detail(response: Any) -> str:
    (status,) = response.status
    return str(status.status_detail)


def test_streams_groups_are_refused_while_their_feature_is_off() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            turn_on(made, 0)
            assert (await made.ask(joining("t"))).error_code == ErrorCode.UNSUPPORTED_VERSION
            described = await made.ask(StreamsGroupDescribeRequest(group_ids=["g"]))
            assert [group.error_code for group in described.groups] == [ErrorCode.UNSUPPORTED_VERSION]
            assert (await made.ask(DESCRIPTION)).error_code == ErrorCode.UNSUPPORTED_VERSION

    simulate(play)


def test_callers_without_rights_are_told_that_streams_groups_are_off() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=(AUTHORIZER,)) as made:
            turn_on(made, 0)
            assert (await made.ask(joining("t"))).error_code == ErrorCode.UNSUPPORTED_VERSION
            described = await made.ask(StreamsGroupDescribeRequest(group_ids=["g"]))
            assert [group.error_code for group in described.groups] == [ErrorCode.UNSUPPORTED_VERSION]
            assert (await made.ask(DESCRIPTION)).error_code == ErrorCode.UNSUPPORTED_VERSION

    simulate(play)


def test_a_topology_description_needs_read_on_the_group_and_is_then_refused() -> None:
    """As by a broker of Apache Kafka without a plugin for descriptions."""

    async def play(universe: Universe) -> None:
        async with broker(universe, sets=(AUTHORIZER,)) as made:
            turn_on(made)
            allow(made)
            assert (await made.ask(DESCRIPTION)).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
            allow(made, (GROUP, Operation.READ))
            refused = await made.ask(DESCRIPTION)
            assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
            assert refused.error_message == "The broker has no streams group topology description plugin configured."

    simulate(play)


def test_a_requested_topology_description_is_marked_as_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            turn_on(made)

            async def describe(request: Any) -> StreamsGroupDescribeResponse:
                groups = [DescribedGroup(group_id="g"), DescribedGroup(group_id="h", error_code=69)]
                return StreamsGroupDescribeResponse(groups=groups)

            monkeypatch.setattr(made.server.groups.streams, "describe", describe)
            for wanted, statuses in ((True, [1, 0]), (False, [0, 0])):
                request = StreamsGroupDescribeRequest(group_ids=["g", "h"], include_topology_description=wanted)
                groups = (await made.ask(request)).groups
                assert [group.topology_description_status for group in groups] == statuses
                assert [group.topology_description for group in groups] == [None, None]

    simulate(play)


def test_streams_groups_are_refused_where_their_protocol_is_not_configured() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=("group.coordinator.rebalance.protocols=classic,consumer",)) as made:
            turn_on(made)
            assert (await made.ask(joining("t"))).error_code == ErrorCode.UNSUPPORTED_VERSION

    simulate(play)


def test_a_heartbeat_needs_read_on_the_group_and_describe_on_every_topic() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=(AUTHORIZER,)) as made:
            turn_on(made)
            allow(made, (TOPIC, Operation.DESCRIBE))
            assert (await made.ask(joining("t"))).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
            allow(made, (GROUP, Operation.READ))
            assert (await made.ask(joining("t"))).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            allow(made, (GROUP, Operation.READ), (TOPIC, Operation.DESCRIBE))
            code = (await made.ask(joining("t"))).error_code
            assert code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    simulate(play)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("__consumer_offsets", "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology"),
        ("a b", "Topic names a b are not valid topic names."),
    ],
)
def test_a_topology_with_a_forbidden_topic_name_is_refused(name: str, message: str) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            turn_on(made)
            response = await made.ask(joining("t", stores=(name,)))
            assert response.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
            assert message in response.error_message

    simulate(play)


def test_missing_internal_topics_are_created_with_the_rights_of_the_member(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=(AUTHORIZER,)) as made:
            turn_on(made)
            lacking(made, monkeypatch)
            asked: list[Any] = []

            async def forward(request: Any, context: Any) -> Any:
                asked.append(request)
                return CreateTopicsResponse(topics=[CreatableTopicResult(name="store")])

            monkeypatch.setattr(made.server.services.controller, "forward", forward)
            rights = [(GROUP, Operation.READ), (TOPIC, Operation.DESCRIBE)]
            allow(made, *rights)
            assert detail(await made.ask(joining("t"))) == "missing; Unauthorized to CREATE on topics store."
            assert asked == []
            allow(made, *rights, (TOPIC, Operation.CREATE))
            assert detail(await made.ask(joining("t"))) == "missing"
            (wanted,) = asked[0].topics
            assert (wanted.name, wanted.num_partitions, wanted.replication_factor) == ("store", 3, -1)
            assert [(each.name, each.value) for each in wanted.configs] == [("cleanup.policy", "compact")]

    simulate(play)


def test_a_failed_creation_is_reported_and_not_retried_immediately(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            turn_on(made)
            lacking(made, monkeypatch)
            asked: list[Any] = []

            async def forward(request: Any, context: Any) -> Any:
                asked.append(request)
                result = CreatableTopicResult(name="store", error_code=ErrorCode.POLICY_VIOLATION, error_message="no")
                return CreateTopicsResponse(topics=[result])

            monkeypatch.setattr(made.server.services.controller, "forward", forward)
            for _ in range(2):
                assert detail(await made.ask(joining("t"))) == "missing; Creation failed: store (no)."
            assert len(asked) == 1

    simulate(play)


def test_a_group_is_not_described_to_a_caller_that_may_not_describe_its_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=(AUTHORIZER,)) as made:
            turn_on(made)

            async def describe(request: Any) -> StreamsGroupDescribeResponse:
                shape = DescribedTopology(subtopologies=[DescribedSubtopology(source_topics=["t"])])
                return StreamsGroupDescribeResponse(groups=[DescribedGroup(group_id="g", topology=shape)])

            monkeypatch.setattr(made.server.groups.streams, "describe", describe)
            request = StreamsGroupDescribeRequest(group_ids=["g"])
            for rights, code in (
                ((), ErrorCode.GROUP_AUTHORIZATION_FAILED),
                (((GROUP, Operation.DESCRIBE),), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
                (((GROUP, Operation.DESCRIBE), (TOPIC, Operation.DESCRIBE)), ErrorCode.NONE),
            ):
                allow(made, *rights)
                assert [each.error_code for each in (await made.ask(request)).groups] == [code]

    simulate(play)
