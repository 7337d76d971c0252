"""A listener under well-behaved and badly behaved peers: what ends a connection, what ends nothing else, and where
files are read."""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable
from typing import Any

import trio

from kraft.common.logging import Loggers
from kraft.network.cold_reads import ColdReads
from kraft.network.limits import ConnectionCounts, ConnectionLimits
from kraft.network.reply import FileRange, Peer, Reply
from kraft.network.socket_server import REFUSALS_TOLD_MAX, SocketServer
from kraft.world.ports import Stream
from kraft.world.real import RealWorld
from kraft.world.simulated import Universe
from tests.unit.network.scripted import Running, ScriptedDispatcher, ended, eventually, frame, reply, scenario


def test_a_protocol_error_closes_only_that_connection_with_one_log_line() -> None:
    async def play(run: Running) -> None:
        bad, good = await run.connect(), await run.connect()
        await bad.send_all([frame(b"x")])
        assert await ended(bad)
        await good.send_all([frame(b"e")])
        assert await reply(good) == b"e"
        assert [event["event"] for event in run.events] == ["connection closed: protocol error"]

    scenario(play)


def test_a_flood_of_protocol_errors_is_logged_in_few_lines_with_a_count() -> None:
    async def play(run: Running) -> None:
        for _ in range(REFUSALS_TOLD_MAX + 20):
            bad = await run.connect()
            await bad.send_all([frame(b"x")])
            assert await ended(bad)
        assert run.server.rejected == REFUSALS_TOLD_MAX + 20
        assert len(run.events) == REFUSALS_TOLD_MAX

    scenario(play)


def test_a_response_may_close_its_connection() -> None:
    async def play(run: Running) -> None:
        stream = await run.connect()
        await stream.send_all([frame(b"c")])
        assert await reply(stream) == b"c"
        assert await ended(stream)

    scenario(play)


def test_connections_beyond_the_limit_are_closed_and_counted() -> None:
    async def play(run: Running) -> None:
        first, second = await run.connect(), await run.connect()
        await first.send_all([frame(b"e")])
        assert await reply(first) == b"e"
        await second.send_all([frame(b"e")])
        assert await reply(second) == b"e"
        third = await run.connect()
        assert await ended(third)
        first.close()
        await eventually(lambda: len(run.server.connections) == 1)
        fourth = await run.connect()
        await fourth.send_all([frame(b"e")])
        assert await reply(fourth) == b"e"

    scenario(play, ConnectionLimits(connections_per_ip_max=2))


def test_an_idle_connection_is_closed_and_an_active_one_is_not() -> None:
    async def play(run: Running) -> None:
        idle, busy = await run.connect(), await run.connect()
        await busy.send_all([frame(b"a")])
        assert await ended(idle)
        await eventually(lambda: run.server.idle_closed == 1)
        run.dispatcher.gate.set()
        assert await reply(busy) == b"a"

    scenario(play, ConnectionLimits(idle_seconds_max=0.2))


def test_a_request_without_a_response_may_close_its_connection() -> None:
    async def play(run: Running) -> None:
        stream = await run.connect()
        await stream.send_all([frame(b"k")])
        assert await ended(stream)

    scenario(play)


def test_an_unexpected_exception_closes_its_connection_but_not_the_node() -> None:
    async def play(run: Running) -> None:
        at_once, later, good = await run.connect(), await run.connect(), await run.connect()
        await at_once.send_all([frame(b"b")])
        assert await ended(at_once)
        await later.send_all([frame(b"p1b"), frame(b"p2")])
        run.dispatcher.gate.set()
        assert await ended(later)
        await good.send_all([frame(b"e")])
        assert await reply(good) == b"e"
        assert [event["event"] for event in run.events] == ["connection closed: answer failed"] * 2
        assert all("AssertionError" in event["traceback"] for event in run.events)

    scenario(play)


def test_a_peer_that_does_not_read_its_responses_counts_as_idle() -> None:
    async def play(run: Running) -> None:
        stream = await run.connect()
        await stream.send_all([frame(b"l")])
        await eventually(lambda: run.server.idle_closed == 1)
        await eventually(lambda: not run.server.connections)

    scenario(play, ConnectionLimits(idle_seconds_max=0.2))


def test_accepting_continues_after_a_failure_with_one_log_line() -> None:
    class Failing:
        """A listener that is out of descriptors for a while."""

        def __init__(self, failures: int) -> None:
            self.failures = failures

        async def accept(self) -> Stream:
            await trio.lowlevel.checkpoint()
            self.failures -= 1
            if self.failures >= 0:
                raise OSError(errno.EMFILE, "Too many open files")
            await trio.sleep_forever()
            raise AssertionError("not reached")

        def close(self) -> None: ...

    async def main() -> None:
        events: list[Any] = []
        world = RealWorld(log_sink=events.append)
        log = Loggers(world.log_sink, world.clock).get("network")
        server = SocketServer(world, "PLAINTEXT", ConnectionLimits(), ConnectionCounts(), ScriptedDispatcher(), log)
        listener = Failing(3)
        async with trio.open_nursery() as nursery:
            await nursery.start(lambda task_status: server.run(listener, task_status=task_status))  # type: ignore[arg-type]
            with trio.fail_after(10):
                await eventually(lambda: listener.failures < 0)
            nursery.cancel_scope.cancel()
        assert [event["event"] for event in events] == ["accept failed; retrying"]

    trio.run(main)


def test_uncached_file_bytes_are_read_in_a_thread_before_they_are_sent() -> None:
    content = bytes(range(256)) * 12_000

    async def main(universe: Universe) -> None:
        world, client = universe.world_for("server"), universe.world_for("client")
        file = world.files.open("/file", create=True)
        file.append((content,))
        universe.disk("server").cold_rate = 1.0
        began: list[int] = []

        class FileServer(ScriptedDispatcher):
            def dispatch(self, peer: Peer, data: memoryview) -> Reply:
                began.append(world.threads.running)
                return Reply((struct.pack(">i", len(content)), FileRange(file, 0, len(content), None)))

        log = Loggers(world.log_sink, world.clock).get("network")
        server = SocketServer(world, "PLAINTEXT", ConnectionLimits(), ConnectionCounts(), FileServer(), log)
        ran: list[object] = []

        class Threads:
            async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
                ran.append(arguments[1:])
                return await world.threads.run(function, *arguments)

        server.cold_reads = ColdReads(Threads())  # type: ignore[arg-type]  # Runs what it is given, and tells.
        async with trio.open_nursery() as nursery:
            listener = await world.network.listen("0.0.0.0", 9092)
            await nursery.start(lambda task_status: server.run(listener, task_status=task_status))
            stream = await client.network.connect("node-server", 9092)
            await stream.send_all([frame(b"e")])
            received, scratch = bytearray(), memoryview(bytearray(1 << 16))
            while len(received) < 4 + len(content):
                count = stream.receive_nowait(scratch)
                if count is None:
                    await stream.wait_readable()
                else:
                    received += scratch[:count]
            assert received[4:] == content
            assert ran == [(0, 1 << 20), (1 << 20, 1 << 20), (2 << 20, len(content) - (2 << 20))]
            nursery.cancel_scope.cancel()

    Universe(1).run(main, seconds_max=100)
