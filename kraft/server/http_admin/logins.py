"""Authentication at the HTTP admin: by a name and password (HTTP Basic) that a listener of this node also accepts, or
by a client certificate.

Passwords are checked as listeners do it: PLAIN's against the configuration, SCRAM's against the metadata. SCRAM takes
milliseconds of CPU time, so it runs in a thread, one check at a time. A successful login is cached without the
password, and is valid while the credential is unchanged.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import math
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import trio
from kraft_http.ports import Caller, LoginRefused

from kraft.common.config.node.node_config import NodeConfig
from kraft.common.errors import ConfigurationError
from kraft.network.login_outcome import CREDENTIALS, MECHANISM, PRINCIPAL, REQUEST, LoginOutcome, Report
from kraft.security.certificates import HTTP_ADMIN
from kraft.security.principal_mapping import PrincipalMapping
from kraft.security.sasl.authentication import Credentials
from kraft.security.sasl.oauthbearer import TokenCheck
from kraft.security.sasl.plain_users import PlainUsers
from kraft.security.sasl.scram import Credential
from kraft.security.scram_credentials import MECHANISMS, ScramMechanism, keys_of, salted_password
from kraft.security.tokens import TokenRefused
from kraft.server.security.logins import NodeLogins
from kraft.world.ports import World

if TYPE_CHECKING:
    from kraft.world.ports import Clock

K = TypeVar("K")
V = TypeVar("V")

LISTENER: Final = HTTP_ADMIN
"""The name in events and counters of logins, besides those of listeners."""
BASIC: Final = "BASIC"
BEARER: Final = "BEARER"
CERTIFICATE: Final = "TLS"
KEPT_MAX: Final = 1_000
"""The number of successful logins that are cached. The least recently used one is dropped."""
ATTEMPTS_MAX: Final = 10
"""Limit of logins of one address that fail in a row or are in progress."""
ATTEMPTS_A_SECOND: Final = 1.0
"""Rate at which an address regains attempts."""
HOSTS_MAX: Final = 1_000
HASHES_WAITING_MAX: Final = 32
"""Limit of passwords of all addresses that wait to be checked."""
HEADER_CHARACTERS_MAX: Final = 4_096

ASK_FOR_PASSWORD: Final = (
    "Log in with the name and password of a Kafka user (HTTP Basic): a browser asks for them, curl takes -u NAME."
)
ASK_FOR_CERTIFICATE: Final = (
    "Present a certificate that an authority trusted by this node has signed "
    "(kraft.admin.ssl.truststore.location): curl takes --cert."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """The identity of an authenticated caller."""

    principal: str
    user: str = ""
    mechanism: int = 0
    """SCRAM's number; 0 for other mechanisms."""
    credential: Credential | None = None
    """The SCRAM credential against which the password was checked."""
    plain_users: PlainUsers | None = None
    """The PLAIN users among which the user was found."""
    plain_version: int = 0
    """Version of `plain_users` at the login."""
    expires_at_ms: int | None = None
    """Expiry in ms since 1970."""


class AdminLogins(Protocol):
    """Authenticates callers. Used on the node's loop only."""

    async def log_in(self, host: str, caller: Caller) -> Login:
        """Authenticate the caller. Raises LoginRefused."""

    def holds(self, login: Login) -> bool:
        """Whether the login is still valid."""


class CertificateLogins:
    """Authenticates by client certificates, which TLS has already verified."""

    def __init__(self, mapping: PrincipalMapping, report: Report) -> None:
        self._mapping = mapping
        self._report = report
        self._known: dict[bytes, Login] = {}

    async def log_in(self, host: str, caller: Caller) -> Login:
        """See `AdminLogins`."""
        await trio.lowlevel.checkpoint()
        if caller.certificate is None:
            raise LoginRefused(403, ASK_FOR_CERTIFICATE)
        digest = sha256(caller.certificate).digest()
        login = self._known.get(digest)
        if login is None:
            try:
                login = Login(principal=self._mapping.principal(caller.certificate))
            except ValueError as problem:
                self._report(LoginOutcome(CERTIFICATE, host, failure=PRINCIPAL, reason=str(problem)))
                raise LoginRefused(403, f"The certificate's name maps to no user: {problem}.") from problem
            self._report(LoginOutcome(CERTIFICATE, host, login.principal))
        _keep(self._known, digest, login, KEPT_MAX)
        return login

    def holds(self, login: Login) -> bool:
        """Return True: as on a listener, a certificate stays valid as long as its connection is open."""
        return True


class BasicLogins:
    """Authenticates by names and passwords."""

    def __init__(
        self,
        world: World,
        *,
        plain_users: Sequence[PlainUsers],
        mechanisms: Sequence[ScramMechanism],
        credentials: Credentials,
        failed_delay_ms: int,
        report: Report,
        token_checks: Sequence[TokenCheck] = (),
    ) -> None:
        """`plain_users` has the passwords by name for each listener. `credentials` returns the newest ones of the
        metadata. `token_checks` are those of listeners that accept tokens. A wrong password is answered after
        `failed_delay_ms`, so that the time reveals nothing about names."""
        self._clock = world.clock
        self._threads = world.threads
        self._plain_users = plain_users
        self._mechanisms = mechanisms
        self._credentials = credentials
        self._delay_seconds = failed_delay_ms / 1000
        self._report = report
        self._token_checks = token_checks
        self._attempts = LoginAttempts(world.clock)
        self._secret = world.random.uuid("admin-logins") + world.random.uuid("admin-logins")
        self._known: dict[bytes, Login] = {}
        self._under_way: dict[bytes, _Trial] = {}
        self._hash_turns = trio.Lock()
        self._hashes = 0

    async def log_in(self, host: str, caller: Caller) -> Login:
        """See `AdminLogins`."""
        if caller.authorization is None:
            await trio.lowlevel.checkpoint()
            raise LoginRefused(401, ASK_FOR_PASSWORD)
        digest = hmac.digest(self._secret, caller.authorization.encode("latin-1", "replace"), "sha256")
        while True:
            login = self._known.get(digest)
            if login is not None and self.holds(login):
                _keep(self._known, digest, login, KEPT_MAX)
                await trio.lowlevel.checkpoint()
                return login
            self._known.pop(digest, None)
            other = self._under_way.get(digest)
            if other is None:
                return await self._try(host, caller.authorization, digest)
            await other.over.wait()  # The same name and password: one check does for all who wait.
            if other.refusal is not None:
                raise LoginRefused(other.refusal.status, str(other.refusal), other.refusal.retry_seconds)

    def holds(self, login: Login) -> bool:
        """Whether the login is still valid: the user's credential was neither changed nor removed, and the token has
        not expired."""
        if login.expires_at_ms is not None and self._clock.wall_ms() >= login.expires_at_ms:
            return False
        if login.plain_users is not None and login.plain_users.version != login.plain_version:
            return False
        return login.credential is None or self._credentials(login.user, login.mechanism) == login.credential

    async def _try(self, host: str, authorization: str, digest: bytes) -> Login:
        trial = self._under_way[digest] = _Trial()
        try:
            login = await self._admitted(host, authorization)
        except LoginRefused as problem:
            trial.refusal = problem
            raise
        finally:
            del self._under_way[digest]
            trial.over.set()
        _keep(self._known, digest, login, KEPT_MAX)
        return login

    async def _admitted(self, host: str, authorization: str) -> Login:
        wait = self._attempts.take(host)
        if wait:
            await trio.lowlevel.checkpoint()
            self._report(
                LoginOutcome(BASIC, host, failure=CREDENTIALS, reason="too many logins from the address failed")
            )
            raise LoginRefused(429, f"Too many logins from {host} have failed. Try again later.", math.ceil(wait))
        answer_at = self._clock.now() + self._delay_seconds
        try:
            login = await self._checked(host, authorization)
        except LoginRefused:
            self._attempts.give_back(host)  # It was not looked at.
            raise
        if login is None:
            await self._clock.sleep(max(0.0, answer_at - self._clock.now()))
            what = (
                "The token is not valid."
                if authorization[:7].lower() == "bearer "
                else "The name or the password is wrong."
            )
            raise LoginRefused(401, f"{what} {ASK_FOR_PASSWORD}")
        self._attempts.give_back(host)
        return login

    async def _checked(self, host: str, authorization: str) -> Login | None:
        """The login for an Authorization header. For an invalid one, report the failure and return None."""
        scheme, _, encoded = authorization.partition(" ")
        if scheme.lower() == "bearer" and self._token_checks:
            return self._by_token(host, encoded.strip())
        if scheme.lower() != "basic":
            reason = "the client uses another HTTP authentication scheme than Basic"
            self._report(LoginOutcome(BASIC, host, failure=MECHANISM, reason=reason))
            return None
        parsed = _name_and_password(encoded)
        if parsed is None:
            reason = "the header Authorization is not valid for HTTP Basic"
            self._report(LoginOutcome(BASIC, host, failure=REQUEST, reason=reason))
            return None
        user, password = parsed
        login = await self._verified(user, password)
        if login is None:
            reason = "Authentication failed: Invalid username or password"
            self._report(LoginOutcome(BASIC, host, user, CREDENTIALS, reason))
        else:
            self._report(LoginOutcome(BASIC, host, user))
        return login

    def _by_token(self, host: str, text: str) -> Login | None:
        reasons = []
        for check in self._token_checks:
            try:
                token = check(text)
            except TokenRefused as problem:
                reasons.append(str(problem))
                continue
            self._report(LoginOutcome(BEARER, host, token.subject))
            return Login(principal=f"User:{token.subject}", user=token.subject, expires_at_ms=token.taken_until_ms)
        self._report(LoginOutcome(BEARER, host, failure=CREDENTIALS, reason="; ".join(dict.fromkeys(reasons))))
        return None

    async def _verified(self, user: str, password: str) -> Login | None:
        principal = f"User:{user}"
        for users in self._plain_users:
            known = users.get(user)
            # Compared also for unknown names, so that time does not tell which names there are.
            if hmac.compare_digest((known or "\0").encode(), password.encode()) and known:
                return Login(principal=principal, user=user, plain_users=users, plain_version=users.version)
        for mechanism in self._mechanisms:
            credential = self._credentials(user, mechanism.number)
            if credential is None or credential.iterations < mechanism.iterations_min:
                continue
            salted = await self._salted(mechanism, password, credential)
            if hmac.compare_digest(keys_of(mechanism, salted).stored_key, credential.stored_key):
                return Login(principal=principal, user=user, mechanism=mechanism.number, credential=credential)
        return None

    async def _salted(self, mechanism: ScramMechanism, password: str, credential: Credential) -> bytes:
        if self._hashes >= HASHES_WAITING_MAX:
            raise LoginRefused(503, "Too many logins are waiting to be checked. Try again later.", 1)
        self._hashes += 1
        try:
            async with self._hash_turns:
                return await self._threads.run(
                    salted_password, mechanism, password, credential.salt, credential.iterations
                )
        finally:
            self._hashes -= 1


class _Trial:
    """A check of a name and password that is in progress."""

    def __init__(self) -> None:
        self.over = trio.Event()
        self.refusal: LoginRefused | None = None


class LoginAttempts:
    """The number of failed logins that each address has left."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}
        """By address: its remaining attempts, and the time at which they were counted."""

    def take(self, host: str) -> float:
        """Use one attempt of the address. Returns 0; or, if it has none left, the seconds until it regains one."""
        left = self._left_of(host)
        if left < 1:
            return (1 - left) / ATTEMPTS_A_SECOND
        _keep(self._left, host, (left - 1, self._clock.now()), HOSTS_MAX)
        return 0.0

    def give_back(self, host: str) -> None:
        """Restore the attempt that `take` used, after a login that did not fail."""
        _keep(self._left, host, (min(self._left_of(host) + 1, ATTEMPTS_MAX), self._clock.now()), HOSTS_MAX)

    def _left_of(self, host: str) -> float:
        left, at = self._left.get(host, (float(ATTEMPTS_MAX), 0.0))
        return min(left + (self._clock.now() - at) * ATTEMPTS_A_SECOND, ATTEMPTS_MAX)


def _keep(kept: dict[K, V], key: K, value: V, entries_max: int) -> None:
    """Keep an entry as the newest. Beyond `entries_max` the oldest is dropped."""
    kept.pop(key, None)
    if len(kept) >= entries_max:
        del kept[next(iter(kept))]
    kept[key] = value


def _name_and_password(encoded: str) -> tuple[str, str] | None:
    """The name and password of HTTP Basic (RFC 7617) in UTF-8; None for anything else."""
    if len(encoded) > HEADER_CHARACTERS_MAX:
        return None
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    user, colon, password = text.partition(":")
    return (user, password) if user and colon and password else None


def make_admin_logins(
    world: World,
    config: NodeConfig,
    credentials: Credentials,
    report: Report,
    token_checks: Sequence[TokenCheck] = (),
    plain_users: Sequence[PlainUsers] = (),
) -> AdminLogins | None:
    """The authentication of the HTTP admin; None if it requires no login. `plain_users` are those of each listener, and
    follow its changes. Raises ConfigurationError."""
    match config.text("kraft.admin.authentication"):
        case "basic":
            return _basic_logins(world, config, credentials, report, token_checks, plain_users)
        case "mtls":
            return CertificateLogins(principals_of_certificates(config), report)
    return None


def principals_of_certificates(config: NodeConfig) -> PrincipalMapping:
    """The mapping from certificates of the HTTP admin's clients to principals. Raises ConfigurationError."""
    key = "kraft.admin.ssl.principal.mapping.rules"
    try:
        return PrincipalMapping(config.text(key))
    except ValueError as problem:
        raise ConfigurationError([f"{key}: {problem}"]) from problem


def _basic_logins(
    world: World,
    config: NodeConfig,
    credentials: Credentials,
    report: Report,
    token_checks: Sequence[TokenCheck],
    plain_users: Sequence[PlainUsers],
) -> BasicLogins:
    """The logins of the node's listeners, or those of SCRAM users if no listener requires a login."""
    logins = NodeLogins(config)
    found = [logins.of_listener(endpoint.name) for endpoint in config.listeners]
    settings = [each for each in found if each is not None]
    served = [name for each in settings for name in each.mechanisms] or list(MECHANISMS)
    return BasicLogins(
        world,
        plain_users=plain_users,
        mechanisms=[mechanism for name, mechanism in MECHANISMS.items() if name in served],
        credentials=credentials,
        failed_delay_ms=config.integer("connection.failed.authentication.delay.ms"),
        report=report,
        token_checks=token_checks,
    )
