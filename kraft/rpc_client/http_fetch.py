"""Fetch one document over HTTP from another service. Size and time are limited. Redirects are not followed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import h11

from kraft.world.ports import Stream, Tls, World

FETCH_SECONDS_MAX: Final = 10.0
DOCUMENT_BYTES_MAX: Final = 1 << 20
_CHUNK: Final = 16_384
_OK: Final = 200


class FetchFailed(Exception):
    """Raised when the document could not be fetched. The message gives the reason."""


class HttpAnswer(NamedTuple):
    status: int
    body: bytes


class HttpQuestion(NamedTuple):
    """An HTTP request. `headers` are added to Host, Accept and Connection."""

    method: str = "GET"
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b""


async def fetch_document(world: World, url: str, tls: Tls) -> bytes:
    """GET a URL and return the body of a 200 response. `tls` applies to https. Raises FetchFailed."""
    answer = await ask_service(world, url, tls, HttpQuestion())
    if answer.status != _OK:
        raise FetchFailed(f"the answer has the status {answer.status}")
    return answer.body


async def ask_service(
    world: World,
    url: str,
    tls: Tls,
    question: HttpQuestion,
    *,
    connect_seconds: float = FETCH_SECONDS_MAX,
    answer_seconds: float = FETCH_SECONDS_MAX,
) -> HttpAnswer:
    """Send an HTTP request and return the response, whatever its status. `tls` applies to https. Raises FetchFailed."""
    parts = urlsplit(url)
    is_encrypted = parts.scheme == "https"
    host, port = parts.hostname or "", parts.port or (443 if is_encrypted else 80)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    stream: Stream | None = None
    try:
        with world.clock.move_on_after(connect_seconds):
            stream = await world.network.connect(host, port, tls if is_encrypted else None)
        if stream is None:
            raise FetchFailed(f"no connection within {connect_seconds:g} seconds")
        try:
            with world.clock.move_on_after(answer_seconds):
                return await _exchange(stream, target, parts.netloc.rpartition("@")[2], question)
        finally:
            stream.close()
    except (OSError, ValueError, h11.ProtocolError) as problem:
        raise FetchFailed(str(problem) or type(problem).__name__) from problem
    raise FetchFailed(f"no answer within {answer_seconds:g} seconds")


async def _exchange(stream: Stream, target: str, host: str, question: HttpQuestion) -> HttpAnswer:
    connection = h11.Connection(h11.CLIENT)
    headers = [("Host", host), ("Accept", "application/json"), ("Connection", "close"), *question.headers]
    if question.body:
        headers.append(("Content-Length", str(len(question.body))))
    request = connection.send(h11.Request(method=question.method, target=target, headers=headers))
    content = connection.send(h11.Data(data=question.body)) if question.body else b""
    end = connection.send(h11.EndOfMessage())
    await stream.send_all([request or b"", content or b"", end or b""])
    status, body, buffer = 0, bytearray(), bytearray(_CHUNK)
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            received = stream.receive_nowait(memoryview(buffer))
            if received is None:
                await stream.wait_readable()
            else:
                connection.receive_data(bytes(buffer[:received]))
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > DOCUMENT_BYTES_MAX:
                raise FetchFailed(f"the document has more than {DOCUMENT_BYTES_MAX} bytes")
        elif isinstance(event, h11.EndOfMessage):
            return HttpAnswer(status, bytes(body))
        elif isinstance(event, h11.ConnectionClosed):
            raise FetchFailed("the connection was closed before an answer")
