"""Tokens to log in by: fetched once for all, kept, renewed ahead, and tried for again while they cannot be had."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import pytest
import trio

from kraft.common.logging import Loggers
from kraft.rpc_client.login_tokens import FetchedTokens, NoLoginToken
from kraft.security.tls import TlsSettings
from kraft.security.token_request import TokenEndpoint
from kraft.world.ports import Stream
from kraft.world.simulated import SimulatedWorld, Universe
from tests.tokens import authority
from tests.unit.server.brokers import simulate

LIFETIME = 3600


class Service:
    """An authority that gives a token of `LIFETIME` to whoever asks."""

    def __init__(self, universe: Universe) -> None:
        self.world = universe.world_for("service")
        self.status = 200
        self.is_silent = False
        self.asked: list[bytes] = []
        self.url = ""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        listener = await self.world.network.listen("0.0.0.0", 80)
        self.url = f"http://node-service:{listener.port}/token"
        task_status.started()
        while True:
            await self._answer(await listener.accept())

    async def _answer(self, stream: Stream) -> None:
        buffer, head = bytearray(4096), b""
        while not head.endswith(b"grant_type=client_credentials&scope=logs"):
            count = stream.receive_nowait(memoryview(buffer))
            if count is None:
                await stream.wait_readable()
            elif not count:
                return
            else:
                head += bytes(buffer[:count])
        self.asked.append(head)
        now = self.world.clock.wall_ms() / 1000
        body = json.dumps({"access_token": authority().sign(now, exp=now + LIFETIME)}).encode()
        if not self.is_silent:
            await stream.send_all([b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (self.status, len(body), body)])
            stream.close()


class Client:
    def __init__(self, universe: Universe, service: Service) -> None:
        self.world: SimulatedWorld = universe.world_for("a")
        self.lines: list[str] = []
        self.log = Loggers(lambda line: self.lines.append(str(line)), self.world.clock).get("tokens")
        self.tokens = FetchedTokens(
            TokenEndpoint(
                url=service.url,
                client_id="me",
                client_secret="a-secret",
                scope="logs",
                tls=TlsSettings(values={}, is_server=False),
            )
        )

    async def token(self) -> str:
        return await self.tokens.token(self.world)


Play = Callable[[Service, Client, trio.Nursery], Awaitable[None]]


def played(play: Play) -> None:
    async def main(universe: Universe) -> None:
        async with trio.open_nursery() as nursery:
            service = Service(universe)
            await nursery.start(lambda task_status: service.run(task_status=task_status))
            await play(service, Client(universe, service), nursery)
            nursery.cancel_scope.cancel()

    simulate(main, seconds_max=200_000.0)


def test_one_token_is_used_for_many_logins_until_its_refresh() -> None:
    async def play(service: Service, client: Client, nursery: trio.Nursery) -> None:
        found: list[str] = []

        async def ask() -> None:
            found.append(await client.token())

        async with trio.open_nursery() as askers:
            for _ in range(20):
                askers.start_soon(ask)
        assert (len(dict.fromkeys(found)), len(service.asked)) == (1, 1)
        assert service.asked[0].startswith(b"POST /token HTTP/1.1\r\nHost: node-service:")
        await client.world.clock.sleep(0.79 * LIFETIME)
        assert (await client.token(), len(service.asked)) == (found[0], 1)
        await client.world.clock.sleep(0.07 * LIFETIME)
        assert await client.token() != found[0]
        assert len(service.asked) == 2

    played(play)


def test_while_the_token_endpoint_is_down_the_old_token_is_used_until_it_expires() -> None:
    async def play(service: Service, client: Client, nursery: trio.Nursery) -> None:
        first = await client.token()
        service.status = 503
        await client.world.clock.sleep(0.9 * LIFETIME)
        assert await client.token() == first
        await client.world.clock.sleep(0.1 * LIFETIME)
        with pytest.raises(NoLoginToken, match="status 503"):
            await client.token()

    played(play)


def test_callers_that_wait_for_a_failing_token_request_fail_with_it() -> None:
    async def play(service: Service, client: Client, nursery: trio.Nursery) -> None:
        service.is_silent = True
        failures: list[float] = []

        async def ask() -> None:
            with pytest.raises(NoLoginToken, match="no answer within 10 seconds"):
                await client.token()
            failures.append(client.world.clock.now())

        began = client.world.clock.now()
        async with trio.open_nursery() as askers:
            for _ in range(5):
                askers.start_soon(ask)
        assert [round(at - began) for at in failures] == [10] * 5
        service.is_silent = False

    played(play)


def test_a_permanent_token_refusal_is_cached_and_other_failures_for_ten_seconds() -> None:
    async def play(service: Service, client: Client, nursery: trio.Nursery) -> None:
        service.status = 401
        with pytest.raises(NoLoginToken, match="status 401"):
            await client.token()
        assert len(service.asked) == 1
        service.status, began = 500, client.world.clock.now()
        with pytest.raises(NoLoginToken, match="status 500"):
            await client.token()
        assert 5 < client.world.clock.now() - began < 11
        assert len(service.asked) == 8

    played(play)


def test_a_token_is_refreshed_in_advance_and_no_login_waits_for_it() -> None:
    async def play(service: Service, client: Client, nursery: trio.Nursery) -> None:
        nursery.start_soon(client.tokens.renew, client.world, client.log)
        await client.world.clock.sleep(5)
        first = await client.token()
        await client.world.clock.sleep(0.86 * LIFETIME)
        assert len(service.asked) == 2
        service.is_silent, began = True, client.world.clock.now()
        second = await client.token()
        assert second != first
        await client.world.clock.sleep(0.9 * LIFETIME)
        waited = client.world.clock.now()
        assert await client.token() == second
        assert client.world.clock.now() == waited
        assert waited - began < LIFETIME
        service.is_silent = False
        await client.world.clock.sleep(30)
        assert await client.token() != second
        told = "".join(client.lines)
        assert "no answer within 10 seconds" in told
        assert "a-secret" not in told
        assert "eyJ" not in told

    played(play)


def test_a_token_file_is_read_again_when_its_token_is_due() -> None:
    async def play(service: Service, client: Client, nursery: trio.Nursery) -> None:
        world = client.world

        def write(text: str) -> None:
            file = world.files.open("/token", create=True)
            file.truncate(0)
            file.append([text.encode()])
            file.close()

        def signed() -> str:
            return authority().sign(world.clock.wall_ms() / 1000, exp=world.clock.wall_ms() / 1000 + LIFETIME)

        client.tokens = tokens = FetchedTokens(
            TokenEndpoint(url="file:///token", tls=TlsSettings(values={}, is_server=False))
        )
        with pytest.raises(NoLoginToken, match="no token can be had from file:///token"):
            await client.token()
        first = signed()
        write(f"{first}\n")
        assert await client.token() == first
        nursery.start_soon(tokens.renew, world, client.log)
        await world.clock.sleep(0.9 * LIFETIME)
        assert await client.token() == first, "nobody has replaced it"
        second = signed()
        write(second)
        await world.clock.sleep(15)
        assert await client.token() == second

    played(play)
