"""Envelope (KIP-590): a broker forwards a client's request to the active controller, with the client's principal and
address."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from kraft.common.errors import ApiError, NotLeader, ProtocolError
from kraft.handlers.errors import EXPECTED, code_of, message_of
from kraft.handlers.registry import CONTROLLER, Handler, RequestContext, between
from kraft.handlers.security.permissions import OnCluster
from kraft.network.reply import Peer
from kraft.protocol import api_keys
from kraft.protocol.api_keys import FORWARDABLE, ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.framing import SIZE_BYTES, decode_request, encode_response_in_turns
from kraft.protocol.messages.default_principal_data import DefaultPrincipalData
from kraft.protocol.messages.describe_quorum_response import DescribeQuorumResponse
from kraft.protocol.messages.envelope_request import EnvelopeRequest
from kraft.protocol.messages.envelope_response import EnvelopeResponse
from kraft.security.acls import Operation
from kraft.world.turns import TURN_ITEMS, in_turns

if TYPE_CHECKING:
    from kraft.handlers.services import ControllerServices

API = Handler(ApiKey.ENVELOPE, between(0, 0), permission=OnCluster(Operation.CLUSTER_ACTION), listeners=(CONTROLLER,))

PRINCIPAL_VERSION = 0
_MISDIRECTED = frozenset((ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER))


@API.serve
async def envelope(request: EnvelopeRequest, context: RequestContext, node: ControllerServices) -> EnvelopeResponse:
    """Serve the request inside the envelope, and encode its response for the client's version. Raises ApiError if the
    envelope cannot be decoded, and NOT_CONTROLLER if only the active controller could serve the request: a broker of
    Apache Kafka keeps a controller's address until the envelope itself has this error."""
    principal, by_token = decode_principal(request.request_principal)
    try:
        address = str(ipaddress.ip_address(bytes(request.client_host_address)))
        header, inner = decode_request(request.request_data)
    except (ProtocolError, ValueError) as problem:
        code = ErrorCode.UNSUPPORTED_VERSION if isinstance(problem, ProtocolError) else ErrorCode.INVALID_REQUEST
        raise ApiError(code, f"the envelope holds no readable request: {problem}") from problem
    handler = node.registry.get(header.api_key)
    if header.api_key not in FORWARDABLE or handler is None or handler.serve_function is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{api_keys.name_of(header.api_key)} may not come in an envelope")
    peer = Peer(address, context.peer.listener, (context.peer.local_host, context.peer.local_port))
    peer.forwarded, peer.by_token = True, by_token
    inner_context = RequestContext(
        peer, header.api_key, header.api_version, header.correlation_id, header.client_id, principal
    )
    try:
        response = await handler.serve_function(inner, inner_context, node)
    except NotLeader as problem:
        raise ApiError(ErrorCode.NOT_CONTROLLER, str(problem)) from problem
    except ApiError as problem:
        if problem.code == ErrorCode.NOT_CONTROLLER:
            raise
        response = await _failed(handler, inner, header.api_version, problem)
    except EXPECTED as problem:
        response = await _failed(handler, inner, header.api_version, problem)
    if _is_misdirected(response):
        raise ApiError(ErrorCode.NOT_CONTROLLER, "this node does not lead the quorum")
    frame = await in_turns(
        encode_response_in_turns(header.api_key, header.api_version, header.correlation_id, response)
    )
    return EnvelopeResponse(response_data=bytes(frame[SIZE_BYTES:]))


def _is_misdirected(response: Any) -> bool:
    """Whether the response says that this node is not the active controller, or not the quorum's leader."""
    if isinstance(response, DescribeQuorumResponse):
        return any(part.error_code in _MISDIRECTED for topic in response.topics for part in topic.partitions)
    return getattr(response, "error_code", ErrorCode.NONE) in _MISDIRECTED


async def _failed(handler: Handler, request: Any, version: int, problem: Exception) -> Any:
    return await in_turns(handler.error_response(request, version, code_of(problem), message_of(problem)), TURN_ITEMS)


def encode_principal(principal: str, by_token: bool) -> bytes:
    """Encode the principal `Type:Name` for an envelope: a version, then DefaultPrincipalData. `by_token` says whether
    it has authenticated by a delegation token."""
    kind, _, name = principal.partition(":")
    data = DefaultPrincipalData(type=kind, name=name, token_authenticated=by_token)
    return PRINCIPAL_VERSION.to_bytes(2, "big") + data.encode(PRINCIPAL_VERSION)


def decode_principal(data: bytes | bytearray | memoryview | None) -> tuple[str, bool]:
    """The inverse of `encode_principal`. Raises ApiError PRINCIPAL_DESERIALIZATION_FAILURE."""
    try:
        if data is None or int.from_bytes(data[:2], "big") != PRINCIPAL_VERSION:
            raise ProtocolError("the principal has no version that we know")
        principal = DefaultPrincipalData.decode(data[2:], PRINCIPAL_VERSION)
    except ProtocolError as problem:
        raise ApiError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, str(problem)) from problem
    return f"{principal.type}:{principal.name}", principal.token_authenticated
