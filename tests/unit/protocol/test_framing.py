import struct

import pytest

from kraft.common.errors import ProtocolError
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.framing import (
    RequestHeader,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    response_correlation_id,
)
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kraft.protocol.messages.metadata_request import MetadataRequest
from kraft.protocol.messages.metadata_response import MetadataResponse
from kraft.protocol.messages.request_header import RequestHeader as RequestHeaderMessage


def test_a_request_frame_is_size_header_and_body() -> None:
    frame = encode_request(ApiKey.METADATA, 1, 77, "me", MetadataRequest(topics=None))
    assert frame == struct.pack(">ihhih", 16, 3, 1, 77, 2) + b"me" + b"\xff\xff\xff\xff"
    header, message = decode_request(frame[4:])
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (3, 1, 77, "me")
    assert message == MetadataRequest(topics=None)


def test_a_flexible_request_has_a_tag_section_after_the_client_id() -> None:
    frame = encode_request(ApiKey.METADATA, 9, 77, None, MetadataRequest(topics=None))
    assert frame == struct.pack(">ihhih", 16, 3, 9, 77, -1) + b"\0" + b"\0\1\0\0\0"
    header, message = decode_request(frame[4:])
    assert header.client_id is None
    assert message == MetadataRequest(topics=None)


def test_tags_in_a_request_header_are_skipped() -> None:
    header = RequestHeaderMessage(
        request_api_key=3, request_api_version=9, correlation_id=1, client_id="c", unknown_tags={7: b"future", 900: b""}
    ).encode(2)
    decoded, position = RequestHeader.decode(header + b"body")
    assert (decoded.client_id, position) == ("c", len(header))
    assert repr(decoded) == "RequestHeader(Metadata v9, correlation_id=1, client_id='c')"


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\3\0\1",
        struct.pack(">hhi", 3, 1, 7),
        struct.pack(">hhih", 3, 1, 7, 5) + b"abcd",
        struct.pack(">hhih", 3, 1, 7, 2) + b"\xff\xfe",
        struct.pack(">hhih", 3, 9, 7, -1),
        struct.pack(">hhih", 3, 9, 7, -1) + b"\1\5",
        struct.pack(">hhih", 4, 0, 7, -1),
        struct.pack(">hhih", 999, 0, 7, -1),
        struct.pack(">hhih", -1, 0, 7, -1),
    ],
)
def test_a_malformed_header_is_rejected(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        RequestHeader.decode(frame)


def test_bytes_after_a_message_are_rejected() -> None:
    request = encode_request(ApiKey.METADATA, 9, 77, None, MetadataRequest())[4:]
    with pytest.raises(ProtocolError, match="left over"):
        decode_request(request + b"\0")
    response = bytes(encode_response(ApiKey.METADATA, 9, 77, MetadataResponse())[4:])
    with pytest.raises(ProtocolError, match="left over"):
        decode_response(ApiKey.METADATA, 9, response + b"\0")
    with pytest.raises(ProtocolError):
        decode_request(struct.pack(">hhih", 3, 99, 7, -1) + b"\0")


@pytest.mark.parametrize(("version", "header_size"), [(8, 4), (9, 5)])
def test_a_response_frame_has_the_header_of_its_version(version: int, header_size: int) -> None:
    response = MetadataResponse(cluster_id="c")
    frame = encode_response(ApiKey.METADATA, version, 77, response)
    assert frame == struct.pack(">ii", len(frame) - 4, 77) + b"\0" * (header_size - 4) + response.encode(version)
    assert decode_response(ApiKey.METADATA, version, frame[4:]) == (77, response)
    assert response_correlation_id(frame[4:]) == 77


@pytest.mark.parametrize("version", range(5))
def test_every_response_to_api_versions_has_header_version_0(version: int) -> None:
    response = ApiVersionsResponse(api_keys=[ApiVersion(api_key=3, min_version=0, max_version=13)])
    frame = encode_response(ApiKey.API_VERSIONS, version, 77, response)
    assert frame[8:] == response.encode(version)
    assert decode_response(ApiKey.API_VERSIONS, version, frame[4:]) == (77, response)


def test_the_response_to_an_unknown_version_of_api_versions_is_readable_by_any_client() -> None:
    """KIP-511: version 0, whatever was asked; features do not fit in and are left out."""
    asked = encode_request(ApiKey.API_VERSIONS, 4, 1, "c", ApiVersionsRequest())[4:]
    header, _ = RequestHeader.decode(asked[:2] + struct.pack(">h", 99) + asked[4:])
    assert header.api_version == 99
    answer = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)],
        supported_features=[SupportedFeatureKey(name="metadata.version")],
        finalized_features=[FinalizedFeatureKey(name="metadata.version")],
        finalized_features_epoch=5,
    )
    frame = encode_response(ApiKey.API_VERSIONS, 0, header.correlation_id, answer)
    assert frame == struct.pack(">iihi", 16, 1, 35, 1) + struct.pack(">hhh", 18, 0, 4)


@pytest.mark.parametrize("frame", [b"", b"\0\0\0"])
def test_a_response_too_short_for_a_correlation_id_is_rejected(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        response_correlation_id(frame)
