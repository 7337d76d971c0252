"""The requests with which a client of a SASL listener authenticates, and the requests permitted before that.

A session belongs to one connection. Its states:

    versions -> handshake -> messages (of SaslAuthenticate, or raw after a handshake of version 0) -> authenticated

A handshake of an authenticated session returns it to `messages` if sessions expire (connections.max.reauth.ms).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from kraft.security.delegation_tokens import TokenLogin
from kraft.security.sasl.errors import SaslRefused
from kraft.security.sasl.oauthbearer import OAUTHBEARER, OAuthBearerServer, TokenCheck
from kraft.security.sasl.plain import PLAIN, PlainServer
from kraft.security.sasl.scram import Credential, ScramServer
from kraft.security.scram_credentials import MECHANISMS, ScramMechanism

PASSWORD_MECHANISMS: Final = (PLAIN, *MECHANISMS)
"""Mechanisms with a name and a password."""
SERVED_MECHANISMS: Final = (*PASSWORD_MECHANISMS, OAUTHBEARER)
"""Mechanisms of listeners, and of this node's and the commands' own logins."""


class MechanismServer(Protocol):
    """One login by one mechanism. `user` is the authenticated user, None until then."""

    user: str | None

    @property
    def expires_at_ms(self) -> int | None:
        """The expiry of the login in ms since 1970; None: only the listener's limit applies."""

    @property
    def by_token(self) -> bool:
        """Whether the login was by a delegation token."""

    def evaluate(self, message: bytes) -> bytes:
        """The response to a message. Raises SaslRefused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """The SASL settings of one listener."""

    mechanisms: tuple[str, ...]
    """Mechanisms in the order in which they are offered."""
    plain_users: Mapping[str, str] = field(default_factory=dict, repr=False)
    session_ms_max: int = 0
    """connections.max.reauth.ms; 0: no limit."""
    failed_delay_ms: int = 100
    """connection.failed.authentication.delay.ms."""
    message_bytes_max: int = 524_288
    """sasl.server.max.receive.size."""
    token_check: TokenCheck | None = field(default=None, repr=False)
    """Validates tokens of OAUTHBEARER, if the listener serves it."""


Credentials = Callable[[str, int], Credential | None]
"""Look-up of a credential: (user, number of the mechanism) -> the stored credential."""
Tokens = Callable[[str, ScramMechanism], TokenLogin | None]
"""Look-up of a delegation token: (token id, mechanism) -> the token's login."""


def no_tokens(token_id: str, mechanism: ScramMechanism) -> TokenLogin | None:
    """The token lookup of a node without delegation tokens."""
    return None


class SaslSession:
    """The logins of one connection. Raises SaslRefused if a login fails: the connection must be closed then."""

    __slots__ = (
        "_credentials",
        "_is_raw",
        "_nonce",
        "_server",
        "_settings",
        "_tokens",
        "by_token",
        "ends_at",
        "is_over",
        "mechanism",
        "user",
    )

    def __init__(
        self,
        settings: SaslSettings,
        credentials: Credentials,
        nonce: Callable[[], str],
        tokens: Tokens = no_tokens,
    ) -> None:
        self._settings = settings
        self._credentials = credentials
        self._tokens = tokens
        self.by_token = False
        """Whether the last login was by a delegation token."""
        self._nonce = nonce
        self._server: MechanismServer | None = None
        self._is_raw = False
        self.is_over = False
        """Whether a login has failed, so that no further data is accepted."""
        self.mechanism: str | None = None
        self.user: str | None = None
        """User of the last login; None before the first one."""
        self.ends_at: float | None = None
        """End of the session, on the node's monotonic clock."""

    @property
    def logs_in(self) -> bool:
        """Whether a handshake has begun a login that is not over."""
        return self._server is not None

    @property
    def expects_raw(self) -> bool:
        """Whether the next frame is a message of the mechanism, without a header."""
        return self._is_raw and self._server is not None

    def begin(self, mechanism: str, version: int) -> bool:
        """Process a handshake. Returns False for an unsupported mechanism. Raises SaslRefused."""
        if mechanism not in self._settings.mechanisms:
            return False
        if self.user is not None and mechanism != self.mechanism:
            raise SaslRefused(
                f"SASL mechanism '{mechanism}' requested by client is not supported for re-authentication of "
                f"mechanism '{self.mechanism}'"
            )
        self.mechanism, self._is_raw = mechanism, version == 0
        if mechanism == PLAIN:
            self._server = PlainServer(self._settings.plain_users)
        elif mechanism == OAUTHBEARER:
            assert self._settings.token_check is not None
            self._server = OAuthBearerServer(self._settings.token_check)
        else:
            known = MECHANISMS[mechanism]
            self._server = ScramServer(
                known,
                lambda user: self._credentials(user, known.number),
                self._nonce(),
                lambda token_id: self._tokens(token_id, known),
            )
        return True

    def evaluate(self, message: bytes, now: float, wall_ms: int) -> tuple[bytes, int]:
        """The response to a mechanism's message, and the session's lifetime in ms if that completed the login (0:
        unlimited). `now` is the node's clock, `wall_ms` the wall clock. Raises SaslRefused."""
        server = self._server
        assert server is not None
        answer = server.evaluate(message)
        user = server.user
        if user is None:
            return answer, 0
        self._server = None
        if self.user is not None and user != self.user:
            raise SaslRefused(f"Cannot change principals during re-authentication from User:{self.user}: User:{user}")
        lasts = self._settings.session_ms_max
        is_bounded = lasts > 0
        if server.expires_at_ms is not None:
            left = server.expires_at_ms - wall_ms
            if left <= 0 and server.by_token:
                raise SaslRefused("Authentication failed: what the client has logged in by has expired", user)
            # A signed token is taken a moment longer, since clocks differ: as in Kafka, its session ends at once.
            lasts, is_bounded = max(min(lasts or left, left), 0), True
        self.user, self.by_token = user, server.by_token
        self.ends_at = now + lasts / 1000 if is_bounded else None
        return answer, lasts

    def has_ended(self, now: float) -> bool:
        return self.ends_at is not None and now >= self.ends_at
