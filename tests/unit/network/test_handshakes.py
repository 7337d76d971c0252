"""How long those are waited for whose keys are not agreed yet, and how many of them."""

from __future__ import annotations

import struct
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from kraft.common.logging import Loggers
from kraft.network import handshakes
from kraft.network.handshakes import Handshakes
from kraft.network.limits import ConnectionCounts, ConnectionLimits
from kraft.network.reply import Peer, Reply
from kraft.network.socket_server import SocketServer
from kraft.world.ports import Stream
from kraft.world.real import RealWorld
from tests.certificates import certificates
from tests.unit.coordinator.fakes import TrioClock
from tests.unit.network.scripted import ScriptedDispatcher, ended, frame, receive, reply


class Silent:
    """Never says anything."""

    is_encrypted = True

    async def handshake(self) -> None:
        await trio.sleep_forever()


class Quick:
    async def handshake(self) -> None:
        await trio.lowlevel.checkpoint()


def simulated(main: Any) -> None:
    trio.run(main, clock=MockClock(autojump_threshold=0.01))


def test_a_handshake_that_takes_too_long_is_closed() -> None:
    async def main() -> None:
        stream: Any = Silent()
        start = trio.current_time()
        with pytest.raises(TimeoutError, match=r"no TLS handshake within 10\.0 s"):
            await Handshakes(TrioClock()).run(stream)
        assert trio.current_time() - start == pytest.approx(handshakes.HANDSHAKE_SECONDS_MAX)

    simulated(main)


def test_the_oldest_silent_handshake_is_closed_to_make_room() -> None:
    ended: list[int] = []

    async def main() -> None:
        places = Handshakes(TrioClock(), 3)
        silent: Any = Silent()

        async def keep(number: int) -> None:
            with pytest.raises(TimeoutError):
                await places.run(silent)
            ended.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(keep, number)
                await trio.sleep(0.1)
            start = trio.current_time()
            await places.until_room()
            assert trio.current_time() - start == pytest.approx(0.7), "a second after the oldest began"
            quick: Any = Quick()
            await places.run(quick)
            await places.until_room()
            await trio.testing.wait_all_tasks_blocked()
            assert ended == [0]
            nursery.cancel_scope.cancel()

    simulated(main)


def test_a_burst_of_handshakes_waits_and_none_is_closed() -> None:
    async def main() -> None:
        places, done = Handshakes(TrioClock(), 4), 0

        class Slow:
            async def handshake(self) -> None:
                await trio.sleep(0.2)

        slow: Any = Slow()

        async def one() -> None:
            nonlocal done
            await places.run(slow)
            done += 1

        async with trio.open_nursery() as nursery:
            for _ in range(100):
                await places.until_room()
                nursery.start_soon(one)
        assert done == 100

    simulated(main)


def served(play: Any, tls: Any) -> list[Any]:
    """Plays against a listener that encrypts; returns what was told in the log."""
    events: list[Any] = []

    async def main() -> None:
        world = RealWorld(log_sink=events.append)
        log = Loggers(world.log_sink, world.clock).get("network")
        server = SocketServer(world, "SSL", ConnectionLimits(), ConnectionCounts(), ScriptedDispatcher(), log)
        listener = await world.network.listen("127.0.0.1", 0, 50, tls)
        async with trio.open_nursery() as nursery:
            await nursery.start(lambda task_status: server.run(listener, task_status=task_status))
            with trio.fail_after(60):
                await play(world, listener, server)
            nursery.cancel_scope.cancel()

    trio.run(main)
    return events


def test_requests_are_served_over_tls_with_many_concurrent_handshakes() -> None:
    async def play(world: RealWorld, listener: Any, server: SocketServer) -> None:
        async def ask(number: int) -> None:
            stream = await world.network.connect("localhost", listener.port, certificates().anybody)
            await stream.send_all([frame(b"r%d" % number)])
            assert await reply(stream)
            stream.close()

        async with trio.open_nursery() as nursery:
            for number in range(60):
                nursery.start_soon(ask, number)

    assert served(play, certificates().server) == []


def test_a_plaintext_client_on_a_tls_port_is_closed_and_logged_and_a_probe_is_not_logged() -> None:
    async def play(world: RealWorld, listener: Any, server: SocketServer) -> None:
        probe = await world.network.connect("127.0.0.1", listener.port)
        probe.close()
        stream = await world.network.connect("127.0.0.1", listener.port)
        await stream.send_all([struct.pack(">i", 8), b"plaintxt"])
        try:
            while await receive(stream, 100):
                pass
        except ConnectionError:
            pass
        stream.close()
        while server._counts.total:  # noqa: ASYNC110  # Nobody is told.
            await trio.sleep(0.001)

    [line] = served(play, replace(certificates().server, client_auth="none"))
    assert line["event"] == "connection closed: no TLS"
    assert "TLS handshake failed: " in line["reason"]
    assert "Errno" not in line["reason"]


def test_a_request_carries_the_principal_of_its_connection() -> None:
    seen: list[str] = []

    class Noting(ScriptedDispatcher):
        def dispatch(self, peer: Peer, data: memoryview) -> Reply | Awaitable[Reply]:
            seen.append(peer.principal)
            return super().dispatch(peer, data)

    def identify(stream: Stream) -> str:
        if stream.peer_certificate is None:
            raise ValueError("nobody knows you")
        return f"User:{len(stream.peer_certificate) > 100}"

    async def main() -> None:
        world = RealWorld(log_sink=lambda _: None)
        log = Loggers(world.log_sink, world.clock).get("network")
        limits, counts = ConnectionLimits(), ConnectionCounts()
        server = SocketServer(world, "SSL", limits, counts, Noting(), log, identify=identify)
        asking = replace(certificates().server, client_auth="requested")
        listener = await world.network.listen("127.0.0.1", 0, 50, asking)
        async with trio.open_nursery() as nursery:
            await nursery.start(lambda task_status: server.run(listener, task_status=task_status))
            with trio.fail_after(60):
                named = await world.network.connect("localhost", listener.port, certificates().client)
                await named.send_all([frame(b"e1")])
                assert await reply(named) == b"e1"
                nameless = await world.network.connect("localhost", listener.port, certificates().anybody)
                await nameless.send_all([frame(b"e2")])
                assert await ended(nameless)
                for stream in (named, nameless):
                    stream.close()
            nursery.cancel_scope.cancel()
        assert seen == ["User:True"]
        assert server.rejected == 1

    trio.run(main)
