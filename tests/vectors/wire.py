"""Kafka's framing over a plain socket, with nothing of a client in it: what is asked goes out as it is, what comes
back is told."""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import Any

from kraft.protocol.messages.request_header import RequestHeader
from kraft.protocol.messages.response_header import ResponseHeader
from kraft.protocol.schema import flexible_in
from tests.vectors.plain import from_message, message_class, to_message

CLOSED = "connection closed"
SILENT = "no answer"
PLAIN_HEADER_APIS = frozenset({18})  # ApiVersions is answered under the oldest header, so that any client can read it.


class Connection:
    """One connection to a listener."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent = 0

    def close(self) -> None:
        self.socket.close()

    def send(self, api: str, version: int, body: dict[str, Any] | bytes) -> None:
        """One request. `bytes` stand for a body that no encoder would make."""
        request = message_class(f"{api}Request")
        payload = body if isinstance(body, bytes) else to_message(request, body, version).encode(version)
        self.send_raw(request.API_KEY, version, payload, flexible=flexible_in(request, version))

    def send_raw(self, key: int, version: int, payload: bytes, *, flexible: bool) -> None:
        self.sent += 1
        header = RequestHeader(
            request_api_key=key, request_api_version=version, correlation_id=self.sent, client_id="vectors"
        )
        frame = header.encode(2 if flexible else 1) + payload
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self, api: str, version: int, timeout_s: float = 10) -> dict[str, Any] | str:
        """The next response as plain values, or CLOSED or SILENT."""
        self.socket.settimeout(timeout_s)
        try:
            frame = self.exactly(struct.unpack(">i", self.exactly(4))[0])
        except TimeoutError:
            return SILENT
        except OSError:
            return CLOSED
        response = message_class(f"{api}Response")
        header_version = 1 if flexible_in(response, version) and response.API_KEY not in PLAIN_HEADER_APIS else 0
        _, position = ResponseHeader.decode_from(frame, 0, header_version)
        message, end = response.decode_from(frame, position, version)
        assert end == len(frame), f"{api} v{version}: {len(frame) - end} bytes after the response"
        return from_message(message, version)

    def exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            chunk = self.socket.recv(count - len(data))
            if not chunk:
                raise ConnectionResetError(CLOSED)
            data += chunk
        return bytes(data)
