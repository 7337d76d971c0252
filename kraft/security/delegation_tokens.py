"""Delegation tokens (KIP-48): an authenticated client passes one to another client, which authenticates with it.

A token's password is an HMAC of its id under a secret in the configuration of all nodes (delegation.token.secret.key).
So the metadata log does not hold it. A client with a token authenticates by SCRAM, with the token's id as the name, the
password in base64, and the extension `tokenauth=true`.
"""

from __future__ import annotations

import base64
import hmac
from collections import OrderedDict
from typing import Final, NamedTuple, Protocol

from kraft.security.scram_credentials import SALT_BYTES, ScramMechanism, keys_of, salted_password

_HASH: Final = "sha512"
CREDENTIALS_MAX: Final = 10_000
"""Limit of token credentials that a node caches. A credential that was dropped is computed again, in 1 to 2 ms."""


class Token(Protocol):
    """The token's fields in the metadata that a login needs. Times are ms since 1970."""

    @property
    def owner(self) -> str: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def expiration_timestamp(self) -> int: ...


class TokenCredential(NamedTuple):
    """The SCRAM credential of a token's password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class TokenLogin(NamedTuple):
    """The result of a login by a token: it authenticates as the owner, until the token expires."""

    user: str
    credential: TokenCredential
    expires_at_ms: int


def hmac_of(secret: str, token_id: str) -> bytes:
    """The token's HMAC, 64 bytes, which clients use as its password."""
    return hmac.digest(secret.encode(), token_id.encode(), _HASH)


def is_expired(token: Token, now_ms: int) -> bool:
    """Whether the token has expired, though it may still exist."""
    return token.max_timestamp < now_ms or token.expiration_timestamp < now_ms


class TokenCredentials:
    """A node's credentials of tokens, each computed at the first login with it."""

    __slots__ = ("_known", "_secret")

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._known: OrderedDict[tuple[str, int], TokenCredential] = OrderedDict()

    def login(self, token_id: str, token: Token | None, mechanism: ScramMechanism, now_ms: int) -> TokenLogin | None:
        """The login with a token; None if it does not exist or has expired. `token` is the metadata's entry of that
        id."""
        if token is None or is_expired(token, now_ms):
            return None
        user = token.owner.partition(":")[2]
        return TokenLogin(user, self._credential(token_id, mechanism), token.expiration_timestamp)

    def _credential(self, token_id: str, mechanism: ScramMechanism) -> TokenCredential:
        key = (token_id, mechanism.number)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._compute(token_id, mechanism)
            if len(self._known) > CREDENTIALS_MAX:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return known

    def _compute(self, token_id: str, mechanism: ScramMechanism) -> TokenCredential:
        """Compute the credential. The salt is derived from the secret: the same on every node, and unpredictable to
        clients."""
        salt = hmac_of(self._secret, f"salt {mechanism.number} {token_id}")[:SALT_BYTES]
        password = base64.b64encode(hmac_of(self._secret, token_id)).decode()
        keys = keys_of(mechanism, salted_password(mechanism, password, salt, mechanism.iterations_min))
        return TokenCredential(salt, keys.stored_key, keys.server_key, mechanism.iterations_min)
