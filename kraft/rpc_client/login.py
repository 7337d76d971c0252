"""A client's login (SASL): PLAIN, SCRAM and OAUTHBEARER over SaslHandshake and SaslAuthenticate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kraft.protocol.error_codes import ErrorCode, is_retriable
from kraft.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kraft.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kraft.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kraft.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from kraft.rpc_client.errors import LoginFailed
from kraft.security.sasl.errors import SaslRefused
from kraft.security.sasl.oauthbearer import CONTROL_A, bearer_message
from kraft.security.sasl.plain import PLAIN, plain_message
from kraft.security.sasl.scram import ScramClient, new_nonce
from kraft.security.scram_credentials import MECHANISMS
from kraft.security.token_request import NoToken
from kraft.world.ports import Login, LoginTokens, World

if TYPE_CHECKING:
    from kraft.rpc_client.connection import ClientConnection

HANDSHAKE_VERSION: Final = 1


async def log_in(connection: ClientConnection, login: Login, world: World) -> int:
    """Authenticate. Returns the session lifetime in ms; 0 means unlimited. Raises LoginFailed, Disconnected."""
    try:
        handshake: SaslHandshakeResponse = await connection.call(
            SaslHandshakeRequest(mechanism=login.mechanism), version=HANDSHAKE_VERSION
        )
        if handshake.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise LoginFailed("the node's listener asks for no login: security.protocol is not one of SASL there")
        if handshake.error_code:
            served = ", ".join(handshake.mechanisms) or "none"
            raise LoginFailed(f"the node does not serve the SASL mechanism {login.mechanism}, but {served}")
        if login.mechanism == PLAIN:
            return (await _say(connection, plain_message(login.username, login.password))).session_lifetime_ms
        if login.tokens is not None:
            return await _bear_token(connection, login.tokens, world)
        scram = ScramClient(
            MECHANISMS[login.mechanism], login.username, new_nonce(world.random), by_token=login.by_token
        )
        challenge = scram.challenge(bytes((await _say(connection, scram.first())).auth_bytes))
        salted = await world.threads.run(scram.salt, login.password, challenge)
        last = await _say(connection, scram.final(salted))
        scram.finish(bytes(last.auth_bytes))
    except SaslRefused as problem:
        raise LoginFailed(str(problem)) from problem
    return last.session_lifetime_ms


async def _bear_token(connection: ClientConnection, tokens: LoginTokens, world: World) -> int:
    try:
        token = await tokens.token(world)
    except OSError as problem:
        reason = problem.__cause__
        raise LoginFailed(str(problem), may_pass=not (isinstance(reason, NoToken) and reason.is_final)) from problem
    answer = await _say(connection, bearer_message(token, tokens.extensions))
    if answer.auth_bytes:  # Refused: the node tells so again upon this, as an error.
        answer = await _say(connection, CONTROL_A)
    return answer.session_lifetime_ms


async def _say(connection: ClientConnection, message: bytes) -> SaslAuthenticateResponse:
    response: SaslAuthenticateResponse = await connection.call(SaslAuthenticateRequest(auth_bytes=message))
    if response.error_code:
        raise LoginFailed(
            response.error_message or f"the node refused the login (error {response.error_code})",
            may_pass=is_retriable(response.error_code),
        )
    return response
