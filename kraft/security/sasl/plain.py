"""PLAIN (RFC 4616): name and password in one message. Error texts are Kafka's."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from kraft.security.sasl.errors import SaslRefused

PLAIN: Final = "PLAIN"


def plain_message(username: str, password: str) -> bytes:
    return f"\0{username}\0{password}".encode()


class PlainServer:
    """The server's side of one login."""

    __slots__ = ("_users", "user")

    by_token = False
    expires_at_ms = None

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users
        self.user: str | None = None
        """User of the login."""

    def evaluate(self, message: bytes) -> bytes:
        """The response to the client's only message. Raises SaslRefused."""
        try:
            tokens = message.decode().split("\0")
        except UnicodeDecodeError as problem:
            raise SaslRefused("Invalid SASL/PLAIN response: it is not UTF-8") from problem
        if len(tokens) != 3:
            raise SaslRefused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(tokens)}")
        authorization_id, user, password = tokens
        if not user:
            raise SaslRefused("Authentication failed: username not specified")
        if not password:
            raise SaslRefused("Authentication failed: password not specified", user)
        known = self._users.get(user)
        # Compared also for unknown names, so that time does not tell which names there are.
        is_right = hmac.compare_digest((known or "\0").encode(), password.encode())
        if known is None or not is_right:
            raise SaslRefused("Authentication failed: Invalid username or password", user)
        if authorization_id not in ("", user):
            raise SaslRefused(
                "Authentication failed: Client requested an authorization id that is different from username", user
            )
        self.user = user
        return b""
