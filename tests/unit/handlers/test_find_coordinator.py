"""FindCoordinator: the topic is made once a request, and whoever leads the group's partition is named."""

from __future__ import annotations

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_topics_request import CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.world.simulated import Universe
from tests.unit.server.brokers import NODE, Broker, broker, simulate


def test_the_first_group_creates_the_offsets_topic() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:

            def create(request: CreateTopicsRequest) -> CreateTopicsResponse:
                (topic,) = request.topics
                assert {config.name: config.value for config in topic.configs}["cleanup.policy"] == "compact"
                made.topic(topic.name, topic.num_partitions)
                return CreateTopicsResponse(topics=[CreatableTopicResult(name=topic.name)])

            made.controller.answers[CreateTopicsRequest.API_KEY] = create
            response = await made.ask(FindCoordinatorRequest(key="g"), 3)
            assert (response.error_code, response.node_id, response.host, response.port) == (0, NODE, "127.0.0.1", 9092)
            response = await made.ask(FindCoordinatorRequest(coordinator_keys=["g", "h"]), 6)
            assert [found.error_code for found in response.coordinators] == [0, 0]
            assert len(made.controller.asked) == 1

    simulate(play)


def test_a_failing_creation_of_the_offsets_topic_is_requested_once_for_all_keys() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.controller.answers[CreateTopicsRequest.API_KEY] = _no_controller
            response = await made.ask(
                FindCoordinatorRequest(coordinator_keys=[f"g{number}" for number in range(10)]), 6
            )
            assert {found.error_code for found in response.coordinators} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
            assert len(made.controller.asked) == 1

    simulate(play)


def _no_controller(request: CreateTopicsRequest) -> CreateTopicsResponse:
    raise ApiError(ErrorCode.REQUEST_TIMED_OUT)


def test_find_coordinator_refuses_unsupported_key_types() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            for kind in (2, 9):
                request = FindCoordinatorRequest(coordinator_keys=["x"], key_type=kind)
                assert (await made.ask(request, 6)).coordinators[0].error_code == ErrorCode.INVALID_REQUEST
            assert not made.controller.asked
            made.topic("__transaction_state", 3)
            request = FindCoordinatorRequest(coordinator_keys=["x"], key_type=1)
            assert (await made.ask(request, 6)).coordinators[0].node_id == NODE

    simulate(play)


def test_a_partition_without_a_live_leader_has_no_available_coordinator() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            topic = made.topic("__consumer_offsets", replicas=(NODE, 2))
            made.change(topic, leader=2)
            assert await _code(made) == ErrorCode.COORDINATOR_NOT_AVAILABLE
            made.publish(made.register(2))
            assert await _code(made) == 0

    simulate(play)


async def _code(made: Broker) -> int:
    code: int = (await made.ask(FindCoordinatorRequest(key="g"), 3)).error_code
    return code


def test_a_failed_internal_topic_creation_is_logged_once_and_shown_in_the_status_until_it_succeeds() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:

            def refuse(request: CreateTopicsRequest) -> CreateTopicsResponse:
                (topic,) = request.topics
                code = ErrorCode.INVALID_REPLICATION_FACTOR
                return CreateTopicsResponse(
                    topics=[CreatableTopicResult(name=topic.name, error_code=code, error_message="2 of 3 brokers")]
                )

            made.controller.answers[CreateTopicsRequest.API_KEY] = refuse
            for _ in range(3):
                response = await made.ask(FindCoordinatorRequest(key="orders", key_type=1), 3)
                assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            told = [line for line in made.events if line["event"] == "an internal topic cannot be made"]
            assert [(line["topic"], line["reason"]) for line in told] == [("__transaction_state", "2 of 3 brokers")]
            unmade = made.server.services.unmade_topics
            assert [each.topic for each in unmade.items(lambda name: False)] == ["__transaction_state"]
            assert unmade.items(lambda name: True) == []

    simulate(play)
