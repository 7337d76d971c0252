"""A broker's standing with the controller: registered, unfenced, fenced again, and on its way out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from kraft.common.config.node.node_loader import load_node_config
from kraft.common.errors import ApiError
from kraft.common.logging import Loggers
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kraft.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from kraft.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from kraft.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from kraft.server.broker_lifecycle_manager import BrokerLifecycleManager, BrokerState
from kraft.world.simulated import Universe
from tests.unit.server.brokers import CLUSTER, ScriptedController, simulate


class Scene:
    """A manager and a controller that registers it at epoch 42 and unfences it once it knows offset 10."""

    def __init__(self, universe: Universe) -> None:
        self.universe = universe
        self.events: list[Any] = []
        self.controller = ScriptedController()
        self.offset = 0
        self.levels = {"metadata.version": 30}
        self.fenced = False
        self.cordoned: list[bytes] | None = None
        self.heartbeat_code = 0
        self.registration_codes: list[int] = []
        self.controller.answers[BrokerRegistrationRequest.API_KEY] = self._register
        self.controller.answers[BrokerHeartbeatRequest.API_KEY] = self._beat
        world = universe.world_for("broker")
        log = Loggers(self.events.append, world.clock).get("lifecycle")
        config = load_node_config(sets=["initial.broker.registration.timeout.ms=2000"])
        self.manager = BrokerLifecycleManager(
            world,
            config,
            CLUSTER,
            self.controller,
            lambda: self.offset,
            lambda: self.levels,
            lambda: self.cordoned,
            log,
        )  # type: ignore[arg-type]

    def _register(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        code = self.registration_codes.pop(0) if self.registration_codes else 0
        return BrokerRegistrationResponse(error_code=code, broker_epoch=-1 if code else 42)

    def _beat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        fenced = self.fenced or request.current_metadata_offset < 10
        return BrokerHeartbeatResponse(
            error_code=self.heartbeat_code, is_fenced=fenced, should_shut_down=request.want_shut_down
        )

    def beats(self) -> list[BrokerHeartbeatRequest]:
        return [request for request in self.controller.asked if isinstance(request, BrokerHeartbeatRequest)]


def play(scene: Callable[[Scene], Awaitable[None]], codes: tuple[int, ...] = ()) -> None:
    async def main(universe: Universe) -> None:
        made = Scene(universe)
        made.registration_codes = list(codes)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.manager.run, [], [b"d" * 16], 17)
            await scene(made)
            nursery.cancel_scope.cancel()

    simulate(main)


def test_a_broker_registers_and_serves_once_its_metadata_is_caught_up() -> None:
    async def scene(made: Scene) -> None:
        await made.universe.sleep(1)
        request = made.controller.asked[0]
        assert (request.previous_broker_epoch, request.log_dirs, request.cluster_id) == (17, [b"d" * 16], CLUSTER)
        assert made.manager.epoch == 42
        assert not made.manager.unfenced.is_set()
        made.offset = 10
        made.manager.poke()
        await made.manager.unfenced.wait()
        assert made.manager.state == BrokerState.RUNNING

    play(scene)


def test_registration_is_retried_until_the_previous_incarnation_is_fenced() -> None:
    async def scene(made: Scene) -> None:
        await made.universe.sleep(1)
        assert made.manager.epoch == 42

    play(scene, (ErrorCode.DUPLICATE_BROKER_REGISTRATION, ErrorCode.NOT_CONTROLLER))


@pytest.mark.parametrize(
    ("codes", "final"),
    [
        ((ErrorCode.INCONSISTENT_CLUSTER_ID,), ErrorCode.INCONSISTENT_CLUSTER_ID),
        ((ErrorCode.CLUSTER_AUTHORIZATION_FAILED,), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        ((ErrorCode.DUPLICATE_BROKER_REGISTRATION,) * 100, 101),
    ],
)
def test_a_permanent_registration_refusal_stops_the_broker_with_the_reason(codes: tuple[int, ...], final: int) -> None:
    async def main(universe: Universe) -> None:
        made = Scene(universe)
        made.registration_codes = list(codes)
        with pytest.raises(ApiError) as caught:
            await made.manager.run([], [], -1)
        assert caught.value.code == final

    simulate(main)


def test_no_registration_attempt_waits_longer_than_a_session_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection may be half-open: then another attempt gets through long before the registration as a whole is
    given up."""

    async def scene(made: Scene) -> None:
        patience: list[float] = []

        async def never(request: Any, *, timeout: float) -> Any:
            patience.append(timeout)
            await made.universe.sleep(timeout)
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "")

        controller: Any = ScriptedController()
        monkeypatch.setattr(controller, "send", never)
        config = load_node_config(
            sets=["initial.broker.registration.timeout.ms=20000", "broker.session.timeout.ms=9000"]
        )
        manager = BrokerLifecycleManager(
            made.manager._world, config, CLUSTER, controller, lambda: 0, dict, lambda: None, made.manager._log
        )  # type: ignore[arg-type]
        with pytest.raises(ApiError):
            await manager._register([], [], -1)
        assert len(patience) == 3
        assert max(patience) <= 9

    play(scene)


@pytest.mark.parametrize(
    ("levels", "sentence"),
    [
        ({"metadata.version": 30, "fruit.version": 1}, "fruit.version is 1, and this release supports no level"),
        ({"metadata.version": 30, "share.version": 3}, "share.version is 3, and this release supports levels 0 to 2"),
        ({"metadata.version": 6}, "metadata.version is 6, and this release supports levels 7 to 33"),
        ({"metadata.version": 30}, "UNSUPPORTED_VERSION"),
    ],
)
def test_a_registration_rejected_for_a_feature_names_the_feature(levels: dict[str, int], sentence: str) -> None:
    async def scene(made: Scene) -> None:
        made.levels, made.registration_codes = levels, [ErrorCode.UNSUPPORTED_VERSION]
        with pytest.raises(ApiError, match=sentence):
            await made.manager._register([], [], -1)

    play(scene)


def test_a_refused_heartbeat_is_retried_with_one_log_line() -> None:
    async def scene(made: Scene) -> None:
        made.offset, made.heartbeat_code = 10, ErrorCode.NOT_CONTROLLER
        await made.universe.sleep(5)
        assert len(made.beats()) > 10
        assert [event["event"] for event in made.events].count("heartbeat refused") == 1
        assert made.manager.registration_lost is None
        made.heartbeat_code = 0
        await made.manager.unfenced.wait()

    play(scene)


def test_an_unregistered_broker_logs_it_and_keeps_its_heartbeat_interval() -> None:
    async def scene(made: Scene) -> None:
        made.offset = 10
        await made.manager.unfenced.wait()
        before = len(made.beats())
        made.heartbeat_code = ErrorCode.STALE_BROKER_EPOCH
        await made.universe.sleep(20)
        assert made.manager.registration_lost == "STALE_BROKER_EPOCH"
        assert 9 <= len(made.beats()) - before <= 11
        (line,) = [event for event in made.events if event["event"] == "heartbeat refused"]
        assert "restart it" in line["remedy"]

    play(scene)


def test_heartbeats_keep_their_interval_and_report_lost_directories_immediately() -> None:
    async def scene(made: Scene) -> None:
        made.offset = 10
        await made.manager.unfenced.wait()
        before = len(made.beats())
        await made.universe.sleep(20)
        assert 9 <= len(made.beats()) - before <= 11
        made.manager.offline_directories.append(b"d" * 16)
        made.manager.poke()
        await made.universe.sleep(0.01)
        assert made.beats()[-1].offline_log_dirs == [b"d" * 16]

    play(scene)


def test_heartbeats_report_cordoned_directories_once_they_are_known() -> None:
    async def scene(made: Scene) -> None:
        await made.universe.sleep(1)
        assert made.beats()[-1].cordoned_log_dirs is None
        made.cordoned = [b"d" * 16]
        made.manager.poke()
        await made.universe.sleep(0.01)
        assert made.beats()[-1].cordoned_log_dirs == [b"d" * 16]

    play(scene)


def test_a_broker_fenced_again_keeps_running_and_may_be_unfenced() -> None:
    async def scene(made: Scene) -> None:
        made.offset = 10
        await made.manager.unfenced.wait()
        made.fenced = True
        await made.universe.sleep(5)
        assert made.manager.fenced
        made.fenced = False
        await made.universe.sleep(1)
        assert not made.manager.fenced

    play(scene)


def test_controlled_shutdown_waits_for_the_controllers_permission() -> None:
    async def scene(made: Scene) -> None:
        made.offset = 10
        await made.manager.unfenced.wait()
        made.manager.begin_controlled_shutdown()
        await made.manager.may_stop.wait()
        assert made.beats()[-1].want_shut_down
        assert made.manager.state == BrokerState.SHUTTING_DOWN

    play(scene)


@pytest.mark.parametrize(("codes", "attempts"), [((), 2), ((0, ErrorCode.INVALID_REGISTRATION), 2)])
def test_an_amended_registration_names_the_same_incarnation_and_keeps_the_epoch(
    codes: tuple[int, ...], attempts: int
) -> None:
    async def scene(made: Scene) -> None:
        await made.universe.sleep(1)
        made.manager.amend_registration()
        await made.universe.sleep(10)
        asked = [each for each in made.controller.asked if isinstance(each, BrokerRegistrationRequest)]
        assert len(asked) == attempts
        assert {(each.incarnation_id, tuple(each.log_dirs)) for each in asked} == {
            (asked[0].incarnation_id, (b"d" * 16,))
        }
        assert made.manager.epoch == 42
        refused = [event for event in made.events if event["event"] == "log directories not registered"]
        assert len(refused) == len(codes[1:])

    play(scene, codes)
