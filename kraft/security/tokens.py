"""JSON Web Tokens (RFC 7519) signed by an authority, and the keys that it publishes (JWKS, RFC 7517).

A token is accepted as by Kafka's BrokerJwtValidator (KIP-768): it needs a signature by one of the keys, `exp` and
`iat`, the expected issuer and audience, and a subject. Unsigned tokens and those signed by a shared secret are
rejected. PyJWT (`pip install 'kraft-node[oauth]'`) checks signatures; claims are checked here, by the node's own clock.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kraft.common.errors import KraftError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
"""Algorithms with public keys. Each check takes less than a millisecond."""
_OF_CURVE: Final = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
RSA_BITS: Final = (2048, 8192)
TOKEN_CHARACTERS_MAX: Final = 65_536
KEYS_MAX: Final = 64
TRIED_MAX: Final = 8
"""Limit of keys tried for a token without a key id."""
PACKAGE_MISSING: Final = (
    "OAUTHBEARER needs the package PyJWT with cryptography, which checks signatures: pip install 'kraft-node[oauth]'"
)


class TokenRefused(KraftError):
    """Raised for an invalid token. The message is for the node's log, and quotes nothing of the token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """The claims of a valid token."""

    subject: str
    expires_at_ms: int
    """Milliseconds since 1970."""
    taken_until_ms: int
    """Expiry plus the allowed clock skew."""
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """Kafka's `sasl.oauthbearer.*` keys of one listener."""

    issuer: str | None = None
    audiences: tuple[str, ...] = ()
    clock_skew_seconds: int = 30
    subject_claim: str = "sub"
    scope_claim: str = "scope"


@dataclass(frozen=True, slots=True)
class SigningKey:
    """One key of an authority, and its signature algorithms."""

    key_id: str | None
    key: RSAPublicKey | EllipticCurvePublicKey
    algorithms: tuple[str, ...]


def parse_jwks(text: bytes) -> tuple[SigningKey, ...]:
    """The keys that can verify signatures; others are ignored. Raises ValueError with a message, also if there are
    none."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise ValueError("it is not JSON") from problem
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise ValueError('it has no list "keys"')
    if len(entries) > KEYS_MAX:
        raise ValueError(f"it has more than {KEYS_MAX} keys")
    keys = tuple(key for entry in entries if isinstance(entry, dict) and (key := _signing_key(entry)) is not None)
    if not keys:
        raise ValueError("it has no public key that signs by RSA (2048 to 8192 bits) or on a curve P-256, P-384, P-521")
    return keys


def _signing_key(entry: Mapping[str, Any]) -> SigningKey | None:
    import jwt

    kind, curve, key_id = entry.get("kty"), entry.get("crv"), entry.get("kid")
    if entry.get("use", "sig") != "sig" or not isinstance(key_id, str | None):
        return None
    if kind == "RSA":
        algorithms: tuple[str, ...] = tuple(name for name in ALGORITHMS if name[0] != "E")
    elif kind == "EC" and isinstance(curve, str) and curve in _OF_CURVE:
        algorithms = (_OF_CURVE[curve],)
    else:
        return None
    own = entry.get("alg")
    if own is not None:
        algorithms = tuple(name for name in algorithms if name == own)
    if not algorithms:
        return None
    try:
        key = jwt.PyJWK({**entry, "alg": algorithms[0]}).key
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    if kind == "RSA" and not RSA_BITS[0] <= key.key_size <= RSA_BITS[1]:
        return None
    if hasattr(key, "public_key"):  # A private key stands there: who wrote it may not have meant to publish it.
        return None
    return SigningKey(key_id, key, algorithms)


def key_id_of(token: str) -> str | None:
    """The key id that a token names, if it can be read."""
    import jwt

    try:
        found = jwt.get_unverified_header(token).get("kid")
    except (jwt.PyJWTError, ValueError):
        return None
    return found if isinstance(found, str) else None


def check_token(token: str, keys: Sequence[SigningKey], rules: TokenRules, now_ms: int) -> Token:
    """Verify `token`, and return its claims. Raises TokenRefused."""
    if len(token) > TOKEN_CHARACTERS_MAX:
        raise TokenRefused(f"the token has more than {TOKEN_CHARACTERS_MAX} characters")
    return _checked(_claims(token, keys), rules, now_ms / 1000)


def _claims(token: str, keys: Sequence[SigningKey]) -> dict[str, Any]:
    """The claims of a token with a valid signature. Raises TokenRefused."""
    import jwt

    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError) as problem:
        raise TokenRefused("the token is not a signed JSON Web Token") from problem
    algorithm, key_id = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS:
        raise TokenRefused(f"the token is not signed by one of {', '.join(ALGORITHMS)}")
    if "crit" in header:
        raise TokenRefused("the token's header demands extensions (crit), of which none is known here")
    fitting = [key for key in keys if algorithm in key.algorithms and (key_id is None or key.key_id in (None, key_id))]
    for key in fitting[:TRIED_MAX]:
        try:
            payload = jwt.PyJWS(algorithms=[algorithm]).decode_complete(token, key.key, [algorithm])["payload"]
            claims = json.loads(payload)
        except (jwt.PyJWTError, ValueError, RecursionError):
            continue
        if isinstance(claims, dict):
            return claims
    raise TokenRefused("no key of the authority has signed the token")


def _checked(claims: Mapping[str, Any], rules: TokenRules, now: float) -> Token:
    skew = rules.clock_skew_seconds
    expires_at, issued_at = _seconds(claims, "exp"), _seconds(claims, "iat")
    if expires_at is None or issued_at is None:
        raise TokenRefused("the token has no exp or no iat")
    if now - skew >= expires_at:
        raise TokenRefused("the token has expired")
    not_before = _seconds(claims, "nbf")
    if not_before is not None and now + skew < not_before:
        raise TokenRefused("the token is not valid yet (nbf)")
    if expires_at < issued_at or (not_before is not None and expires_at < not_before):
        raise TokenRefused("the token ends before it begins")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise TokenRefused("the token is of another issuer than sasl.oauthbearer.expected.issuer")
    _check_audience(claims.get("aud"), rules.audiences)
    subject = claims.get(rules.subject_claim)
    if not isinstance(subject, str) or not subject.strip():
        raise TokenRefused("the token has no subject (sasl.oauthbearer.sub.claim.name)")
    return Token(
        subject=subject.strip(),
        expires_at_ms=int(expires_at * 1000),
        taken_until_ms=int((expires_at + skew) * 1000),
        scopes=_scopes(claims.get(rules.scope_claim)),
    )


def _check_audience(claim: object, expected: Sequence[str]) -> None:
    """Check the audience. As in Kafka, a token with an audience is rejected if no audience is expected."""
    audiences = [claim] if isinstance(claim, str) else claim if isinstance(claim, list) else []
    if claim is None and not expected:
        return
    if not any(audience in expected for audience in audiences):
        raise TokenRefused("the token is for another audience than sasl.oauthbearer.expected.audience")


def _scopes(claim: object) -> tuple[str, ...]:
    if isinstance(claim, str):
        return tuple(claim.split())
    return tuple(scope for scope in claim if isinstance(scope, str)) if isinstance(claim, list) else ()


def _seconds(claims: Mapping[str, Any], name: str) -> float | None:
    """A NumericDate. Raises TokenRefused for anything else."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53 or math.isnan(value):
        raise TokenRefused(f"the token's {name} is no time")
    return float(value)
