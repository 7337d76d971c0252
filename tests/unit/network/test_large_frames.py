"""kraft/network/connection.py: frames in buffers of the pool, how many there may be, and that none is left behind."""

from __future__ import annotations

import struct

import trio

from kraft.network.connection import Connection
from kraft.network.connection_protocol import RECEIVED_AT_ONCE_BYTES
from kraft.network.limits import ConnectionLimits
from kraft.network.reply import NO_REPLY, SCRATCH_BYTES, Peer, Reply
from kraft.world.ports import Stream
from tests.unit.network.scripted import Running, ScriptedDispatcher, ended, eventually, frame, reply, scenario


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


def test_a_continuously_sending_peer_yields_to_others() -> None:
    """A hundred megabytes that are always there already: no step of the loop takes more than a piece of them."""
    size = 100 << 20

    class Flood:
        """A stream with a large frame in it, all of which has come."""

        is_encrypted, peer, local = False, "127.0.0.1", ("127.0.0.1", 9092)

        def __init__(self) -> None:
            self.taken = 0

        def receive_nowait(self, buffer: memoryview) -> int:
            count = min(len(buffer), 4 + size - self.taken)
            if self.taken == 0:
                buffer[:5] = struct.pack(">i", size) + b"n"
            self.taken += count
            return count

        def close(self) -> None: ...

    async def play(run: Running) -> None:
        stream, steps = Flood(), [0]

        async def count_steps() -> None:
            before = 0
            while True:
                steps.append(stream.taken - before)
                before = stream.taken
                await trio.lowlevel.checkpoint()

        class Recorder(ScriptedDispatcher):
            def dispatch(self, peer: Peer, data: memoryview) -> Reply:
                self.started.append(bytes(data[:1]))
                return NO_REPLY

        run.server.dispatcher = recorder = Recorder()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count_steps)
            await eventually(lambda: len(steps) > 1)
            await Connection(run.server, stream, "User:ANONYMOUS").serve()  # type: ignore[arg-type]  # What of it is used.
            nursery.cancel_scope.cancel()
        assert recorder.started == [b"n"]
        assert stream.taken == 4 + size
        assert max(steps) <= 4 * RECEIVED_AT_ONCE_BYTES  # Two turns, each of up to two receives.
        assert run.server.pool.bytes_out == 0

    scenario(play)


def test_an_oversized_frame_is_refused_before_it_is_read() -> None:
    async def play(run: Running) -> None:
        stream = await run.connect()
        await stream.send_all([struct.pack(">i", 1001)])
        assert await ended(stream)

    scenario(play, ConnectionLimits(request_bytes_max=1000))


def test_large_frames_beyond_the_queue_limit_all_arrive() -> None:
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


def test_stalled_frames_release_their_memory_to_waiting_frames() -> None:
    async def play(run: Running) -> None:
        stopped = [await run.connect() for _ in range(3)]
        for stream in stopped:  # Announced, begun, and nothing more comes.
            await stream.send_all([frame(bytes(50_000_000))[: 1 << 20]])
        await eventually(lambda: run.server.pool.bytes_out >= 3 << 20)
        other = await run.connect()
        payload = b"e" + b"z" * 3_000_000
        await other.send_all([frame(payload)])
        assert await reply(other) == payload
        closed = [event for event in run.events if "gives way" in event["event"]]
        assert 1 <= len(closed) <= 3

    scenario(play, ConnectionLimits(queued_request_bytes_max=1 << 20, frame_progress_seconds=0.05))


def test_a_frame_that_makes_progress_keeps_its_memory() -> None:
    async def play(run: Running) -> None:
        moving, other = await run.connect(), await run.connect()
        whole = frame(b"e" + bytes(4 << 20))
        payload = b"e" + b"z" * 1_000_000

        async def trickle() -> None:
            for start in range(0, len(whole), 1 << 18):
                await moving.send_all([whole[start : start + (1 << 18)]])
                await run.world.clock.sleep(0.02)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trickle)
            await eventually(lambda: run.server.pool.bytes_out > 0)
            await other.send_all([frame(payload)])
            assert await reply(other) == payload
            assert await reply(moving) == whole[4:]
        assert not run.events

    scenario(play, ConnectionLimits(queued_request_bytes_max=1, frame_progress_seconds=0.1))


def test_large_requests_with_waiting_responses_do_not_block_other_clients() -> None:
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


def test_a_peer_that_disconnects_midway_leaves_no_memory_in_use() -> None:
    async def play(run: Running) -> None:
        stream = await run.connect()
        await stream.send_all([struct.pack(">i", 500_000) + b"e"])
        await eventually(lambda: run.server.pool.bytes_out > 0)
        stream.close()
        await eventually(lambda: not run.server.connections)
        assert run.server.pool.bytes_out == 0
        assert run.events == []

    scenario(play)


def test_the_buffer_of_a_frame_being_handled_outlives_its_connection() -> None:
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
