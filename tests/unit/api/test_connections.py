"""The HTTP admin under clients that connect and do not ask."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvicorn
from kraft_http import connections
from kraft_http.connections import BoundedConnection
from uvicorn.server import ServerState

HEAD = b"GET / HTTP/1.1\r\nhost: node\r\n"
Open = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


async def app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def served(play: Callable[[Open], Awaitable[None]]) -> None:
    async def main() -> None:
        config = uvicorn.Config(app, log_config=None, lifespan="off")
        config.load()
        state = ServerState()
        server = await asyncio.get_running_loop().create_server(
            lambda: BoundedConnection(config, state, {}), "127.0.0.1", 0
        )
        port = server.sockets[0].getsockname()[1]
        writers: list[asyncio.StreamWriter] = []

        async def open_one() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writers.append(writer)
            return reader, writer

        try:
            async with asyncio.timeout(60):
                await play(open_one)
        finally:
            for writer in writers:
                writer.close()
            server.close()
            while state.connections:  # noqa: ASYNC110  # Uvicorn tells nobody when one has gone.
                await asyncio.sleep(0)

    asyncio.run(main())


async def ended(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read(1) == b""
    except ConnectionError:
        return True


def test_one_connection_too_many_is_closed_and_the_others_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 2)

    async def play(open_one: Open) -> None:
        for _ in range(2):
            reader, writer = await open_one()
            writer.write(HEAD + b"\r\n")
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        reader, _ = await open_one()
        assert await ended(reader)

    served(play)


@pytest.mark.parametrize("before", [b"", HEAD])
def test_one_that_never_asks_or_never_ends_its_question_is_closed(
    monkeypatch: pytest.MonkeyPatch, before: bytes
) -> None:
    monkeypatch.setattr(connections, "ASKING_SECONDS_MAX", 0.05)

    async def play(open_one: Open) -> None:
        reader, writer = await open_one()
        writer.write(before)
        assert await ended(reader)

    served(play)


def test_one_that_begins_a_second_question_and_never_ends_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "ASKING_SECONDS_MAX", 0.05)

    async def play(open_one: Open) -> None:
        reader, writer = await open_one()
        writer.write(HEAD + b"\r\n" + HEAD)
        assert (await reader.read()).endswith(b"ok")

    served(play)
