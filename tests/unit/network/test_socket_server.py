"""A listener under well-behaved and badly behaved peers, over real loopback sockets."""

from __future__ import annotations

import errno
import gc
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

from kraft.common.errors import ProtocolError
from kraft.common.logging import Loggers
from kraft.network.limits import ConnectionCounts, ConnectionLimits
from kraft.network.reply import NO_REPLY, SCRATCH_BYTES, FileRange, FirstStage, Peer, Reply, Staged
from kraft.network.socket_server import SocketServer
from kraft.world.ports import Stream
from kraft.world.real import RealWorld
from kraft.world.simulated import Universe


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


class ScriptedDispatcher:
    """Commands by first byte: e = echo, a = echo later (waits for `gate`), p = the same but may overtake, n = no reply, x = protocol error, c = close after,

    k = close without a reply, b = a fault of ours, at once or (p..b) later, l = a reply of 8 MB, s = the same as p in stages (the test ends the first).
    """

    def __init__(self) -> None:
        self.gate = trio.Event()
        self.stages: list[FirstStage] = []
        self.started: list[bytes] = []

    def may_overtake_wait(self, data: memoryview) -> bool:
        return bytes(data[:1]) in (b"p", b"s")

    def dispatch(self, peer: Peer, data: memoryview) -> Reply | Awaitable[Reply]:
        command = bytes(data)
        self.started.append(command)
        if command[:1] == b"x":
            raise ProtocolError("scripted")
        if command[:1] == b"b":
            raise AssertionError("scripted")
        if command[:1] == b"n":
            return NO_REPLY
        if command[:1] == b"k":
            return Reply((), close_after=True)
        if command[:1] == b"l":
            return Reply((frame(bytes(8 << 20)),))
        if command[:1] == b"s":
            stage = FirstStage(1)
            self.stages.append(stage)
            return Staged(self._staged(stage, data), stage)
        if command[:1] in (b"a", b"p") and not command.endswith(b"!"):
            return self._later(command)
        return Reply((frame(command),), close_after=command[:1] == b"c")

    async def _staged(self, stage: FirstStage, data: memoryview) -> Reply:
        """The frame is read when the stage is over, as it has to last until then."""
        kept = [b""]
        stage.when_over(lambda: kept.__setitem__(0, bytes(data)))
        await stage.wait()
        await self.gate.wait()
        return Reply((frame(kept[0][:8]),))

    async def _later(self, command: bytes) -> Reply:
        await self.gate.wait()
        assert not command.endswith(b"b"), "scripted"
        return Reply((frame(command),))


class Running:
    def __init__(self, server: SocketServer, dispatcher: ScriptedDispatcher, world: RealWorld, port: int, events: list[Any]) -> None:
        self.server, self.dispatcher, self.world, self.port, self.events = server, dispatcher, world, port, events
        self.streams: list[Stream] = []

    async def connect(self) -> Stream:
        stream = await self.world.network.connect("127.0.0.1", self.port)
        self.streams.append(stream)
        return stream


@asynccontextmanager
async def running(limits: ConnectionLimits | None = None) -> AsyncIterator[Running]:
    events: list[Any] = []
    world = RealWorld(log_sink=events.append)
    dispatcher = ScriptedDispatcher()
    log = Loggers(world.log_sink, world.clock).get("network")
    server = SocketServer(world, "PLAINTEXT", limits or ConnectionLimits(), ConnectionCounts(), dispatcher, log)
    listener = await world.network.listen("127.0.0.1", 0)
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: server.run(listener, task_status=task_status))
        run = Running(server, dispatcher, world, listener.port, events)
        try:
            yield run
        finally:
            for stream in run.streams:
                stream.close()
            nursery.cancel_scope.cancel()


async def receive(stream: Stream, count: int) -> bytes:
    """Exactly `count` bytes, or fewer when the stream ends."""
    data = bytearray(count)
    filled = 0
    with trio.fail_after(10):
        while filled < count:
            got = stream.receive_nowait(memoryview(data)[filled:])
            if got is None:
                await stream.wait_readable()
            elif got == 0:
                break
            else:
                filled += got
    return bytes(data[:filled])


async def reply(stream: Stream) -> bytes:
    (size,) = struct.unpack(">i", await receive(stream, 4))
    return await receive(stream, size)


async def ended(stream: Stream) -> bool:
    try:
        return await receive(stream, 1) == b""
    except ConnectionError:
        return True


def scenario(play: Callable[[Running], Awaitable[None]], limits: ConnectionLimits | None = None) -> None:
    async def main() -> None:
        with trio.fail_after(20):
            async with running(limits) as run:
                await play(run)

    trio.run(main)


async def eventually(condition: Callable[[], bool]) -> None:
    """Let the loop turn until `condition` holds; the scenario's own deadline bounds it."""
    while not condition():
        await trio.lowlevel.checkpoint()


def test_pipelined_requests_are_answered_in_order() -> None:
    async def play(run: Running) -> None:
        stream = await run.connect()
        await stream.send_all([b"".join(frame(b"e%d" % number) for number in range(50))])
        assert [await reply(stream) for _ in range(50)] == [b"e%d" % number for number in range(50)]

    scenario(play)


def test_a_produce_starts_behind_a_waiting_produce_and_answers_keep_their_order() -> None:
    async def play(run: Running) -> None:
        stream = await run.connect()
        await stream.send_all([frame(b"p1"), frame(b"p2!"), frame(b"p3")])
        await eventually(lambda: run.dispatcher.started == [b"p1", b"p2!", b"p3"])
        run.dispatcher.gate.set()
        assert [await reply(stream) for _ in range(3)] == [b"p1", b"p2!", b"p3"]

    scenario(play)


def test_a_frame_lasts_until_its_first_stage_is_over_and_the_next_request_waits_for_that() -> None:
    async def play(run: Running) -> None:
        stream, dispatcher, pool = await run.connect(), run.dispatcher, run.server.pool
        large = [b"s%d" % number + bytes([number]) * SCRATCH_BYTES for number in range(3)]

        async def send() -> None:
            await stream.send_all([frame(large[0]), frame(large[1]), frame(large[2]), frame(b"e")])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            for number in range(3):
                await eventually(lambda number=number: len(dispatcher.stages) == number + 1)  # type: ignore[misc]
                for _ in range(20):
                    await trio.lowlevel.checkpoint()
                assert [command[:2] for command in dispatcher.started] == [b"s%d" % earlier for earlier in range(number + 1)]
                assert pool.bytes_out
                dispatcher.stages[number].step_ended()
        for _ in range(20):
            await trio.lowlevel.checkpoint()
        assert len(dispatcher.started) == 3  # What is no Produce waits for all answers.
        dispatcher.gate.set()
        assert [await reply(stream) for _ in range(4)] == [each[:8] for each in large] + [b"e"]
        assert pool.bytes_out == 0

    scenario(play)


def test_the_buffer_of_a_frame_in_its_first_stage_outlives_its_connection() -> None:
    async def play(run: Running) -> None:
        stream, dispatcher, pool = await run.connect(), run.dispatcher, run.server.pool
        await stream.send_all([frame(b"s" + bytes(SCRATCH_BYTES))])
        await eventually(lambda: bool(dispatcher.stages))
        stream.close()
        await eventually(lambda: not run.server.connections)
        assert pool.bytes_out
        dispatcher.stages[0].step_ended()
        assert pool.bytes_out == 0

    scenario(play)


def test_any_other_request_waits_for_earlier_answers() -> None:
    async def play(run: Running) -> None:
        stream = await run.connect()
        await stream.send_all([frame(b"p1"), frame(b"e2")])
        await eventually(lambda: run.dispatcher.started == [b"p1"])
        for _ in range(10):
            await trio.lowlevel.checkpoint()
        assert run.dispatcher.started == [b"p1"]
        run.dispatcher.gate.set()
        assert [await reply(stream), await reply(stream)] == [b"p1", b"e2"]

    scenario(play)


def test_a_frame_larger_than_the_scratch_buffer_arrives_whole() -> None:
    async def play(run: Running) -> None:
        stream = await run.connect()
        payload = b"e" + bytes(range(256)) * 8192

        async def send() -> None:
            await stream.send_all([frame(payload)])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            assert await reply(stream) == payload
        assert run.server.pool.bytes_out == 0

    scenario(play)


def test_a_protocol_error_closes_that_connection_with_one_log_line_and_nothing_else() -> None:
    async def play(run: Running) -> None:
        bad, good = await run.connect(), await run.connect()
        await bad.send_all([frame(b"x")])
        assert await ended(bad)
        await good.send_all([frame(b"e")])
        assert await reply(good) == b"e"
        assert [event["event"] for event in run.events] == ["connection closed: protocol error"]

    scenario(play)


def test_an_oversized_frame_is_refused_before_it_is_read() -> None:
    async def play(run: Running) -> None:
        stream = await run.connect()
        await stream.send_all([struct.pack(">i", 1001)])
        assert await ended(stream)

    scenario(play, ConnectionLimits(request_bytes_max=1000))


def test_requests_without_reply_leave_no_gap() -> None:
    async def play(run: Running) -> None:
        stream = await run.connect()
        await stream.send_all([frame(b"n1"), frame(b"e2")])
        assert await reply(stream) == b"e2"

    scenario(play)


def test_a_connection_may_be_closed_by_its_reply() -> None:
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


def test_an_idle_connection_is_closed_and_a_busy_one_is_not() -> None:
    async def play(run: Running) -> None:
        idle, busy = await run.connect(), await run.connect()
        await busy.send_all([frame(b"a")])
        assert await ended(idle)
        await eventually(lambda: run.server.idle_closed == 1)
        run.dispatcher.gate.set()
        assert await reply(busy) == b"a"

    scenario(play, ConnectionLimits(idle_seconds_max=0.2))


def test_large_frames_beyond_the_queue_bound_still_all_arrive() -> None:
    async def play(run: Running) -> None:
        streams = [await run.connect() for _ in range(4)]
        payload = b"e" + b"z" * 300_000

        async def exchange(stream: Stream) -> None:
            await stream.send_all([frame(payload)])
            assert await reply(stream) == payload

        async with trio.open_nursery() as nursery:
            for stream in streams:
                nursery.start_soon(exchange, stream)

    scenario(play, ConnectionLimits(queued_request_bytes_max=1))


def test_large_requests_whose_answers_wait_keep_nobody_elses_out() -> None:
    async def play(run: Running) -> None:
        waiting = [await run.connect() for _ in range(3)]
        for count, stream in enumerate(waiting, start=1):
            await stream.send_all([frame(b"a" + b"z" * 300_000)])
            await eventually(lambda: len(run.dispatcher.started) == count)  # noqa: B023  # Awaited within its turn.
        await eventually(lambda: run.server.pool.bytes_out == 0)
        other = await run.connect()
        await other.send_all([frame(b"e" + b"y" * 300_000)])
        assert await reply(other) == b"e" + b"y" * 300_000
        run.dispatcher.gate.set()
        for stream in waiting:
            assert await reply(stream) == b"a" + b"z" * 300_000

    scenario(play, ConnectionLimits(queued_request_bytes_max=1))


def test_a_peer_that_leaves_in_the_middle_leaves_nothing_behind() -> None:
    async def play(run: Running) -> None:
        stream = await run.connect()
        await stream.send_all([struct.pack(">i", 500_000) + b"e"])
        await eventually(lambda: run.server.pool.bytes_out > 0)
        stream.close()
        await eventually(lambda: not run.server.connections)
        assert run.server.pool.bytes_out == 0
        assert run.events == []

    scenario(play)


def test_a_connection_may_be_closed_by_a_request_without_reply() -> None:
    async def play(run: Running) -> None:
        stream = await run.connect()
        await stream.send_all([frame(b"k")])
        assert await ended(stream)

    scenario(play)


def test_a_fault_of_ours_ends_its_connection_and_not_the_node() -> None:
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


def test_a_peer_that_does_not_take_its_answers_is_idle() -> None:
    async def play(run: Running) -> None:
        stream = await run.connect()
        await stream.send_all([frame(b"l")])
        await eventually(lambda: run.server.idle_closed == 1)
        await eventually(lambda: not run.server.connections)

    scenario(play, ConnectionLimits(idle_seconds_max=0.2))


def test_accepting_goes_on_after_a_failure_with_one_log_line() -> None:
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


def test_a_cancelled_server_leaves_no_answer_unawaited() -> None:
    """Answers that waited behind the one under way when the server ends would be warned about by the interpreter."""

    async def play(run: Running) -> None:
        stream = await run.connect()
        await stream.send_all([frame(b"p1"), frame(b"p2"), frame(b"p3")])
        await eventually(lambda: len(run.dispatcher.started) == 3)

    scenario(play)
    gc.collect()


def test_what_is_not_in_memory_is_read_in_a_thread_before_it_is_sent() -> None:
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
        original = server.threads.run

        class Threads:
            async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
                ran.append(arguments[1:])
                return await original(function, *arguments)

        server.threads = Threads()  # type: ignore[assignment]  # Runs what it is given, and tells.
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
