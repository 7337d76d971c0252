"""The framing of HTTP requests on the wire: a request whose end two readers may see differently is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.connected import HEAD, Open, app, served

POST = b"POST / HTTP/1.1\r\nhost: node\r\n"
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"
NEXT = b"GET /smuggled HTTP/1.1\r\nhost: node\r\n\r\n"
DOUBTFUL = {
    "a length and a coding": POST + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "a coding and a length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "a coding in HTTP/1.0": b"POST / HTTP/1.0\r\nhost: node\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "a list of lengths": POST + b"content-length: 2,2\r\n\r\nxx",
    "a list of spaced lengths": POST + b"content-length: 2 , 2\r\n\r\nxx",
    "the same length twice": POST + b"content-length: 2\r\ncontent-length: 2\r\n\r\nxx",
    "two lengths": POST + b"content-length: 2\r\ncontent-length: 3\r\n\r\nxx",
    "two codings": POST + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "another coding": POST + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a folded coding": POST + b"transfer-encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "a space before the colon": POST + b"content-length : 2\r\n\r\nxx",
    "a length with a sign": POST + b"content-length: +2\r\n\r\nxx",
    "bare LF in the head": b"GET / HTTP/1.1\nhost: node\n\n",
    "one bare LF in the head": b"GET / HTTP/1.1\r\nhost: node\nx: y\r\n\r\n",
    "a bare LF at the end of the head": b"GET / HTTP/1.1\r\nhost: node\r\n\n",
    "a bare LF before the head": b"\n" + HEAD + b"\r\n",
    "bare CR in the head": b"GET / HTTP/1.1\r\nhost: node\rx: y\r\n\r\n",
    "bare LF behind a chunk's size": CHUNKED + b"2\nxx\r\n0\r\n\r\n",
    "bare LF in a chunk's extension": CHUNKED + b"2;\nxx\r\n2\r\nxx\r\n0\r\n\r\n",
    "bare LF in the trailers": CHUNKED + b"0\r\nx: y\n\n",
}


async def slow_to_answer(scope: Any, receive: Any, send: Any) -> None:
    """Answers when the whole body is there, so that nothing is answered before it is judged."""
    while (message := await receive()).get("more_body"):
        pass
    if message["type"] == "http.request":
        await app({"method": "GET"}, receive, send)


@pytest.mark.parametrize("doubt", DOUBTFUL)
def test_an_ambiguous_http_request_is_refused_and_its_connection_closed(doubt: str) -> None:
    async def play(open_one: Open) -> None:
        reader, writer = await open_one()
        writer.write(DOUBTFUL[doubt] + NEXT)
        answers = await reader.read()
        assert answers.startswith(b"HTTP/1.1 400 ")
        assert answers.count(b"HTTP/1.1 ") == 1

    served(play, slow_to_answer)


def test_an_ambiguous_request_behind_a_valid_one_is_refused_too() -> None:
    async def play(open_one: Open) -> None:
        reader, writer = await open_one()
        writer.write(HEAD + b"\r\n" + DOUBTFUL["a length and a coding"] + NEXT)
        answers = await reader.read()
        assert answers.startswith(b"HTTP/1.1 200 ")
        assert b"HTTP/1.1 400 " in answers
        assert answers.count(b"HTTP/1.1 ") == 2

    served(play, slow_to_answer)


def test_ambiguous_trailers_behind_a_response_close_the_connection() -> None:
    async def eager(scope: Any, receive: Any, send: Any) -> None:
        await app({"method": "GET"}, receive, send)
        while (await receive()).get("more_body"):
            pass

    async def play(open_one: Open) -> None:
        reader, writer = await open_one()
        writer.write(CHUNKED)
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 ")
        writer.write(b"0\r\nx: y\n\n" + NEXT)
        assert await reader.read() == b""

    served(play, eager)


@pytest.mark.parametrize(
    "good",
    [
        HEAD + b"\r\n",
        POST + b"content-length: 2\r\n\r\n\n\n",
        POST + b"content-length: 2\r\nx: 1,2\r\n\r\nxx",
        CHUNKED + b"2\r\n\n\n\r\n0\r\n\r\n",
        CHUNKED + b"0\r\nx: y\r\n\r\n",
    ],
)
@pytest.mark.parametrize("piece", [1, 1000])
def test_a_valid_request_is_served_however_it_is_split(good: bytes, piece: int) -> None:
    async def play(open_one: Open) -> None:
        reader, writer = await open_one()
        for _ in range(2):
            for start in range(0, len(good), piece):
                writer.write(good[start : start + piece])
                await writer.drain()
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 ")

    served(play, slow_to_answer)
