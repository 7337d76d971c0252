"""Kafka requests of the HTTP admin to other brokers, which may have closed a kept connection, or have stopped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from kraft.common.broker_state import ACTIVE, FENCED
from kraft.common.errors import ApiError
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.rpc_client.connection import Disconnected
from kraft.server.http_admin import remote_requests
from kraft.server.http_admin.remote_requests import (
    ANSWER_SECONDS_MAX,
    CHANGE_SECONDS_MAX,
    KEPT_ALONE_MAX,
    SILENCE_SECONDS_MAX,
    RemoteRequests,
)
from kraft.world.ports import Clock
from kraft.world.simulated import Universe
from tests.unit.server.brokers import simulate


class Connection:
    """To a broker that carries out what is sent, unless `fate` says otherwise."""

    def __init__(self, brokers: Brokers, host: str) -> None:
        self._brokers, self._host = brokers, host
        self.is_open = True

    async def negotiate(self) -> None:
        await self._exchange("versions")

    async def call(self, request: Any, *, version: int, timeout: float) -> Any:
        with self._brokers.clock.move_on_after(timeout):
            await self._exchange(request.name)
            return request.name
        raise TimeoutError

    async def _exchange(self, name: str) -> None:
        await trio.lowlevel.checkpoint()
        if not self.is_open:
            raise Disconnected("the connection is closed")
        if self._brokers.closed_as_idle:
            self._close()
        self._brokers.carried_out.append(name)
        if self._brokers.stopped.get(self._host):
            await trio.sleep_forever()
        if name == self._brokers.closes_after:
            self._brokers.closes_after = ""
            self._close()
        await trio.lowlevel.checkpoint()

    def _close(self) -> None:
        self.is_open, self._brokers.closed_as_idle = False, False
        raise Disconnected("the node closed the connection")

    def close(self) -> None:
        self.is_open = False


class Brokers:
    """Brokers 2 and 3, and the node that asks them. In place of `open_connection`."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.opened: list[str] = []
        self.carried_out: list[str] = []
        self.closed_as_idle = False
        """The first that is sent on the connection finds it closed, and is not carried out."""
        self.closes_after = ""
        """The broker carries this out, once, and closes the connection before it answers."""
        self.stopped: dict[str, bool] = {}
        self.registered = {
            number: SimpleNamespace(
                id=number, fenced=False, endpoint=lambda name, n=number: SimpleNamespace(host=f"b{n}", port=9092)
            )
            for number in (2, 3)
        }
        self.desired_state = ACTIVE

    async def __call__(self, world: object, host: str, port: int, *, client_id: str) -> Any:
        self.opened.append(host)
        if self.stopped.get(host):
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        return Connection(self, host)

    def requests(self) -> RemoteRequests:
        configs = SimpleNamespace(desired_state=lambda node_id: self.desired_state)
        image = SimpleNamespace(cluster=SimpleNamespace(brokers=self.registered), configs=configs)
        node: Any = SimpleNamespace(
            world=SimpleNamespace(clock=self.clock),
            shared=SimpleNamespace(loader=SimpleNamespace(image=image)),
            config=SimpleNamespace(inter_broker_listener_name="PLAINTEXT"),
        )
        return RemoteRequests(node)


def question(name: str) -> Any:
    return SimpleNamespace(API_KEY=ApiKey.LIST_GROUPS, name=name)


def produce(name: str) -> Any:
    return SimpleNamespace(API_KEY=ApiKey.PRODUCE, name=name)


def fetch(name: str, max_wait_ms: int) -> Any:
    return SimpleNamespace(API_KEY=ApiKey.FETCH, name=name, max_wait_ms=max_wait_ms, max_bytes=1 << 20)


def play(monkeypatch: pytest.MonkeyPatch, story: Callable[[Brokers, RemoteRequests], Awaitable[None]]) -> None:
    async def run(universe: Universe) -> None:
        brokers = Brokers(universe.world_for("a").clock)
        monkeypatch.setattr(remote_requests, "open_connection", brokers)
        await story(brokers, brokers.requests())

    simulate(run)


@pytest.mark.parametrize("request_of", [question, produce])
def test_a_connection_closed_by_its_broker_as_idle_is_replaced(
    monkeypatch: pytest.MonkeyPatch, request_of: Callable[[str], Any]
) -> None:
    async def story(brokers: Brokers, requests: RemoteRequests) -> None:
        await requests.call(1, request_of("first"), 3)
        await brokers.clock.sleep(600)
        brokers.closed_as_idle = True
        assert await requests.call(1, request_of("second"), 3) == "second"
        assert (brokers.carried_out, brokers.opened) == (["first", "second"], ["b3", "b3"])

    play(monkeypatch, story)


def test_a_recently_used_connection_is_reused_without_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(brokers: Brokers, requests: RemoteRequests) -> None:
        for name in ("first", "second"):
            await requests.call(1, question(name), 3)
        await brokers.clock.sleep(2 * SILENCE_SECONDS_MAX)
        await requests.call(1, question("third"), 3)
        assert (brokers.carried_out, brokers.opened) == (["first", "second", "versions", "third"], ["b3"])

    play(monkeypatch, story)


def test_a_read_request_is_retried_and_a_change_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker may have carried out what it has not answered."""

    async def story(brokers: Brokers, requests: RemoteRequests) -> None:
        brokers.closes_after = "a"
        assert await requests.call(1, question("a"), 3) == "a"
        brokers.closes_after = "b"
        with pytest.raises(ApiError, match="It is unknown whether it executed the request") as told:
            await requests.call(1, produce("b"), 3)
        assert (told.value.code, brokers.carried_out) == (ErrorCode.NETWORK_EXCEPTION, ["a", "a", "b"])

    play(monkeypatch, story)


@pytest.mark.parametrize("is_connected", [False, True])
@pytest.mark.parametrize("request_of", [question, produce, lambda name: fetch(name, 30_000)])
def test_a_stopped_broker_is_retried_for_two_seconds_and_gets_no_change_request(
    monkeypatch: pytest.MonkeyPatch, request_of: Callable[[str], Any], is_connected: bool
) -> None:
    async def story(brokers: Brokers, requests: RemoteRequests) -> None:
        if is_connected:
            await requests.call(1, request_of("first"), 2)
            await brokers.clock.sleep(10)
        brokers.stopped["b2"] = True
        began = brokers.clock.now()
        with pytest.raises(ConnectionError, match="broker 2 did not answer within 2 s"):
            await requests.call(1, request_of("second"), 2)
        assert brokers.clock.now() - began == pytest.approx(ANSWER_SECONDS_MAX, abs=0.01)
        assert "second" not in brokers.carried_out
        brokers.stopped["b2"] = False
        assert await requests.call(1, request_of("third"), 2) == "third"

    play(monkeypatch, story)


def test_a_broker_that_stops_during_a_change_leaves_the_outcome_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(brokers: Brokers, requests: RemoteRequests) -> None:
        await requests.call(1, produce("first"), 2)
        brokers.stopped["b2"] = True
        began = brokers.clock.now()
        with pytest.raises(TimeoutError):
            await requests.call(1, produce("second"), 2)
        assert brokers.clock.now() - began == pytest.approx(CHANGE_SECONDS_MAX, abs=0.01)

    play(monkeypatch, story)


def test_a_fenced_broker_gets_only_requests_meant_for_fenced_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(brokers: Brokers, requests: RemoteRequests) -> None:
        brokers.registered[3].fenced = True
        with pytest.raises(ConnectionError, match="broker 3 is fenced"):
            await requests.call(1, question("a"), 3)
        assert brokers.opened == []
        brokers.desired_state = FENCED
        assert await requests.call(1, question("b"), 3) == "b"
        assert await requests.call(1, question("c"), None) == "c"
        assert brokers.opened == ["b3", "b2"]

    play(monkeypatch, story)


def test_a_broker_that_does_not_accept_connections_delays_no_requests_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(brokers: Brokers, requests: RemoteRequests) -> None:
        brokers.stopped["b2"] = True
        async with trio.open_nursery() as nursery:

            async def ask_the_silent() -> None:
                with pytest.raises(ConnectionError):
                    await requests.call(1, question("a"), 2)

            nursery.start_soon(ask_the_silent)
            await trio.lowlevel.checkpoint()
            began = brokers.clock.now()
            assert await requests.call(1, question("b"), 3) == "b"
            assert brokers.clock.now() - began < 0.01

    play(monkeypatch, story)


def test_concurrent_reads_from_one_broker_share_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(brokers: Brokers, requests: RemoteRequests) -> None:
        answers: list[str] = []

        async def ask(name: str) -> None:
            answers.append(await requests.call(1, question(name), 3))

        async with trio.open_nursery() as nursery:
            for name in "abc":
                nursery.start_soon(ask, name)
        assert (sorted(answers), brokers.opened) == (["a", "b", "c"], ["b3"])

    play(monkeypatch, story)


def test_requests_that_may_wait_use_their_own_pool_of_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(brokers: Brokers, requests: RemoteRequests) -> None:
        many = KEPT_ALONE_MAX + 2
        for _ in range(2):
            async with trio.open_nursery() as nursery:
                for number in range(many):
                    nursery.start_soon(requests.call, 1, fetch(str(number), 0), 3)
        assert len(brokers.opened) == many + 2

    play(monkeypatch, story)
