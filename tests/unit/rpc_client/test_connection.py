"""One connection used by many tasks: who reads, and who reads on; answers of any size, however the stream cuts them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.framing import SIZE_BYTES, encode_response
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.api_versions_response import ApiVersionsResponse
from kraft.protocol.messages.fetch_request import FetchRequest
from kraft.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kraft.rpc_client.connection import ClientConnection, Disconnected
from kraft.world.ports import Buffer, Login
from kraft.world.simulated import SimulatedWorld, Universe

FETCH = 12


class ScriptedStream:
    is_encrypted = False
    """Keeps what was sent; gives out what the test says."""

    peer, local = "server", ("client", 1)

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.incoming = b""
        self.news = trio.Event()

    async def send_all(self, buffers: Sequence[Buffer]) -> None:
        self.asked.append(struct.unpack_from(">i", bytes(buffers[0]), SIZE_BYTES + 4)[0])
        await trio.lowlevel.checkpoint()

    def answer(self, correlation_id: int) -> None:
        self.comes(encode_response(ApiVersionsRequest.API_KEY, 3, correlation_id, ApiVersionsResponse()))

    def comes(self, data: bytes) -> None:
        self.incoming += data
        self.news.set()

    def receive_nowait(self, buffer: memoryview) -> int | None:
        count = min(len(self.incoming), len(buffer))
        buffer[:count], self.incoming = self.incoming[:count], self.incoming[count:]
        return count or None

    async def wait_readable(self, expected: int = 1) -> None:
        await self.news.wait()
        self.news = trio.Event()

    def close(self) -> None: ...


def test_a_reader_cancelled_at_the_hand_over_passes_reading_to_the_next_waiter() -> None:
    async def play(universe: Universe) -> None:
        for _ in range(20):  # Both orders of the two tasks that become runnable at once.
            stream = ScriptedStream()
            connection = ClientConnection(universe.world_for("client"), stream, "test")  # type: ignore[arg-type]
            answered: list[str] = []
            impatient = trio.CancelScope()

            async def call(
                name: str, scope: Any, connection: ClientConnection = connection, answered: list[str] = answered
            ) -> None:
                with scope:
                    await connection.call(ApiVersionsRequest(), version=3, timeout=1000.0)
                    answered.append(name)

            async with trio.open_nursery() as nursery:
                for name, scope in (
                    ("reader", trio.CancelScope()),
                    ("impatient", impatient),
                    ("patient", trio.CancelScope()),
                ):
                    nursery.start_soon(call, name, scope)
                    await universe.sleep(0.01)
                first, _, last = stream.asked
                stream.answer(first)
                impatient.cancel()
                await universe.sleep(0.01)
                stream.answer(last)
                await universe.sleep(0.01)
                assert answered == ["reader", "patient"]
                nursery.cancel_scope.cancel()

    Universe(1).run(play, seconds_max=100)


def test_a_response_can_be_awaited_repeatedly_and_only_waiting_callers_read() -> None:
    async def play(universe: Universe) -> None:
        stream = ScriptedStream()
        connection = ClientConnection(universe.world_for("client"), stream, "test")  # type: ignore[arg-type]
        connection.versions = {ApiVersionsRequest.API_KEY: (3, 3)}
        pending = await connection.begin(ApiVersionsRequest())
        with universe.world_for("client").clock.move_on_after(0.01):
            await connection.finish(pending)
        answered: list[str] = []

        async def call(name: str) -> None:
            await connection.call(ApiVersionsRequest(), version=3, timeout=1000.0)
            answered.append(name)

        async with trio.open_nursery() as nursery:
            for name in ("reader", "other"):
                nursery.start_soon(call, name)
                await universe.sleep(0.01)
            for correlation_id in stream.asked[1:]:
                stream.answer(correlation_id)
                await universe.sleep(0.01)
            assert answered == ["reader", "other"]
            nursery.cancel_scope.cancel()
        stream.answer(stream.asked[0])
        assert isinstance(await connection.finish(pending), ApiVersionsResponse)

    Universe(1).run(play, seconds_max=100)


def fetched(correlation_id: int, records: bytes) -> bytes:
    """An answer to Fetch with these records in it."""
    data = PartitionData(partition_index=0, records=records)
    return encode_response(
        ApiKey.FETCH, FETCH, correlation_id, FetchResponse(responses=[FetchableTopicResponse(partitions=[data])])
    )


def exchanging(sizes: list[int], cuts: list[int], keep: bool) -> list[bytearray]:
    """Ask for records of each size in turn, answered in pieces of `cuts` bytes; the buffers that they came in. With
    `keep` nothing is recycled."""
    buffers: list[bytearray] = []

    async def play(universe: Universe) -> None:
        stream = ScriptedStream()
        connection = ClientConnection(universe.world_for("client"), stream, "test")  # type: ignore[arg-type]
        kept = []
        for number, size in enumerate(sizes):
            wanted = bytes((number + index) % 251 for index in range(size))

            async def answer(wanted: bytes = wanted) -> None:
                await universe.sleep(0.01)
                data, position, turn = fetched(stream.asked[-1], wanted), 0, 0
                while position < len(data):
                    stream.comes(data[position : position + cuts[turn % len(cuts)]])
                    position, turn = position + cuts[turn % len(cuts)], turn + 1
                    await universe.sleep(0.01)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(answer)
                response, frame = await connection.exchange(FetchRequest(), version=FETCH, timeout=1000.0)
            records = response.responses[0].partitions[0].records
            assert records == wanted
            kept.append((records, wanted))
            if type(frame.obj) is bytearray:
                buffers.append(frame.obj)
            if not keep:
                connection.recycle(frame)
        if keep:
            assert all(records == wanted for records, wanted in kept)

    Universe(1).run(play, seconds_max=10_000)
    return buffers


@given(
    sizes=st.lists(st.integers(0, 300_000), min_size=1, max_size=4),
    cuts=st.lists(st.integers(1, 120_000), min_size=1, max_size=6).filter(lambda cuts: sum(cuts) > 20_000),
    keep=st.booleans(),
)
@settings(max_examples=25)
def test_responses_are_the_same_however_the_stream_is_split(sizes: list[int], cuts: list[int], keep: bool) -> None:
    exchanging(sizes, cuts, keep)


def test_a_large_response_reuses_the_released_buffer() -> None:
    first, second, smaller, tiny = exchanging([300_000, 299_000, 100_000, 70_000], [65_536], keep=False)
    assert first is second is smaller
    assert tiny is not first  # It would keep the next large one from it.


def test_the_buffer_of_a_large_response_still_in_use_is_not_reused() -> None:
    first, second = exchanging([300_000, 299_000], [65_536], keep=True)
    assert first is not second


@pytest.mark.parametrize(
    ("data", "complaint"),
    [(b"HTTP/1.1 400 Bad Request", "frame size 1213486160"), (b"\0\0\0\2ab", "an answer of 2 bytes"), (b"", "closed")],
)
def test_a_malformed_response_closes_the_connection(data: bytes, complaint: str) -> None:
    class Ending(ScriptedStream):
        def receive_nowait(self, buffer: memoryview) -> int | None:
            return super().receive_nowait(buffer) or 0

    async def play(universe: Universe) -> None:
        stream = Ending()
        stream.comes(data)
        connection = ClientConnection(universe.world_for("client"), stream, "test")  # type: ignore[arg-type]
        with pytest.raises(Disconnected, match=complaint):
            await connection.call(ApiVersionsRequest(), version=3)
        assert not connection.is_open

    Universe(1).run(play, seconds_max=100)


def test_a_login_cancelled_midway_closes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def half(*_: Any) -> int:
        await trio.sleep_forever()
        raise AssertionError

    async def play(universe: Universe) -> None:
        monkeypatch.setattr("kraft.rpc_client.connection.log_in", half)
        monkeypatch.setattr(SimulatedWorld, "login", Login(mechanism="PLAIN", username="bob", password="secret"))
        world = universe.world_for("client")
        connection = ClientConnection(world, ScriptedStream(), "test")  # type: ignore[arg-type]
        connection._session_ends = 0.0
        with world.clock.move_on_after(0.01):
            await connection.call(FetchRequest(), version=FETCH, timeout=1000.0)
        assert not connection.is_open, "the node takes nothing but the rest of the login"

    Universe(1).run(play, seconds_max=100)
