"""OAUTHBEARER (RFC 7628, KIP-255): a client authenticates as the subject of a signed token. Both sides of one login.

A rejected token is answered with a JSON document; the client then sends a single ^A, and its login fails, as in Kafka.
The document has no reason; the node's log has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from kraft.security.sasl.errors import SaslRefused
from kraft.security.tokens import Token, TokenRefused

OAUTHBEARER: Final = "OAUTHBEARER"
OAUTHBEARER_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
VALIDATOR: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
INVALID_TOKEN: Final = '{"status":"invalid_token"}'
CONTROL_A: Final = b"\x01"
"""The client's message after a rejection, before the login ends."""
_FIRST: Final = re.compile(
    r"n,(?:a=(?P<authorization>(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_BEARER: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)

TokenCheck = Callable[[str], Token]
"""Returns the login of a token. Raises TokenRefused."""


def bearer_message(token: str, extensions: Mapping[str, str]) -> bytes:
    """The client's first message."""
    pairs = "".join(f"{name}={value}\x01" for name, value in extensions.items())
    return f"n,,\x01auth=Bearer {token}\x01{pairs}\x01".encode()


class OAuthBearerServer:
    """The server's side of one login: one message, and ^A if it was rejected."""

    __slots__ = ("_check", "_reason", "expires_at_ms", "user")

    by_token = False  # Not one of Kafka's delegation tokens.

    def __init__(self, check: TokenCheck) -> None:
        self._check = check
        self._reason: str | None = None
        self.user: str | None = None
        """User of the login."""
        self.expires_at_ms: int | None = None
        """Expiry of the token, in ms since 1970."""

    def evaluate(self, message: bytes) -> bytes:
        """The response to the client's message. Raises SaslRefused."""
        if self._reason is not None:
            raise SaslRefused(INVALID_TOKEN, reason=self._reason)
        match = _FIRST.fullmatch(message.decode("latin-1"))
        pairs = dict(pair.split("=", 1) for pair in match["pairs"].split("\x01") if pair) if match else {}
        bearer = _BEARER.fullmatch(pairs.get("auth", ""))
        if match is None or bearer is None or bearer["scheme"].lower() != "bearer":
            raise SaslRefused(
                "Authentication failed during authentication due to invalid credentials with SASL mechanism "
                f"{OAUTHBEARER}"
            )
        try:
            token = self._check(bearer["token"])
        except TokenRefused as problem:
            self._reason = str(problem)
            return INVALID_TOKEN.encode()
        authorization = (match["authorization"] or "").replace("=2C", ",").replace("=3D", "=")
        if authorization not in ("", token.subject):
            raise SaslRefused(
                f"Authentication failed: Client requested an authorization id ({authorization}) that is different from "
                f"the token's principal name ({token.subject})",
                token.subject,
            )
        self.user, self.expires_at_ms = token.subject, token.expires_at_ms
        return b""
