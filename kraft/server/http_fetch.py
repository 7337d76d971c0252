"""One document over HTTP, for what a node reads of other services. Bounded in size and time; redirects are not
followed."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

import h11

from kraft.world.ports import Stream, Tls, World

FETCH_SECONDS_MAX: Final = 10.0
DOCUMENT_BYTES_MAX: Final = 1 << 20
_CHUNK: Final = 16_384


class FetchFailed(Exception):
    """The document could not be had. The sentence tells why."""


async def fetch_document(world: World, url: str, tls: Tls) -> bytes:
    """The body of an answer 200 to a GET; `tls` counts for https. Raises FetchFailed."""
    parts = urlsplit(url)
    is_encrypted = parts.scheme == "https"
    host, port = parts.hostname or "", parts.port or (443 if is_encrypted else 80)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    with world.clock.move_on_after(FETCH_SECONDS_MAX):
        try:
            stream = await world.network.connect(host, port, tls if is_encrypted else None)
            try:
                return await _exchange(stream, target, parts.netloc.rpartition("@")[2])
            finally:
                stream.close()
        except (OSError, ValueError, h11.ProtocolError) as problem:
            raise FetchFailed(str(problem) or type(problem).__name__) from problem
    raise FetchFailed(f"no answer within {FETCH_SECONDS_MAX:g} seconds")


async def _exchange(stream: Stream, target: str, host: str) -> bytes:
    connection = h11.Connection(h11.CLIENT)
    headers = [("Host", host), ("Accept", "application/json"), ("Connection", "close")]
    request = connection.send(h11.Request(method="GET", target=target, headers=headers))
    end = connection.send(h11.EndOfMessage())
    await stream.send_all([request or b"", end or b""])
    body, buffer = bytearray(), bytearray(_CHUNK)
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            received = stream.receive_nowait(memoryview(buffer))
            if received is None:
                await stream.wait_readable()
            else:
                connection.receive_data(bytes(buffer[:received]))
        elif isinstance(event, h11.Response) and event.status_code != 200:
            raise FetchFailed(f"the answer has the status {event.status_code}")
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > DOCUMENT_BYTES_MAX:
                raise FetchFailed(f"the document has more than {DOCUMENT_BYTES_MAX} bytes")
        elif isinstance(event, h11.EndOfMessage):
            return bytes(body)
        elif isinstance(event, h11.ConnectionClosed):
            raise FetchFailed("the connection was closed before an answer")
