"""kraft/network/limits.py, with the listeners that heed it: who waits for room, and who goes for another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from kraft.common.logging import Loggers
from kraft.network.limits import ConnectionCounts, ConnectionLimits
from kraft.network.socket_server import SocketServer
from kraft.world.ports import Stream
from kraft.world.real import RealWorld
from tests.unit.network.scripted import ScriptedDispatcher, ended, eventually, frame, reply

CLIENTS, BROKERS = "CLIENTS", "BROKERS"


class Listeners:
    """Two listeners of one broker; that between brokers is protected."""

    def __init__(self) -> None:
        self.world = RealWorld(log_sink=lambda line: None)
        self.counts = ConnectionCounts()
        log = Loggers(self.world.log_sink, self.world.clock).get("network")
        self.servers = {
            name: SocketServer(self.world, name, ConnectionLimits(), self.counts, ScriptedDispatcher(), log)
            for name in (CLIENTS, BROKERS)
        }
        self.ports: dict[str, int] = {}
        self.streams: list[Stream] = []

    def limit(self, *, total: int = 1000, clients: int = 1000) -> None:
        self.servers[CLIENTS].take_limits(ConnectionLimits(connections_max=total, listener_connections_max=clients))
        self.servers[BROKERS].take_limits(ConnectionLimits(connections_max=total, is_protected=True))

    async def connect(self, name: str = CLIENTS) -> Stream:
        """A connection that has asked for something."""
        stream = await self.world.network.connect("127.0.0.1", self.ports[name])
        self.streams.append(stream)
        await stream.send_all([frame(b"e")])
        return stream

    async def served(self, name: str = CLIENTS) -> Stream:
        """One that was answered."""
        stream = await self.connect(name)
        assert await reply(stream) == b"e"
        return stream

    async def waits(self, stream: Stream) -> bool:
        """Whether nothing came although the loop had every chance to answer."""
        other = await self.served(BROKERS)
        other.close()
        return stream.receive_nowait(memoryview(bytearray(1))) is None


def play(script: Callable[[Listeners], Awaitable[None]]) -> None:
    async def main() -> None:
        it = Listeners()
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                for name, server in it.servers.items():
                    listener = await it.world.network.listen("127.0.0.1", 0)
                    it.ports[name] = listener.port
                    await nursery.start(
                        lambda task_status, server=server, listener=listener: server.run(
                            listener, task_status=task_status
                        )
                    )
                try:
                    await script(it)
                finally:
                    for stream in it.streams:
                        stream.close()
                    nursery.cancel_scope.cancel()

    trio.run(main)


def test_a_connection_beyond_its_listeners_limit_waits_until_another_closes() -> None:
    async def script(it: Listeners) -> None:
        it.limit(clients=2)
        first = await it.served()
        await it.served()
        third, fourth = await it.connect(), await it.connect()
        assert await it.waits(third)
        first.close()
        assert await reply(third) == b"e"
        assert await it.waits(fourth)
        assert it.counts.by_listener == {CLIENTS: 2, BROKERS: it.counts.by_listener[BROKERS]}

    play(script)


def test_raising_the_limit_admits_waiting_connections() -> None:
    async def script(it: Listeners) -> None:
        it.limit(clients=1)
        await it.served()
        second = await it.connect()
        assert await it.waits(second)
        it.limit(clients=2)
        assert await reply(second) == b"e"

    play(script)


def test_beyond_the_broker_limit_clients_wait_and_brokers_replace_the_longest_idle_client() -> None:
    async def script(it: Listeners) -> None:
        it.limit(total=2)
        silent, busy = await it.served(), await it.served()
        waiting = await it.connect()
        await silent.send_all([frame(b"e")])
        assert await reply(silent) == b"e"
        await it.served(BROKERS)
        assert await ended(busy), "it was silent longer than the other by then"
        await eventually(lambda: it.counts.by_listener == {CLIENTS: 1, BROKERS: 1})
        assert waiting.receive_nowait(memoryview(bytearray(1))) is None
        await silent.send_all([frame(b"e")])
        assert await reply(silent) == b"e"

    play(script)


def test_lowering_the_broker_limit_closes_excess_connections() -> None:
    async def script(it: Listeners) -> None:
        first, second, third = await it.served(), await it.served(), await it.served()
        await it.served(BROKERS)
        it.limit(total=2)
        assert await ended(first)
        assert await ended(second)
        await third.send_all([frame(b"e")])
        assert await reply(third) == b"e"

    play(script)


def test_waiting_connections_are_closed_when_the_listener_stops() -> None:
    async def script(it: Listeners) -> None:
        it.limit(clients=0)
        waiting = await it.connect()
        await eventually(lambda: it.counts._changed.statistics().tasks_waiting == 1)
        it.servers[CLIENTS].stop_accepting()
        assert await ended(waiting)

    play(script)
