"""Connections to the HTTP edge."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from kraft_http.requests.connections import BoundedConnection
from uvicorn.server import ServerState

HEAD = b"GET / HTTP/1.1\r\nhost: node\r\n"


Open = Callable[..., Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


async def app(scope: Any, receive: Any, send: Any) -> None:
    while scope["method"] == "POST" and (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def served(play: Callable[[Open], Awaitable[None]], application: Any = app) -> None:
    async def main() -> None:
        config = uvicorn.Config(application, log_config=None, lifespan="off")
        config.load()
        state = ServerState()
        server = await asyncio.get_running_loop().create_server(
            lambda: BoundedConnection(config, state, {}), "127.0.0.1", 0
        )
        port = server.sockets[0].getsockname()[1]
        writers: list[asyncio.StreamWriter] = []

        async def open_one(source: str = "127.0.0.1") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
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
