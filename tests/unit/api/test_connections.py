"""The HTTP admin under clients that connect and do not ask."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kraft_http.requests import connections

from tests.unit.api.connected import HEAD, Open, app, served

POST = b"POST / HTTP/1.1\r\nhost: node\r\ncontent-length: 200000\r\n\r\n"
STREAM = b"POST /v3/clusters/c/topics/t/records HTTP/1.1\r\nhost: node\r\ncontent-length: 2000\r\n\r\n"


async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"\r\n")
    assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 OK\r\n")


async def ended(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read(1) == b""
    except ConnectionError:
        return True


def test_a_connection_over_the_limit_replaces_the_longest_idle_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 2)

    async def play(open_one: Open) -> None:
        first, _ = await open_one()
        second, writer = await open_one()
        await answered(second, writer)
        third, writer = await open_one()
        await answered(third, writer)
        assert await ended(first)
        writer.write(HEAD + b"\r\n")
        assert await third.readline() == b"HTTP/1.1 200 OK\r\n"

    served(play)


@pytest.mark.parametrize("before", [b"", HEAD, POST, STREAM])
def test_300_silent_connections_block_no_other_client(before: bytes) -> None:
    async def play(open_one: Open) -> None:
        for _ in range(300):
            _, writer = await open_one()
            writer.write(before)
        reader, writer = await open_one()
        await answered(reader, writer)

    served(play)


def test_one_source_address_gets_no_more_than_its_share_of_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_PER_SOURCE_MAX", 1)

    async def play(open_one: Open) -> None:
        other, writer = await open_one("127.0.0.2")
        await answered(other, writer)
        mine, writer = await open_one()
        await answered(mine, writer)
        again, writer = await open_one()
        await answered(again, writer)
        assert await ended(mine)
        assert not other.at_eof()

    served(play)


def test_a_new_connection_is_closed_while_all_others_are_being_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 1)
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        asked.set()
        await go_on.wait()
        await app(scope, receive, send)

    async def play(open_one: Open) -> None:
        reader, writer = await open_one()
        writer.write(HEAD + b"\r\n")
        await asked.wait()
        refused, _ = await open_one()
        assert await ended(refused)
        go_on.set()
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"

    served(play, slow)


@pytest.mark.parametrize("before", [b"", HEAD])
def test_a_connection_that_sends_no_complete_request_is_closed(monkeypatch: pytest.MonkeyPatch, before: bytes) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS_MAX", 0.05)

    async def play(open_one: Open) -> None:
        reader, writer = await open_one()
        writer.write(before)
        assert await ended(reader)

    served(play)


def test_a_connection_with_an_incomplete_second_request_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS_MAX", 0.05)

    async def play(open_one: Open) -> None:
        reader, writer = await open_one()
        writer.write(HEAD + b"\r\n" + HEAD)
        assert (await reader.readuntil(b"ok")).endswith(b"ok")
        assert await ended(reader)

    served(play)


@pytest.mark.parametrize(("head", "bound"), [(POST, "BODY_SECONDS_MAX"), (STREAM, "SILENCE_SECONDS_MAX")])
def test_a_stalled_request_body_closes_its_connection(monkeypatch: pytest.MonkeyPatch, head: bytes, bound: str) -> None:
    monkeypatch.setattr(connections, bound, 0.05)

    async def play(open_one: Open) -> None:
        reader, writer = await open_one()
        writer.write(head + b"x")
        assert await ended(reader)

    served(play)


def test_a_body_that_the_server_stops_reading_is_not_blamed_on_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading is paused at 64 KiB; nothing tells the connection when it goes on."""
    monkeypatch.setattr(connections, "BODY_SECONDS_MAX", 0.05)
    monkeypatch.setattr(connections, "LOOK_SECONDS", 0.01)

    async def lazy(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.3)
        await receive()
        await asyncio.Event().wait()

    async def play(open_one: Open) -> None:
        reader, writer = await open_one()
        start = asyncio.get_running_loop().time()
        writer.write(POST + bytes(100_000))
        assert await ended(reader)
        assert asyncio.get_running_loop().time() - start > 0.25

    served(play, lazy)


def test_a_response_that_the_client_does_not_read_closes_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "TAKING_SECONDS_MAX", 0.05)
    over = asyncio.Event()

    async def large(scope: Any, receive: Any, send: Any) -> None:
        """More than buffers hold."""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(64):
            await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})
        over.set()
        await asyncio.Event().wait()

    async def play(open_one: Open) -> None:
        reader, writer = await open_one()
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # A transport that reads.
        writer.write(HEAD + b"\r\n")
        await over.wait()
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await reader.readexactly(64 << 20)

    served(play, large)
