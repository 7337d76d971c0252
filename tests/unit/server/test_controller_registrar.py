"""The registration of a controller: retried until it is accepted, and repeated when it is removed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from kraft.common.config.endpoints import Endpoint
from kraft.common.errors import ApiError
from kraft.common.logging import Loggers
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.records.feature_level_record import FeatureLevelRecord
from kraft.metadata.records.register_controller_record import RegisterControllerRecord
from kraft.metadata.records.unregister_controller_record import UnregisterControllerRecord
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.controller_registration_request import ControllerRegistrationRequest
from kraft.protocol.messages.controller_registration_response import ControllerRegistrationResponse
from kraft.server.controller_registrar import ControllerRegistrar
from kraft.world.simulated import Universe
from tests.unit.server.brokers import NODE, ScriptedController, simulate

ENDPOINT = Endpoint("CONTROLLER", "h", 9093, "PLAINTEXT")


class Scene:
    """A registrar that runs, and an active controller that accepts."""

    def __init__(self, universe: Universe) -> None:
        self.universe = universe
        self.events: list[Any] = []
        self.refusals: list[Exception | int] = []
        self.image = MetadataImage()
        self.controller = ScriptedController()
        self.controller.answers[ControllerRegistrationRequest.API_KEY] = self._answer
        world = universe.world_for("controller")
        log = Loggers(self.events.append, world.clock).get("controller")
        self.registrar = ControllerRegistrar(NODE, world, self.controller, log)

    def _answer(self, request: ControllerRegistrationRequest) -> ControllerRegistrationResponse:
        refusal = self.refusals.pop(0) if self.refusals else 0
        if isinstance(refusal, Exception):
            raise refusal
        return ControllerRegistrationResponse(error_code=refusal)

    @property
    def asked(self) -> int:
        return len(self.controller.asked)

    async def replay(self, *records: Any) -> None:
        self.image, changes = self.image.replay_batch(records)
        self.registrar.take_level(self.image.features.capabilities)
        self.registrar.take_changes(changes.controllers, self.image.cluster.controllers)
        await self.universe.sleep(5.0)

    def registered(self, node_id: int = NODE, incarnation: bytes | None = None) -> RegisterControllerRecord:
        own = self.controller.asked[-1].incarnation_id
        return RegisterControllerRecord(controller_id=node_id, incarnation_id=incarnation or own)


def play(body: Callable[[Scene], Awaitable[None]], *refusals: Exception | int, level: int = 30) -> None:
    async def main(universe: Universe) -> None:
        scene = Scene(universe)
        scene.refusals += refusals
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scene.registrar.run, [ENDPOINT])
            await scene.replay(FeatureLevelRecord(name="metadata.version", feature_level=level))
            await body(scene)
            nursery.cancel_scope.cancel()

    simulate(main)


def test_a_controller_registers_its_listeners_and_every_supported_feature() -> None:
    async def body(scene: Scene) -> None:
        (request,) = scene.controller.asked
        assert [(each.name, each.host, each.port) for each in request.listeners] == [("CONTROLLER", "h", 9093)]
        ranges = {each.name: (each.min_supported_version, each.max_supported_version) for each in request.features}
        assert ranges["metadata.version"] == (7, 33)

    play(body)


def test_a_refused_or_lost_registration_is_sent_again() -> None:
    async def body(scene: Scene) -> None:
        assert scene.asked == 3

    play(body, ApiError(ErrorCode.REQUEST_TIMED_OUT, "no controller"), ErrorCode.NOT_CONTROLLER)


def test_a_controller_that_is_unregistered_while_it_runs_registers_again() -> None:
    async def body(scene: Scene) -> None:
        for times in (2, 3):
            await scene.replay(scene.registered())
            await scene.replay(UnregisterControllerRecord(controller_id=NODE))
            assert scene.asked == times
        assert [event["event"] for event in scene.events] == ["controller unregistered"] * 2

    play(body)


def test_a_registration_removed_in_the_same_update_is_repeated() -> None:
    async def body(scene: Scene) -> None:
        await scene.replay(scene.registered(), UnregisterControllerRecord(controller_id=NODE))
        assert scene.asked == 2

    play(body)


@pytest.mark.parametrize("other", [{"node_id": NODE + 1}, {"incarnation": b"another incarn. "}])
def test_the_removal_of_another_registration_is_ignored(other: dict[str, Any]) -> None:
    async def body(scene: Scene) -> None:
        record = scene.registered(**other)
        await scene.replay(record)
        await scene.replay(UnregisterControllerRecord(controller_id=record.controller_id))
        assert scene.asked == 1

    play(body)


def test_a_controller_registers_once_metadata_version_knows_controllers() -> None:
    async def body(scene: Scene) -> None:
        assert scene.asked == 0
        await scene.replay(FeatureLevelRecord(name="metadata.version", feature_level=15))
        assert scene.asked == 1

    play(body, level=14)
