"""SCRAM (RFC 5802, RFC 7677): a client proves that it knows a password without sending it. Both sides of one login,
pure.

With Kafka's rules: no channel binding, no authorization id but the user's own name, at least 4096 iterations, and the
UTF-8 bytes of a password as they are.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from kraft.security.delegation_tokens import TokenLogin
from kraft.security.sasl.errors import SaslRefused
from kraft.security.scram_credentials import ScramKeys, ScramMechanism, keys_of, salted_password
from kraft.world.ports import Randomness

ITERATIONS_TAKEN_MAX: Final = 1_000_000
"""Limit of the iterations that a server may demand of this client."""
_CLIENT_FIRST: Final = re.compile(
    r"(?P<header>n,(?:a=(?P<authorization>[^,]*))?,)(?P<bare>(?:m=[^,]*,)?n=(?P<user>[^,]*),r=(?P<nonce>[!-+\--~]+)"
    r"(?P<extensions>(?:,[A-Za-z]+=[^,]+)*))"
)
_CLIENT_FINAL: Final = re.compile(
    r"(?P<unproven>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[!-+\--~]+)(?:,[A-Za-z]=[^,]*)*),p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_SERVER_FIRST: Final = re.compile(
    r"(?:m=[^,]*,)?r=(?P<nonce>[!-+\--~]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>[0-9]{1,9})(?:,.*)?"
)
_SERVER_FINAL: Final = re.compile(r"(?:e=(?P<error>[^,]*)|v=(?P<verifier>[A-Za-z0-9+/=]+))(?:,.*)?")


def new_nonce(randomness: Randomness) -> str:
    """An unpredictable nonce: a server that repeated one would accept a replayed proof."""
    return _base64(randomness.uuid("sasl-nonce") + randomness.uuid("sasl-nonce"))


class Credential(Protocol):
    """The SCRAM credential of a password."""

    @property
    def salt(self) -> bytes: ...
    @property
    def stored_key(self) -> bytes: ...
    @property
    def server_key(self) -> bytes: ...
    @property
    def iterations(self) -> int: ...


def _no_token(token_id: str) -> TokenLogin | None:
    return None


class ScramServer:
    """The server's side of one login: two messages."""

    __slots__ = (
        "_credential",
        "_first",
        "_lookup",
        "_mechanism",
        "_nonce",
        "_pending",
        "_token",
        "_tokens",
        "by_token",
        "expires_at_ms",
        "user",
    )

    def __init__(
        self,
        mechanism: ScramMechanism,
        lookup: Callable[[str], Credential | None],
        own_nonce: str,
        tokens: Callable[[str], TokenLogin | None] = _no_token,
    ) -> None:
        """`lookup` returns the credential of a user, `tokens` the login of a delegation token's id."""
        self._mechanism = mechanism
        self._lookup = lookup
        self._tokens = tokens
        self._token: TokenLogin | None = None
        self.by_token = False
        """Whether the login is by a delegation token."""
        self.expires_at_ms: int | None = None
        """Expiry of the login in ms since 1970, if it has one besides the listener's."""
        self._nonce = own_nonce
        self._credential: Credential | None = None
        self._pending = ""
        self._first = ("", "", "")
        self.user: str | None = None
        """User of the login."""

    def evaluate(self, message: bytes) -> bytes:
        """The response to the client's next message. Raises SaslRefused."""
        try:
            text = message.decode()
        except UnicodeDecodeError as problem:
            raise self._refused() from problem
        return (self._begin(text) if self._credential is None else self._finish(text)).encode()

    def _refused(self) -> SaslRefused:
        """Return the error of a failed login. As in Kafka it is the same for every reason, so that it does not reveal
        which names exist."""
        return SaslRefused(
            "Authentication failed during authentication due to invalid credentials with SASL mechanism "
            f"{self._mechanism.name}",
            self._pending,
        )

    def _begin(self, text: str) -> str:
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None:
            raise self._refused()
        user = _unescape(match["user"])
        if user is None:
            raise self._refused()
        self._pending = user
        authorization = match["authorization"]
        if authorization and _unescape(authorization) != user:
            raise SaslRefused(
                "Authentication failed: Client specified an authorization id that is different from username", user
            )
        if _asks_by_token(match["extensions"]):
            self._token = self._tokens(user)
            credential: Credential | None = None if self._token is None else self._token.credential
        else:
            credential = self._lookup(user)
        if credential is None or credential.iterations < self._mechanism.iterations_min:
            raise self._refused()
        self._credential = credential
        self._nonce = match["nonce"] + self._nonce
        answer = f"r={self._nonce},s={_base64(credential.salt)},i={credential.iterations}"
        self._first = (match["header"], match["bare"], answer)
        return answer

    def _finish(self, text: str) -> str:
        credential, (header, bare, answer) = self._credential, self._first
        assert credential is not None
        match = _CLIENT_FINAL.fullmatch(text)
        if match is None or match["nonce"] != self._nonce or self.user is not None:
            raise self._refused()
        proof = _bytes(match["proof"])
        if proof is None or _bytes(match["binding"]) != header.encode():
            raise self._refused()
        signed = f"{bare},{answer},{match['unproven']}".encode()
        hash_name = self._mechanism.hash_name
        signature = hmac.digest(credential.stored_key, signed, hash_name)
        if len(proof) != len(signature):
            raise self._refused()
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(hash_name, client_key).digest(), credential.stored_key):
            raise self._refused()
        self.user = self._pending
        if self._token is not None:
            self.user, self.expires_at_ms, self.by_token = self._token.user, self._token.expires_at_ms, True
        return f"v={_base64(hmac.digest(credential.server_key, signed, hash_name))}"


class Challenge(NamedTuple):
    """The server's challenge."""

    salt: bytes
    iterations: int


class ScramClient:
    """The client's side of one login: `first`, `challenge`, `final`, `finish`, in that order.

    `salt`, between `challenge` and `final`, takes milliseconds of CPU time: do not call it on the loop of a node.
    """

    __slots__ = ("_bare", "_mechanism", "_nonce", "_server_first", "_verifier")

    def __init__(self, mechanism: ScramMechanism, user: str, own_nonce: str, *, by_token: bool = False) -> None:
        """`by_token`: `user` is a delegation token's id."""
        self._mechanism = mechanism
        self._nonce = own_nonce
        self._bare = f"n={_escape(user)},r={own_nonce}{',tokenauth=true' if by_token else ''}"
        self._server_first = ""
        self._verifier = b""

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def challenge(self, message: bytes) -> Challenge:
        """The challenge in the server's first message. Raises SaslRefused for an invalid one."""
        self._server_first = message.decode("utf-8", "replace")
        match = _SERVER_FIRST.fullmatch(self._server_first)
        if match is None:
            raise SaslRefused("the node's first SCRAM message cannot be read")
        salt, iterations = _bytes(match["salt"]), int(match["iterations"])
        if not match["nonce"].startswith(self._nonce) or match["nonce"] == self._nonce:
            raise SaslRefused("the node's SCRAM nonce does not begin with ours")
        if salt is None or not self._mechanism.iterations_min <= iterations <= ITERATIONS_TAKEN_MAX:
            raise SaslRefused(
                f"the node asks for {iterations} iterations; {self._mechanism.iterations_min} to "
                f"{ITERATIONS_TAKEN_MAX} are taken"
            )
        self._nonce = match["nonce"]
        return Challenge(salt, iterations)

    def salt(self, password: str, challenge: Challenge) -> bytes:
        """The salted password, by PBKDF2."""
        return salted_password(self._mechanism, password, challenge.salt, challenge.iterations)

    def final(self, salted: bytes) -> bytes:
        hash_name = self._mechanism.hash_name
        keys: ScramKeys = keys_of(self._mechanism, salted)
        unproven = f"c={_base64(b'n,,')},r={self._nonce}"
        signed = f"{self._bare},{self._server_first},{unproven}".encode()
        client_key = hmac.digest(salted, b"Client Key", hash_name)
        signature = hmac.digest(keys.stored_key, signed, hash_name)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._verifier = hmac.digest(keys.server_key, signed, hash_name)
        return f"{unproven},p={_base64(proof)}".encode()

    def finish(self, message: bytes) -> None:
        """Check that the server knows the password, too. Raises SaslRefused."""
        match = _SERVER_FINAL.fullmatch(message.decode("utf-8", "replace"))
        if match is None or match["error"] is not None:
            raise SaslRefused(f"the node refused the SCRAM proof: {match['error'] if match else 'unreadable answer'}")
        if not self._verifier or not hmac.compare_digest(_bytes(match["verifier"]) or b"", self._verifier):
            raise SaslRefused("the node does not know this user's password: it may not be what it claims to be")


def _asks_by_token(extensions: str) -> bool:
    """Whether the name is a delegation token's id (KIP-48)."""
    values = dict(part.split("=", 1) for part in extensions.split(",") if part)
    return values.get("tokenauth", "").lower() == "true"


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return None


def _escape(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _unescape(name: str) -> str | None:
    """The name without RFC 5802's escapes; None for an invalid one."""
    if re.search(r"=(?!2C|3D)", name):
        return None
    return name.replace("=2C", ",").replace("=3D", "=")
