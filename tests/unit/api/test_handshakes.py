"""The HTTP admin's TLS: what is agreed on before HTTP begins, under clients that do not agree."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvicorn
from kraft_http.requests import connections, handshakes
from kraft_http.requests.connections import BoundedConnection
from kraft_http.requests.handshakes import Handshakes
from uvicorn.server import ServerState

from kraft.world.ports import Tls
from kraft.world.real.tls import client_context, server_context
from tests.certificates import certificates

REQUEST = b"GET / HTTP/1.1\r\nhost: node\r\nconnection: close\r\n\r\n"
Play = Callable[[int], Awaitable[None]]


async def app(scope: Any, receive: Any, send: Any) -> None:
    body = scope["scheme"].encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def served(
    play: Play, shown: Callable[[], Tls] = lambda: certificates().server, application: Any = app
) -> list[tuple[str, str]]:
    """Return what was reported: address and reason."""
    told: list[tuple[str, str]] = []

    async def main() -> None:
        config = uvicorn.Config(application, log_config=None, lifespan="off")
        config.load()
        state = ServerState()
        made = Handshakes(BoundedConnection, lambda: server_context(shown()), lambda *failed: told.append(failed))
        server = await asyncio.get_running_loop().create_server(
            lambda: made.connection(config=config, server_state=state, app_state={}), "127.0.0.1", 0
        )
        try:
            async with asyncio.timeout(60):
                await play(server.sockets[0].getsockname()[1])
        finally:
            server.close()
            while state.connections:  # noqa: ASYNC110  # Uvicorn tells nobody when one has gone.
                await asyncio.sleep(0)

    asyncio.run(main())
    return told


async def asked(port: int, tls: Tls) -> bytes:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=client_context(tls), server_hostname="localhost"
    )
    writer.write(REQUEST)
    answer = await reader.read()
    writer.close()
    return answer


def test_http_starts_after_the_tls_handshake_and_knows_its_scheme() -> None:
    async def play(port: int) -> None:
        assert (await asked(port, certificates().anybody)).endswith(b"\r\nhttps\r\n0\r\n\r\n")

    served(play)


def test_a_request_sent_with_the_end_of_the_handshake_is_answered() -> None:
    async def play(port: int) -> None:
        assert (await asyncio.to_thread(_ask_at_once, port)).startswith(b"HTTP/1.1 200 ")

    served(play)


def _ask_at_once(port: int) -> bytes:
    """The client's last message and its request leave in one segment."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = client_context(certificates().anybody).wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                connection.sendall(outgoing.read())
                incoming.write(connection.recv(65536))
        tls.write(REQUEST)
        connection.sendall(outgoing.read())
        while True:
            try:
                return tls.read(65536)
            except ssl.SSLWantReadError:
                incoming.write(connection.recv(65536))


def test_plain_http_on_a_tls_port_is_not_answered() -> None:
    async def play(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        assert b"HTTP" not in await reader.read()
        writer.close()
        assert (await asked(port, certificates().anybody)).startswith(b"HTTP/1.1 200 ")

    [(host, reason)] = served(play)
    assert host == "127.0.0.1"
    assert "HTTP_REQUEST" in reason


def test_an_unfinished_handshake_is_dropped_for_others_and_blocks_no_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "HANDSHAKES_MAX", 2)

    async def play(port: int) -> None:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        assert (await asked(port, certificates().anybody)).startswith(b"HTTP/1.1 200 ")
        for reader, _ in silent[:18]:
            assert await _ended(reader)
        for _, writer in silent:
            writer.close()

    served(play)


def test_a_client_that_opens_endless_handshakes_locks_out_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "HANDSHAKES_MAX", 2)

    async def play(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
        flood = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        for each, _ in flood[:19]:
            assert await _ended(each)
        await writer.start_tls(client_context(certificates().anybody), server_hostname="localhost")
        writer.write(REQUEST)
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        for _, each in (*flood, (reader, writer)):
            each.close()

    served(play)


async def _ended(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read(1) == b""
    except ConnectionError:
        return True


def test_a_handshake_has_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "HANDSHAKE_SECONDS_MAX", 0.01)

    async def play(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await _ended(reader)
        writer.close()

    served(play)


def test_each_connection_uses_the_newest_tls_keys() -> None:
    key, chain = certificates().renewed()
    shown = [certificates().server]

    async def play(port: int) -> None:
        before = await _certificate(port)
        shown[0] = Tls(certificate_chain=chain, private_key=key)
        assert ssl.PEM_cert_to_DER_cert(chain) == await _certificate(port) != before

    served(play, lambda: shown[0])


async def _certificate(port: int) -> bytes | None:
    _, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=client_context(certificates().anybody), server_hostname="localhost"
    )
    shown: bytes | None = writer.get_extra_info("ssl_object").getpeercert(True)
    writer.close()
    return shown


def test_a_response_that_the_client_does_not_read_closes_its_tls_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits to be encrypted, and what is, counts as the connection's."""
    monkeypatch.setattr(connections, "TAKING_SECONDS_MAX", 0.05)
    sent = 0
    over = asyncio.Event()

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await receive()
        gone = asyncio.ensure_future(receive())
        while not gone.done():
            await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})
            sent += 1
        over.set()

    async def play(port: int) -> None:
        _, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=client_context(certificates().anybody), server_hostname="localhost"
        )
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # A transport that reads.
        writer.write(b"GET / HTTP/1.1\r\nhost: node\r\n\r\n")
        await over.wait()
        assert sent < 64
        writer.transport.abort()

    served(play, application=endless)
