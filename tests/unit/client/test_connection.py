"""One connection used by many tasks: who reads, and who reads on."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import trio

from kraft.client.connection import ClientConnection
from kraft.protocol.framing import SIZE_BYTES, encode_response
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.api_versions_response import ApiVersionsResponse
from kraft.world.ports import Buffer
from kraft.world.simulated import Universe


class ScriptedStream:
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
        self.incoming += encode_response(ApiVersionsRequest.API_KEY, 3, correlation_id, ApiVersionsResponse())
        self.news.set()

    def receive_nowait(self, buffer: memoryview) -> int | None:
        count = len(self.incoming)
        buffer[:count], self.incoming = self.incoming, b""
        return count or None

    async def wait_readable(self) -> None:
        await self.news.wait()
        self.news = trio.Event()

    def close(self) -> None: ...


def test_whoever_gives_up_as_the_reading_is_handed_to_him_hands_it_on() -> None:
    async def play(universe: Universe) -> None:
        for _ in range(20):  # Both orders of the two tasks that become runnable at once.
            stream = ScriptedStream()
            connection = ClientConnection(universe.world_for("client"), stream, "test")  # type: ignore[arg-type]
            answered: list[str] = []
            impatient = trio.CancelScope()

            async def call(name: str, scope: Any, connection: ClientConnection = connection, answered: list[str] = answered) -> None:
                with scope:
                    await connection.call(ApiVersionsRequest(), version=3, timeout=1000.0)
                    answered.append(name)

            async with trio.open_nursery() as nursery:
                for name, scope in (("reader", trio.CancelScope()), ("impatient", impatient), ("patient", trio.CancelScope())):
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
