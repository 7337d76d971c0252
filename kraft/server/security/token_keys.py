"""The keys with which authorities sign tokens (sasl.oauthbearer.jwks.endpoint.url): fetched, cached and renewed in the
background.

A file is checked for changes every few seconds. A URL is fetched every `jwks.endpoint.refresh.ms`, and earlier if a
token names an unknown key. After a failure it is retried, and the previous keys remain valid for a day at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import unquote, urlsplit

import trio

from kraft.common.logging import Logger
from kraft.rpc_client.http_fetch import FETCH_SECONDS_MAX, FetchFailed, fetch_document
from kraft.security.sasl.oauthbearer import TokenCheck
from kraft.security.tls import TlsSettings, load_tls
from kraft.security.tokens import (
    SigningKey,
    Token,
    TokenRefused,
    TokenRules,
    check_token,
    key_id_of,
    parse_jwks,
)
from kraft.server.security.tls_keys import LOOK_SECONDS, read_store
from kraft.world.ports import World

STALE_SECONDS_MAX: Final = 86_400.0
"""How long keys stay valid that cannot be refreshed."""
ASKED_SECONDS_MIN: Final = 10.0
"""Shortest time between two fetches for tokens with unknown keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSource:
    """The settings with which one listener verifies tokens."""

    url: str
    rules: TokenRules
    refresh_seconds: float
    retry_seconds: float
    retry_seconds_max: float
    tls: TlsSettings
    """Trusted authorities for https."""


class TokenKeys:
    """The token keys of all listeners of a node."""

    def __init__(self, world: World, sources: Mapping[str, TokenSource], log: Logger) -> None:
        """`sources` are by listener."""
        self._sources = sources
        self._authorities: dict[str, _Authority] = {}
        self._world = world
        for source in sources.values():
            self._authorities.setdefault(source.url, _Authority(world, source, log))

    def check_of(self, listener: str) -> TokenCheck | None:
        """The check of a listener's tokens; None if it accepts none."""
        source = self._sources.get(listener)
        return None if source is None else partial(self._check, source)

    @property
    def checks(self) -> list[TokenCheck]:
        """The checks of all listeners."""
        return [partial(self._check, source) for source in self._sources.values()]

    async def start(self, nursery: trio.Nursery) -> None:
        """Start renewing the keys. Returns when each authority has been asked once or has not answered in time."""
        for authority in self._authorities.values():
            nursery.start_soon(authority.run)
        with self._world.clock.move_on_after(FETCH_SECONDS_MAX):
            for authority in self._authorities.values():
                await authority.asked.wait()

    def _check(self, source: TokenSource, token: str) -> Token:
        return self._authorities[source.url].check(token, source.rules)


class _Authority:
    """The keys of one JWKS document."""

    def __init__(self, world: World, source: TokenSource, log: Logger) -> None:
        self._world, self._source, self._log = world, source, log
        self._keys: tuple[SigningKey, ...] = ()
        self._read: bytes | None = None
        self._renewed_at = 0.0
        self._wanted = trio.Event()
        self.asked = trio.Event()
        """Set when the document was requested once, with or without success."""

    def check(self, token: str, rules: TokenRules) -> Token:
        """Verify a token. Raises TokenRefused."""
        now = self._world.clock.now()
        if not self._keys or now - self._renewed_at > STALE_SECONDS_MAX:
            self._wanted.set()
            raise TokenRefused(f"the keys at {self._source.url} could not be fetched")
        key_id = key_id_of(token)
        if key_id is not None and all(key.key_id != key_id for key in self._keys):
            self._wanted.set()
        return check_token(token, self._keys, rules, self._world.clock.wall_ms())

    async def run(self) -> None:
        """Renew the keys until cancelled."""
        clock, source = self._world.clock, self._source
        is_file = urlsplit(source.url).scheme == "file"
        pause = source.retry_seconds
        while True:
            is_renewed = await self._renew()
            self.asked.set()
            if not is_renewed:
                await clock.sleep(LOOK_SECONDS if is_file else pause)
                pause = min(2 * pause, source.retry_seconds_max)
                continue
            pause, until = source.retry_seconds, clock.now() + (LOOK_SECONDS if is_file else source.refresh_seconds)
            self._wanted = trio.Event()
            await clock.sleep(min(ASKED_SECONDS_MIN, until - clock.now()))
            with clock.move_on_at(until):
                await self._wanted.wait()

    async def _renew(self) -> bool:
        try:
            document = await self._document()
            if document != self._read:
                self._keys = await self._world.threads.run(parse_jwks, document)
                self._read = document
                self._log.info("token keys loaded", url=self._source.url, keys=len(self._keys))
        except (FetchFailed, OSError, ValueError) as problem:
            self._log.error(
                "token keys could not be renewed: the previous keys are used for at most a day",
                url=self._source.url,
                reason=str(problem),
            )
            return False
        self._renewed_at = self._world.clock.now()
        return True

    async def _document(self) -> bytes:
        """Read or fetch the document. Raises FetchFailed, OSError, TlsProblem."""
        parts = urlsplit(self._source.url)
        if parts.scheme == "file":
            return await self._world.threads.run(read_store, self._world.files, unquote(parts.path))
        read = partial(read_store, self._world.files)
        tls = await self._world.threads.run(load_tls, self._source.tls, read)
        return await fetch_document(self._world, self._source.url, tls)
