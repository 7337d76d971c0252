"""Frames: an int32 size, a header, a body.

Request header v1 is key, version, correlation id and client id (always with an int16 length, even in flexible
requests). Request header v2 adds a tag section and is used with flexible versions. Response header v0 is the
correlation id. Response header v1 adds a tag section and is used with flexible versions, except for ApiVersions, whose
response always has v0 (KIP-511). Decoding functions get a frame without its size, because the connection has read it.
Encoding functions return a frame with its size.
"""

from __future__ import annotations

import struct

from kraft.common.errors import ProtocolError
from kraft.protocol import api_keys
from kraft.protocol.primitives import skip_tagged_fields
from kraft.protocol.schema import Bytes, Message
from kraft.world.steps import Steps

SIZE_BYTES = 4
_REQUEST_START = struct.Struct(">hhi")
_CLIENT_ID_SIZE = struct.Struct(">h")
_REQUEST_HEAD = struct.Struct(">ihhih")
_RESPONSE_HEAD = struct.Struct(">ii")
_CORRELATION_ID = struct.Struct(">i")


class RequestHeader:
    """The header of a request: the API key and version, the client id, and the correlation id that the response must
    carry."""

    __slots__ = ("api_key", "api_version", "client_id", "correlation_id")

    def __init__(self, api_key: int, api_version: int, correlation_id: int, client_id: str | None = None) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id

    @classmethod
    def decode(cls, frame: Bytes) -> tuple[RequestHeader, int]:
        """Decode the header at the start of a frame. Returns it and the position of the body. Raises ProtocolError,
        also for an API key that this release does not know."""
        if len(frame) < 8:
            raise ProtocolError(f"a frame of {len(frame)} bytes is too short for a request header")
        key, version, correlation_id = _REQUEST_START.unpack_from(frame)
        client_id, position = client_id_of(frame, key, version)
        return cls(key, version, correlation_id, client_id), position

    def __repr__(self) -> str:
        return (
            f"RequestHeader({api_keys.name_of(self.api_key)} v{self.api_version}, "
            f"correlation_id={self.correlation_id}, client_id={self.client_id!r})"
        )


def client_id_of(frame: Bytes, api_key: int, api_version: int) -> tuple[str | None, int]:
    """Return the client id in a frame's header, and the position of the body. Raises ProtocolError like
    `RequestHeader.decode`."""
    client_id: str | None = None
    position = 10
    if len(frame) < position:
        raise ProtocolError("the request header is cut off before the client id")
    (size,) = _CLIENT_ID_SIZE.unpack_from(frame, 8)
    if size >= 0:
        position += size
        if position > len(frame):
            raise ProtocolError("the client id is longer than the frame")
        try:
            client_id = str(frame[10:position], "utf-8")
        except UnicodeDecodeError:
            raise ProtocolError("the client id is not UTF-8") from None
    if api_keys.request_header_version(api_key, api_version) == 2:
        if position < len(frame) and not frame[position]:
            return client_id, position + 1  # No tagged fields, as nearly always.
        position = skip_tagged_fields(frame, position)
    return client_id, position


def decode_request(frame: Bytes) -> tuple[RequestHeader, Message]:
    """Decode a whole request frame. Raises ProtocolError, also for versions that the schemas do not define."""
    header, position = RequestHeader.decode(frame)
    message, end = api_keys.request_class(header.api_key).decode_from(frame, position, header.api_version)
    _check_end(frame, end, header.api_key, header.api_version)
    return header, message


def encode_request(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, message: Message
) -> bytes:
    """Encode a whole request frame, size first. Raises ProtocolError."""
    name = b"" if client_id is None else client_id.encode()
    out = bytearray(_REQUEST_HEAD.pack(0, api_key, api_version, correlation_id, -1 if client_id is None else len(name)))
    out += name
    if api_keys.request_header_version(api_key, api_version) == 2:
        out.append(0)
    message.encode_into(out, api_version)
    _CORRELATION_ID.pack_into(out, 0, len(out) - SIZE_BYTES)
    return bytes(out)


def encode_response(api_key: int, api_version: int, correlation_id: int, message: Message) -> bytearray:
    """Encode a whole response frame, size first. Raises ProtocolError.

    If a client requested a version of ApiVersions that the server does not support, the response is encoded in version
    0, with error UNSUPPORTED_VERSION and the supported range.
    """
    out = bytearray(9 if api_keys.response_header_version(api_key, api_version) else 8)
    message.encode_into(out, api_version)
    _RESPONSE_HEAD.pack_into(out, 0, len(out) - SIZE_BYTES, correlation_id)
    return out


def encode_response_in_turns(api_key: int, api_version: int, correlation_id: int, message: Message) -> Steps[bytearray]:
    """Encode like `encode_response`, but pause after every TURN_ELEMENTS elements."""
    out = bytearray(9 if api_keys.response_header_version(api_key, api_version) else 8)
    yield from message.encode_in_turns(out, api_version)
    _RESPONSE_HEAD.pack_into(out, 0, len(out) - SIZE_BYTES, correlation_id)
    return out


def response_correlation_id(frame: Bytes) -> int:
    """Return the correlation id of a response frame, by which a client finds the request. Raises ProtocolError."""
    if len(frame) < 4:
        raise ProtocolError(f"a frame of {len(frame)} bytes is too short for a response header")
    (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
    return int(correlation_id)


def decode_response(api_key: int, api_version: int, frame: Bytes) -> tuple[int, Message]:
    """Decode a whole response frame. Returns the correlation id and the body. Raises ProtocolError."""
    correlation_id, position = _response_start(api_key, api_version, frame)
    message, end = api_keys.response_class(api_key).decode_from(frame, position, api_version)
    _check_end(frame, end, api_key, api_version)
    return correlation_id, message


def decode_response_in_turns(api_key: int, api_version: int, frame: Bytes) -> Steps[tuple[int, Message]]:
    """Decode like `decode_response`, but pause after every TURN_ELEMENTS elements."""
    correlation_id, position = _response_start(api_key, api_version, frame)
    message, end = yield from api_keys.response_class(api_key).decode_in_turns(frame, position, api_version)
    _check_end(frame, end, api_key, api_version)
    return correlation_id, message


def _response_start(api_key: int, api_version: int, frame: Bytes) -> tuple[int, int]:
    """Return the correlation id, and the position of the body."""
    correlation_id = response_correlation_id(frame)
    return correlation_id, skip_tagged_fields(frame, 4) if api_keys.response_header_version(api_key, api_version) else 4


def _check_end(frame: Bytes, end: int, api_key: int, api_version: int) -> None:
    if end != len(frame):
        raise ProtocolError(
            f"{api_keys.name_of(api_key)} v{api_version}: {len(frame) - end} bytes left over after the message"
        )
