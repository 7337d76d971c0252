"""SaslHandshake and SaslAuthenticate (KIP-43, KIP-152), and the gate of a SASL listener: before authentication a client
may send only these and ApiVersions.

A failed login is answered after connection.failed.authentication.delay.ms, and its connection is closed.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable
from typing import Any, Final

from kraft.common.errors import ProtocolError
from kraft.handlers.dispatcher import RequestDispatcher, encode_reply
from kraft.handlers.registry import BROKER, CONTROLLER, Handler, RequestContext, between
from kraft.handlers.security.permissions import ANYBODY
from kraft.network.login_outcome import CREDENTIALS, MECHANISM, REQUEST, LoginOutcome, Report, ignore
from kraft.network.reply import Peer, Reply
from kraft.protocol import api_keys
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.framing import RequestHeader
from kraft.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kraft.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kraft.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kraft.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from kraft.security.sasl.authentication import Credentials, SaslSession, SaslSettings, Tokens, no_tokens
from kraft.security.sasl.errors import SaslRefused
from kraft.security.sasl.scram import new_nonce
from kraft.world.ports import World

HANDSHAKE: Final = Handler(ApiKey.SASL_HANDSHAKE, between(0, 1), permission=ANYBODY, listeners=(BROKER, CONTROLLER))
AUTHENTICATE: Final = Handler(
    ApiKey.SASL_AUTHENTICATE, between(0, 2), permission=ANYBODY, listeners=(BROKER, CONTROLLER)
)
UNSERVED: Final = "none"
"""Text in place of an unsupported mechanism."""
_NAMES: Final = {key: name for name, key in vars(ApiKey).items() if name.isupper()}
"""Kafka's names of APIs in messages, such as `LIST_OFFSETS`."""
_SAYS_NO_MORE: Final = frozenset(
    (
        ApiKey.DELETE_TOPICS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.DESCRIBE_PRODUCERS,
    )
)
"""APIs whose authorization errors have no message in Kafka."""
_SAYS_THE_CODE: Final = frozenset(
    (ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_CLIENT_QUOTAS, ApiKey.DESCRIBE_QUORUM)
)
"""APIs whose authorization errors have the message of the error code in Kafka."""
_HEAD: Final = struct.Struct(">hhi")
_SIZE: Final = struct.Struct(">i")


@HANDSHAKE.serve
async def sasl_handshake(request: SaslHandshakeRequest, context: RequestContext, node: Any) -> SaslHandshakeResponse:
    """Reject SaslHandshake on a listener without SASL, and after authentication."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


@AUTHENTICATE.serve
async def sasl_authenticate(
    request: SaslAuthenticateRequest, context: RequestContext, node: Any
) -> SaslAuthenticateResponse:
    """Refuse SaslAuthenticate on a listener without SASL."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )


class SaslGate:
    """Authenticates clients in front of one listener's dispatcher. It is itself a `kraft.network.reply.Dispatcher`."""

    def __init__(
        self,
        settings: SaslSettings,
        credentials: Credentials,
        dispatcher: RequestDispatcher,
        world: World,
        report: Report = ignore,
        tokens: Tokens = no_tokens,
    ) -> None:
        """`report` is called with the result of every login."""
        self._report = report
        self._settings = settings
        self._credentials = credentials
        self._tokens = tokens
        self._dispatcher = dispatcher
        self._clock = world.clock
        self._random = world.random
        self._delay_seconds = settings.failed_delay_ms / 1000

    def may_overtake_wait(self, frame: memoryview) -> bool:
        """Return the decision of the listener's dispatcher. It allows only Produce, and `dispatch` closes the
        connection of a client that sends Produce before it has authenticated."""
        return self._dispatcher.may_overtake_wait(frame)

    def dispatch(self, peer: Peer, frame: memoryview) -> Reply | Awaitable[Reply]:
        """See `kraft.network.reply.Dispatcher`."""
        session = peer.sasl
        if session is None:
            session = peer.sasl = SaslSession(self._settings, self._credentials, self._nonce, self._tokens)
        assert isinstance(session, SaslSession)
        if session.is_over:
            raise ProtocolError("the login has failed")
        if session.expects_raw:
            return self._raw(peer, session, bytes(frame))
        if len(frame) < 10:
            raise ProtocolError(f"a frame of {len(frame)} bytes is too short for a request header")
        key, version, _ = _HEAD.unpack_from(frame)
        if session.user is not None and not session.logs_in:
            if key != ApiKey.SASL_HANDSHAKE or session.ends_at is None:
                if session.has_ended(self._clock.now()):
                    raise ProtocolError("the session has ended, and the client has not logged in again")
                return self._dispatcher.dispatch(peer, frame)
        elif key == ApiKey.API_VERSIONS and not session.logs_in and session.user is None:
            return self._dispatcher.dispatch(peer, frame)
        if session.logs_in and key != ApiKey.SASL_AUTHENTICATE:
            return self._refuse(peer, session, memoryview(bytes(frame)), key)
        handler = HANDSHAKE if key == ApiKey.SASL_HANDSHAKE else AUTHENTICATE
        if key != (ApiKey.SASL_AUTHENTICATE if session.logs_in else ApiKey.SASL_HANDSHAKE):
            raise ProtocolError(f"{api_keys.name_of(key)} came while the client was to log in")
        if not handler.min_version <= version <= handler.max_version:
            raise ProtocolError(f"{api_keys.name_of(key)} version {version} is not served")
        header, position = RequestHeader.decode(frame)
        context = RequestContext(peer, key, version, header.correlation_id, header.client_id)
        request: Any
        request, _ = api_keys.request_class(key).decode_from(memoryview(bytes(frame)), position, version)
        if key == ApiKey.SASL_HANDSHAKE:
            return self._handshake(peer, session, context, request)
        return self._authenticate(peer, session, context, request)

    def _handshake(
        self, peer: Peer, session: SaslSession, context: RequestContext, request: SaslHandshakeRequest
    ) -> Reply | Awaitable[Reply]:
        try:
            is_served = session.begin(request.mechanism, context.api_version)
        except SaslRefused as problem:
            raise ProtocolError(str(problem)) from problem
        response = SaslHandshakeResponse(mechanisms=list(self._settings.mechanisms))
        if is_served:
            return encode_reply(context, response)
        reason = f"the client asks for {request.mechanism}, which the listener does not serve"
        self._report(LoginOutcome(UNSERVED, peer.host, failure=MECHANISM, reason=reason))
        response.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        return self._fail(session, encode_reply(context, response).parts)

    def _authenticate(
        self, peer: Peer, session: SaslSession, context: RequestContext, request: SaslAuthenticateRequest
    ) -> Reply | Awaitable[Reply]:
        try:
            answer, lasts_ms = session.evaluate(bytes(request.auth_bytes), self._clock.now(), self._clock.wall_ms())
        except SaslRefused as problem:
            self._tell_refused(peer, session, problem)
            refusal = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=str(problem)
            )
            return self._fail(session, encode_reply(context, refusal).parts)
        self._admit(peer, session)
        response = SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=lasts_ms)
        return encode_reply(context, response)

    def _raw(self, peer: Peer, session: SaslSession, message: bytes) -> Reply | Awaitable[Reply]:
        try:
            answer, _ = session.evaluate(message, self._clock.now(), self._clock.wall_ms())
        except SaslRefused as problem:
            self._tell_refused(peer, session, problem)
            return self._fail(session, ())
        self._admit(peer, session)
        return Reply((_SIZE.pack(len(answer)) + answer,))

    def _admit(self, peer: Peer, session: SaslSession) -> None:
        if session.user is not None and not session.logs_in:
            peer.principal = f"User:{session.user}"
            peer.by_token = session.by_token
            peer.proven = True
            self._report(LoginOutcome(session.mechanism or UNSERVED, peer.host, session.user))

    def _tell_refused(self, peer: Peer, session: SaslSession, problem: SaslRefused) -> None:
        mechanism = session.mechanism or UNSERVED
        self._report(LoginOutcome(mechanism, peer.host, problem.user, CREDENTIALS, problem.reason))

    def _refuse(self, peer: Peer, session: SaslSession, frame: memoryview, key: int) -> Awaitable[Reply]:
        """Fail the login because another request arrived during it."""
        session.is_over = True
        asked = _NAMES.get(key, api_keys.name_of(key))
        reason = f"Unexpected Kafka request of type {asked} during SASL authentication."
        self._report(LoginOutcome(session.mechanism or UNSERVED, peer.host, failure=REQUEST, reason=reason))
        if key in _SAYS_NO_MORE:
            return self._refuse_late(peer, frame, None)
        of_the_code = "Request is not valid given the current SASL state."
        return self._refuse_late(peer, frame, of_the_code if key in _SAYS_THE_CODE else reason)

    async def _refuse_late(self, peer: Peer, frame: memoryview, reason: str | None) -> Reply:
        refusal = await self._dispatcher.refuse(peer, frame, ErrorCode.ILLEGAL_SASL_STATE, reason)
        return await self._answer_late(refusal.parts)

    def _fail(self, session: SaslSession, parts: Any) -> Awaitable[Reply]:
        """Answer a failed login after a delay, which slows down password guessing."""
        session.is_over = True
        return self._answer_late(parts)

    async def _answer_late(self, parts: Any) -> Reply:
        await self._clock.sleep(self._delay_seconds)
        return Reply(parts, close_after=True)

    def _nonce(self) -> str:
        return new_nonce(self._random)
