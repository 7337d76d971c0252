"""kraft/network/connection.py: which request may start while others wait, and in what order the answers leave."""

from __future__ import annotations

import gc

import pytest
import trio

from kraft.network.reply import SCRATCH_BYTES
from kraft.world.real.network import RealStream
from tests.unit.network.scripted import Running, eventually, frame, reply, scenario


def test_pipelined_requests_are_answered_in_order() -> None:
    async def play(run: Running) -> None:
        stream = await run.connect()
        await stream.send_all([b"".join(frame(b"e%d" % number) for number in range(50))])
        assert [await reply(stream) for _ in range(50)] == [b"e%d" % number for number in range(50)]

    scenario(play)


def test_a_produce_starts_behind_a_parked_produce_and_responses_keep_their_order() -> None:
    async def play(run: Running) -> None:
        stream = await run.connect()
        await stream.send_all([frame(b"p1"), frame(b"p2!"), frame(b"p3")])
        await eventually(lambda: run.dispatcher.started == [b"p1", b"p2!", b"p3"])
        run.dispatcher.gate.set()
        assert [await reply(stream) for _ in range(3)] == [b"p1", b"p2!", b"p3"]

    scenario(play)


def test_a_frame_lives_until_its_first_stage_ends_and_the_next_request_waits_for_that() -> None:
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
                assert [command[:2] for command in dispatcher.started] == [
                    b"s%d" % earlier for earlier in range(number + 1)
                ]
                assert pool.bytes_out
                dispatcher.stages[number].step_ended()
        for _ in range(20):
            await trio.lowlevel.checkpoint()
        assert len(dispatcher.started) == 3  # What is no Produce waits for all answers.
        dispatcher.gate.set()
        assert [await reply(stream) for _ in range(4)] == [each[:8] for each in large] + [b"e"]
        assert pool.bytes_out == 0

    scenario(play)


def test_requests_other_than_produce_wait_for_earlier_responses() -> None:
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


def test_waiting_for_a_slow_client_needs_no_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int | None] = []
    receive_nowait = RealStream.receive_nowait

    def look(stream: RealStream, buffer: memoryview) -> int | None:
        count = receive_nowait(stream, buffer)
        if len(buffer) == SCRATCH_BYTES:
            looks.append(count)
        return count

    async def play(run: Running) -> None:
        stream, clock = await run.connect(), run.world.clock
        request = frame(b"e1")
        await eventually(lambda: any(each.parked for each in run.server.connections.values()))
        looks.clear()
        for number in range(3):
            began = clock.now()
            await eventually(lambda began=began: clock.now() - began > 0.001)  # type: ignore[misc]
            await stream.send_all([request])
            assert await reply(stream) == b"e1"
            await eventually(lambda: any(each.parked for each in run.server.connections.values()))
            assert looks == [len(request)] * (number + 1)

    monkeypatch.setattr(RealStream, "receive_nowait", look)
    scenario(play)


def test_requests_without_a_response_leave_no_gap() -> None:
    async def play(run: Running) -> None:
        stream = await run.connect()
        await stream.send_all([frame(b"n1"), frame(b"e2")])
        assert await reply(stream) == b"e2"

    scenario(play)


def test_a_cancelled_server_leaves_no_response_unawaited() -> None:
    """Answers that waited behind the one under way when the server ends would be warned about by the interpreter."""

    async def play(run: Running) -> None:
        stream = await run.connect()
        await stream.send_all([frame(b"p1"), frame(b"p2"), frame(b"p3")])
        await eventually(lambda: len(run.dispatcher.started) == 3)

    scenario(play)
    gc.collect()
