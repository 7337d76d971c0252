"""How a client gets the token for its login (OAUTHBEARER, KIP-768): the source, the request, and the time for which it
is kept.

The source is an authority with the client credentials grant (RFC 6749, section 4.4), or a file that another program
renews. A client reads only the expiry and the subject of its token; nodes check that it is genuine. Keys and options
are those of Kafka's clients.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote_plus, unquote, urlsplit

from kraft.common.config.resources import TLS_KEYS_WITHOUT_EFFECT
from kraft.security.tls import KEYS as TLS_KEYS
from kraft.security.tls import TlsSettings
from kraft.security.tokens import TOKEN_CHARACTERS_MAX

LOGIN_HANDLER: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
HANDLER_KEY: Final = "sasl.login.callback.handler.class"
URL_KEY: Final = "sasl.oauthbearer.token.endpoint.url"
CLIENT_KEYS: Final = (
    HANDLER_KEY,
    URL_KEY,
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
)
"""Keys that a client may set. Others have Kafka's default."""
TIMEOUT_SECONDS: Final = 10.0
"""Default timeout of the connection, and of the response. Kafka has none."""
_OPTIONS: Final = ("clientId", "clientSecret", "scope")
_EXTENSION: Final = "extension_"
_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")
_ERROR_WORD: Final = re.compile(r"[a-z_]{1,64}")
_OK: Final = (200, 201)
_FOR_GOOD: Final = (*range(400, 408), *range(409, 416), 501, 505)
"""HTTP statuses that are not retried, as in Kafka."""

Text = Callable[[str], str | None]
"""The text of a key; None where it is not set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshRules:
    """Kafka's `sasl.login.refresh.*`."""

    window_factor: float = 0.8
    window_jitter: float = 0.05
    period_seconds_min: float = 60.0
    buffer_seconds: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEndpoint:
    """The source of tokens."""

    url: str
    """The URL of the token endpoint (https or http), or of a file with the token."""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    is_urlencoded: bool = False
    """Whether id and secret are encoded before they are sent (RFC 6749, section 2.3.1)."""
    extensions: Mapping[str, str] = field(default_factory=dict)
    """Extensions that are sent to nodes with the token (KIP-342)."""
    subject_claim: str = "sub"
    connect_seconds: float = TIMEOUT_SECONDS
    answer_seconds: float = TIMEOUT_SECONDS
    retry_seconds: float = 0.1
    retry_seconds_max: float = 10.0
    refresh: RefreshRules = RefreshRules()
    tls: TlsSettings
    """Trusted authorities for https, and the client certificate."""

    @property
    def path(self) -> str | None:
        """The file that holds the token; None if the source is an authority."""
        parts = urlsplit(self.url)
        return unquote(parts.path) if parts.scheme == "file" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientToken:
    """A client's own token, with the claims that it reads. Times are ms since the Unix epoch."""

    text: str = field(repr=False)
    subject: str
    issued_at_ms: int | None
    expires_at_ms: int


class NoToken(Exception):
    """Raised if no token is available. The message has the reason, and no secret."""

    def __init__(self, message: str, *, is_final: bool = False) -> None:
        """`is_final`: a retry will not help."""
        super().__init__(message)
        self.is_final = is_final


def read_endpoint(text: Text, options: Mapping[str, str], trust: Mapping[str, Any]) -> TokenEndpoint:
    """The source of tokens, from Kafka's keys and the options of the JAAS text; the keys take precedence. `trust` are
    the TLS settings if the options have none. Raises ValueError with a message that shows no secret."""
    handler = text(HANDLER_KEY)
    if handler not in (None, LOGIN_HANDLER):
        raise ValueError(f"{HANDLER_KEY}: only {LOGIN_HANDLER} is known here; tokens that nobody signed are not made")
    known = (*_OPTIONS, *TLS_KEYS, *TLS_KEYS_WITHOUT_EFFECT)
    strange = [name for name in options if name not in known and not name.startswith(_EXTENSION)]
    if strange:
        raise ValueError(f"the JAAS option {strange[0]} is not known here; tokens that nobody signed are not made")
    url = text(URL_KEY)
    if not url or not is_usable(url) or "@" in urlsplit(url).netloc:
        raise ValueError(f"{URL_KEY} has to name where tokens come from: https://..., http://... or file:///...")
    client_id = text("sasl.oauthbearer.client.credentials.client.id") or options.get("clientId") or ""
    secret = text("sasl.oauthbearer.client.credentials.client.secret") or options.get("clientSecret") or ""
    if urlsplit(url).scheme != "file" and not (client_id and secret):
        raise ValueError(
            "sasl.oauthbearer.client.credentials.client.id and .secret are missing (or clientId and clientSecret in "
            "sasl.jaas.config), by which the authority is asked"
        )
    own_tls = {name: value for name, value in options.items() if name in TLS_KEYS}
    return TokenEndpoint(
        url=url,
        client_id=client_id,
        client_secret=secret,
        scope=text("sasl.oauthbearer.scope") or options.get("scope") or "",
        is_urlencoded=(text("sasl.oauthbearer.header.urlencode") or "").strip().lower() == "true",
        extensions=_extensions(options),
        subject_claim=text("sasl.oauthbearer.sub.claim.name") or "sub",
        connect_seconds=_number(text, "sasl.login.connect.timeout.ms", 1000 * TIMEOUT_SECONDS) / 1000,
        answer_seconds=_number(text, "sasl.login.read.timeout.ms", 1000 * TIMEOUT_SECONDS) / 1000,
        retry_seconds=max(0.1, _number(text, "sasl.login.retry.backoff.ms", 100) / 1000),
        retry_seconds_max=max(0.1, _number(text, "sasl.login.retry.backoff.max.ms", 10_000) / 1000),
        refresh=RefreshRules(
            window_factor=_number(text, "sasl.login.refresh.window.factor", 0.8, 0.5, 1.0),
            window_jitter=_number(text, "sasl.login.refresh.window.jitter", 0.05, 0.0, 0.25),
            period_seconds_min=_number(text, "sasl.login.refresh.min.period.seconds", 60, 0, 900),
            buffer_seconds=_number(text, "sasl.login.refresh.buffer.seconds", 300, 0, 3600),
        ),
        tls=TlsSettings(values=own_tls or trust, is_server=False, prefix=f"{URL_KEY}: "),
    )


def is_usable(url: str) -> bool:
    """Whether the URL is http, https, or a file of this machine."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    if parts.scheme == "file":
        return parts.netloc in ("", "localhost") and parts.path.startswith("/")
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _extensions(options: Mapping[str, str]) -> dict[str, str]:
    """The SASL extensions among the options. Raises ValueError."""
    found = {name.removeprefix(_EXTENSION): value for name, value in options.items() if name.startswith(_EXTENSION)}
    for name, value in found.items():
        if name == "auth" or not _EXTENSION_NAME.fullmatch(name) or not _EXTENSION_VALUE.fullmatch(value):
            raise ValueError(
                f"the JAAS option {_EXTENSION}{name} cannot be sent: a name has letters only, and is not auth"
            )
    return found


def _number(text: Text, name: str, default: float, low: float = 1, high: float = math.inf) -> float:
    """The number in a key, or `default`. Raises ValueError."""
    told = text(name)
    try:
        value = default if told is None or not told.strip() else float(told)
    except ValueError:
        raise ValueError(f"{name}={told} is not a number") from None
    if not low <= value <= high:
        raise ValueError(f"{name}={told} is not within {low:g} and {high:g}")
    return value


def request_headers(endpoint: TokenEndpoint) -> tuple[tuple[str, str], ...]:
    client_id, secret = endpoint.client_id, endpoint.client_secret
    if endpoint.is_urlencoded:
        client_id, secret = quote_plus(client_id), quote_plus(secret)
    pair = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
    return (
        ("Authorization", f"Basic {pair}"),
        ("Cache-Control", "no-cache"),
        ("Content-Type", "application/x-www-form-urlencoded"),
    )


def request_body(endpoint: TokenEndpoint) -> bytes:
    scope = endpoint.scope.strip()
    return b"grant_type=client_credentials" + (f"&scope={quote_plus(scope)}".encode() if scope else b"")


def token_in_answer(status: int, body: bytes) -> str:
    """The token in an authority's response. Raises NoToken, which quotes only the `error` of a rejection."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    told = document if isinstance(document, dict) else {}
    if status not in _OK:
        error = told.get("error")
        word = f" ({error})" if isinstance(error, str) and _ERROR_WORD.fullmatch(error) else ""
        raise NoToken(f"the authority answers with the status {status}{word}", is_final=status in _FOR_GOOD)
    for name in ("access_token", "id_token"):
        found = told.get(name)
        if isinstance(found, str) and found.strip():
            return found
    raise NoToken("the authority's answer has no access_token", is_final=True)


def read_token(text: str, subject_claim: str, now_ms: int) -> ClientToken:
    """The claims of a token, unverified. Raises NoToken."""
    text = text.strip()
    parts = text.split(".")
    if len(text) > TOKEN_CHARACTERS_MAX or len(parts) != 3 or not all(parts):
        raise NoToken("the token is not a JSON Web Token, which has three parts", is_final=True)
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        claims = None
    if not isinstance(claims, dict):
        raise NoToken("the token's claims cannot be read", is_final=True)
    expires_at_ms, issued_at_ms, subject = _ms(claims.get("exp")), _ms(claims.get("iat")), claims.get(subject_claim)
    if expires_at_ms is None:
        raise NoToken("the token tells no time at which it expires (exp)", is_final=True)
    if not isinstance(subject, str) or not subject.strip():
        raise NoToken(f"the token names nobody ({subject_claim})", is_final=True)
    if expires_at_ms <= now_ms:
        raise NoToken("the token has expired already")
    return ClientToken(text=text, subject=subject.strip(), issued_at_ms=issued_at_ms, expires_at_ms=expires_at_ms)


def _ms(seconds: Any) -> int | None:
    """The time in ms; None for an invalid one."""
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    return int(seconds * 1000) if is_number and 0 <= seconds < 2**53 else None


def due_at_ms(token: ClientToken, rules: RefreshRules, now_ms: int, chance: float) -> int:
    """The time at which to replace a token, as Kafka computes it: after a share of its lifetime, but not within
    `buffer_seconds` of its end, and not immediately, if it lives long enough for that. `chance` is from 0 to 1."""
    start = now_ms if token.issued_at_ms is None else min(token.issued_at_ms, now_ms)
    share = rules.window_factor + rules.window_jitter * chance
    proposed = start + int((token.expires_at_ms - start) * share)
    minimum, buffer = int(1000 * rules.period_seconds_min), int(1000 * rules.buffer_seconds)
    if token.expires_at_ms - now_ms < minimum + buffer:
        return proposed
    return max(min(proposed, token.expires_at_ms - buffer), now_ms + minimum)
