"""The ways to controllers: one connection whatever many ask at once, tried again until the deadline, at whoever
leads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from kraft.common.errors import ApiError, NotLeader
from kraft.common.logging import Loggers
from kraft.handlers import api_versions
from kraft.handlers.dispatcher import RequestDispatcher
from kraft.handlers.registry import CONTROLLER, Handler, Registry, RequestContext, between
from kraft.handlers.security import envelope
from kraft.handlers.security.permissions import ANYBODY
from kraft.network.limits import ConnectionCounts, ConnectionLimits
from kraft.network.reply import Peer
from kraft.network.socket_server import SocketServer
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from kraft.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kraft.server.node_to_controller_channel import NodeToControllerChannel
from kraft.server.raft_channel import QuorumChannel
from kraft.world.simulated import SimulatedWorld, Universe
from tests.unit.server.brokers import simulate

PORT = 9093
Answer = Callable[[Any, RequestContext], Awaitable[Any]]


class Controller:
    """A controller's listener with two APIs, answered as the test says. Also stands for the controller in the same
    process."""

    def __init__(self, world: SimulatedWorld, answer: Answer) -> None:
        self.world = world
        self.seen: list[tuple[Any, RequestContext]] = []
        handlers = [api_versions.API, envelope.API]
        for key in (ApiKey.ALLOCATE_PRODUCER_IDS, ApiKey.CREATE_TOPICS):
            versions = between(0, 0) if key == ApiKey.ALLOCATE_PRODUCER_IDS else between(2, 7)
            handler = Handler(key, versions, permission=ANYBODY, listeners=(CONTROLLER,))

            @handler.serve
            async def serve(request: Any, context: RequestContext, node: Any) -> Any:
                self.seen.append((request, context))
                return await answer(request, context)

            handlers.append(handler)
        self.registry = Registry(CONTROLLER, handlers)
        self.metadata = self
        self.offset = 0
        self.log = Loggers(world.log_sink, world.clock).get("requests")
        self.server: SocketServer

    def finalized_features(self) -> dict[str, int]:
        return {}

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        dispatcher = RequestDispatcher(self.registry, self, self.world.clock, self.log)
        self.server = SocketServer(self.world, CONTROLLER, ConnectionLimits(), ConnectionCounts(), dispatcher, self.log)
        await self.server.run(await self.world.network.listen("0.0.0.0", PORT), task_status=task_status)


class Scene:
    def __init__(self, universe: Universe) -> None:
        self.universe = universe
        self.world = universe.world_for("broker")
        self.leader: tuple[int, str, int] | None = None
        log = Loggers(self.world.log_sink, self.world.clock).get("channel")
        self.channel = NodeToControllerChannel(self.world, 1, lambda: self.leader, log, 5.0)


@asynccontextmanager
async def controller(scene: Scene, answer: Answer, node_id: int = 2) -> AsyncIterator[Controller]:
    """A controller on a node of its own, the active one."""
    made = Controller(scene.universe.world_for(node_id), answer)
    async with trio.open_nursery() as nursery:
        await nursery.start(made.run)
        scene.leader = (node_id, f"node-{node_id}", PORT)
        yield made
        scene.channel.close()
        nursery.cancel_scope.cancel()


def play(scene: Callable[[Scene], Awaitable[None]]) -> None:
    async def main(universe: Universe) -> None:
        await scene(Scene(universe))

    simulate(main)


async def block(request: Any, context: RequestContext) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(producer_id_start=1000, producer_id_len=1000)


def test_concurrent_requests_share_one_connection() -> None:
    async def scene(made: Scene) -> None:
        async with controller(made, block) as there:
            async with trio.open_nursery() as nursery:
                for _ in range(10):
                    nursery.start_soon(made.channel.send, AllocateProducerIdsRequest())
            assert len(there.seen) == 10
            assert len(there.server.connections) == 1

    play(scene)


def test_a_cached_connection_to_a_restarted_controller_is_replaced() -> None:
    async def scene(made: Scene) -> None:
        channel = QuorumChannel(made.world, 1)
        for _ in range(2):
            async with controller(made, block) as there:
                await channel.send(2, "node-2", PORT, AllocateProducerIdsRequest(), 5.0)
                assert len(there.seen) == 1
        with pytest.raises(ConnectionRefusedError):
            await channel.send(2, "node-2", PORT, AllocateProducerIdsRequest(), 5.0)
        channel.close()

    play(scene)


def test_a_cached_quorum_connection_to_a_restarted_controller_is_replaced() -> None:
    async def scene(made: Scene) -> None:
        async with controller(made, block) as there:
            channel = QuorumChannel(made.world, 1)
            async with trio.open_nursery() as nursery:
                for _ in range(10):
                    nursery.start_soon(channel.send, 2, "node-2", PORT, AllocateProducerIdsRequest(), 5.0)
            await made.universe.sleep(1)
            assert len(there.server.connections) == 1
            channel.close()
            with pytest.raises(ConnectionRefusedError):
                await channel.send(2, "node-2", PORT + 1, AllocateProducerIdsRequest(), 5.0)

    play(scene)


def test_a_half_open_connection_is_not_reused() -> None:
    async def scene(made: Scene) -> None:
        async with controller(made, block):
            await made.channel.send(AllocateProducerIdsRequest())
            made.universe.forget_connections("broker")
            with pytest.raises(ApiError):
                await made.channel.send(AllocateProducerIdsRequest(), timeout=2.0)
            assert (await made.channel.send(AllocateProducerIdsRequest(), timeout=2.0)).producer_id_start == 1000

    play(scene)


def test_the_quorum_channel_does_not_reuse_a_connection_after_its_caller_cancelled() -> None:
    async def scene(made: Scene) -> None:
        async with controller(made, block):
            channel = QuorumChannel(made.world, 1)
            await channel.send(2, "node-2", PORT, AllocateProducerIdsRequest(), 2.0)
            made.universe.forget_connections("broker")
            with made.world.clock.move_on_after(2.0) as scope:
                await channel.send(2, "node-2", PORT, AllocateProducerIdsRequest(), 2.0)
            assert scope.cancelled_caught
            assert (await channel.send(2, "node-2", PORT, AllocateProducerIdsRequest(), 2.0)).producer_id_start == 1000
            channel.close()

    play(scene)


def test_a_request_goes_to_the_active_controller_once_there_is_one() -> None:
    async def scene(made: Scene) -> None:
        async def not_me(request: Any, context: RequestContext) -> AllocateProducerIdsResponse:
            return AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER)

        answers: list[Any] = []

        async def ask() -> None:
            answers.append(await made.channel.send(AllocateProducerIdsRequest()))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await made.universe.sleep(0.2)
            async with controller(made, not_me, 2) as old:
                await made.universe.sleep(0.5)
                assert old.seen
                assert not answers
                async with controller(made, block, 3):
                    await made.universe.sleep(0.5)
                    assert answers[0].producer_id_start == 1000

    play(scene)


async def gives_up_at_the_deadline(made: Scene) -> None:
    began = made.universe.time.now
    with pytest.raises(ApiError) as caught:
        await made.channel.send(AllocateProducerIdsRequest(), timeout=2.0)
    assert caught.value.code == ErrorCode.REQUEST_TIMED_OUT
    assert made.universe.time.now - began < 2.1


def test_without_a_controller_the_request_fails_at_its_deadline() -> None:
    play(gives_up_at_the_deadline)


@pytest.mark.parametrize("local", [False, True])
def test_a_request_to_an_unresponsive_controller_fails_at_its_deadline(local: bool) -> None:
    async def scene(made: Scene) -> None:
        async def never(request: Any, context: RequestContext) -> None:
            await trio.sleep_forever()

        async with controller(made, never, 1 if local else 2) as there:
            if local:
                made.channel.use_local(there.registry, there)  # type: ignore[arg-type]
            await gives_up_at_the_deadline(made)

    play(scene)


def test_a_hanging_controller_is_abandoned_for_the_next_active_one() -> None:
    async def scene(made: Scene) -> None:
        answers: list[Any] = []

        async def ask() -> None:
            answers.append(await made.channel.send(AllocateProducerIdsRequest()))

        async with controller(made, block, 2), controller(made, block, 3) as new, trio.open_nursery() as nursery:
            made.leader = (2, "node-2", PORT)
            made.universe.pause(2)
            nursery.start_soon(ask)
            await made.universe.sleep(1)
            assert not answers
            made.leader = (3, "node-3", PORT)
            await made.universe.sleep(0.5)
            assert len(answers) == len(new.seen) == 1

    play(scene)


def test_requests_to_the_controller_of_this_process_use_no_network() -> None:
    async def scene(made: Scene) -> None:
        async def once_not_ready(request: Any, context: RequestContext) -> Any:
            if len(here.seen) == 1:
                raise NotLeader("not yet")
            return await block(request, context)

        here = Controller(made.world, once_not_ready)
        made.channel.use_local(here.registry, here)  # type: ignore[arg-type]
        made.leader = (1, "nowhere", 1)
        assert (await made.channel.send(AllocateProducerIdsRequest())).producer_id_len == 1000
        assert len(here.seen) == 2

    play(scene)


def test_an_error_response_is_returned_without_a_retry() -> None:
    async def scene(made: Scene) -> None:
        async def refuse(request: Any, context: RequestContext) -> Any:
            raise ApiError(ErrorCode.STALE_BROKER_EPOCH, "no")

        here = Controller(made.world, refuse)
        made.channel.use_local(here.registry, here)  # type: ignore[arg-type]
        made.leader = (1, "nowhere", 1)
        assert (await made.channel.send(AllocateProducerIdsRequest())).error_code == ErrorCode.STALE_BROKER_EPOCH
        assert len(here.seen) == 1

    play(scene)


def test_a_forwarded_request_carries_the_clients_name_and_version() -> None:
    async def scene(made: Scene) -> None:
        async def create(request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
            return CreateTopicsResponse(topics=[CreatableTopicResult(name=topic.name) for topic in request.topics])

        async with controller(made, create) as there:
            peer = Peer("10.1.2.3", "PLAINTEXT", ("127.0.0.1", 9092))
            peer.by_token = True
            context = RequestContext(peer, ApiKey.CREATE_TOPICS, 5, 77, "somebody", "User:alice")
            response = await made.channel.forward(CreateTopicsRequest(topics=[CreatableTopic(name="t")]), context)
            assert [topic.name for topic in response.topics] == ["t"]
            ((_, seen),) = there.seen
            assert (seen.principal, seen.peer.host, seen.client_id, seen.api_version) == (
                "User:alice",
                "10.1.2.3",
                "somebody",
                5,
            )
            assert seen.peer.by_token

    play(scene)
