"""The tokens for this process's OAUTHBEARER logins: fetched from a token endpoint or read from a file, cached, and
renewed before they expire.

A token is fetched when a login needs one and none is cached, or the cached one is due for renewal. A node also renews
ahead of time, so that no login waits for the endpoint. While the endpoint is down, the old token is used until it
expires.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import trio

from kraft.common.logging import Logger
from kraft.rpc_client.http_fetch import FetchFailed, HttpQuestion, ask_service
from kraft.security.tls import STORE_BYTES_MAX, load_tls
from kraft.security.token_request import (
    ClientToken,
    NoToken,
    TokenEndpoint,
    due_at_ms,
    read_token,
    request_body,
    request_headers,
    token_in_answer,
)
from kraft.world.ports import FileSystem, World

LOOK_SECONDS_MAX = 30.0
"""Longest sleep before a check whether a renewal is due: the wall clock may jump."""
RENEWALS_APART_SECONDS = 1.0
"""The minimum time between renewals, however short the tokens' lifetime."""


class NoLoginToken(OSError):
    """Raised when there is no token for a login."""


class FetchedTokens:
    """The tokens of one endpoint. Any number of tasks of one loop may use it; one of them fetches for all."""

    def __init__(self, endpoint: TokenEndpoint) -> None:
        self.endpoint = endpoint
        self._kept: ClientToken | None = None
        self._due_at_ms = 0
        self._is_renewed_ahead = False
        self._fetching = trio.Lock()
        self._failure: NoToken | None = None
        """The error of the last fetch; None if it succeeded."""
        self._failures = 0
        """The number of failed fetches."""

    @property
    def extensions(self) -> Mapping[str, str]:
        """See `LoginTokens`."""
        return self.endpoint.extensions

    async def token(self, world: World) -> str:
        """See `LoginTokens`. Raises NoLoginToken. Retries for at least `retry_seconds_max`; a caller that cannot wait
        that long cancels it."""
        return (await self.current(world)).text

    async def current(self, world: World) -> ClientToken:
        """Return the same token as `token`, with its claims."""
        kept = self._valid(world)
        if kept is not None and (self._is_renewed_ahead or world.clock.wall_ms() < self._due_at_ms):
            return kept
        try:
            return await self._fetch_in_turn(world)
        except NoToken as problem:
            kept = self._valid(world)
            if kept is not None:
                return kept
            raise NoLoginToken(f"no token can be had from {self.endpoint.url}: {problem}") from problem

    async def renew(self, world: World, log: Logger) -> None:
        """Keep a valid token cached. Runs until cancelled."""
        self._is_renewed_ahead = True
        clock, pause = world.clock, self.endpoint.retry_seconds
        while True:
            left = (self._due_at_ms - clock.wall_ms()) / 1000
            if self._kept is not None and left > 0:
                await clock.sleep(min(left, LOOK_SECONDS_MAX))
                continue
            if await self._renewed(world, log):
                pause = self.endpoint.retry_seconds
                await clock.sleep(RENEWALS_APART_SECONDS)
            else:
                await clock.sleep(pause)
                pause = min(2 * pause, self.endpoint.retry_seconds_max)

    async def _renewed(self, world: World, log: Logger) -> bool:
        """Try to get a new token; return whether there is one. Otherwise the old token stays in use."""
        before = self._kept
        try:
            async with self._fetching:
                token = await self._fetch_once(world)
        except NoToken as problem:
            log.error("no new token to log in by", url=self.endpoint.url, reason=str(problem))
            return False
        if before is not None and token.text == before.text:
            return False
        log.info("token to log in by renewed", url=self.endpoint.url, subject=token.subject)
        return True

    def _valid(self, world: World) -> ClientToken | None:
        kept = self._kept
        return kept if kept is not None and world.clock.wall_ms() < kept.expires_at_ms else None

    async def _fetch_in_turn(self, world: World) -> ClientToken:
        """Fetch a token, one task at a time. A task that waited for another one's fetch shares its result. Raises
        NoToken."""
        failures = self._failures
        async with self._fetching:
            kept = self._valid(world)
            if kept is not None and world.clock.wall_ms() < self._due_at_ms:
                return kept
            if self._failures != failures and self._failure is not None:
                raise self._failure
            return await self._fetch(world)

    async def _fetch(self, world: World) -> ClientToken:
        """Fetch a token, with retries for errors that may pass, as Kafka's clients do. Raises NoToken."""
        clock, pause = world.clock, self.endpoint.retry_seconds
        give_up_at = clock.now() + self.endpoint.retry_seconds_max
        while True:
            try:
                return await self._fetch_once(world)
            except NoToken as problem:
                if problem.is_final or clock.now() + pause > give_up_at:
                    raise
            await clock.sleep(pause)
            pause *= 2

    async def _fetch_once(self, world: World) -> ClientToken:
        """Fetch and parse a token once. Raises NoToken."""
        endpoint, wall_ms = self.endpoint, world.clock.wall_ms
        try:
            token = read_token(await self._text(world), endpoint.subject_claim, wall_ms())
        except NoToken as problem:
            self._failure, self._failures = problem, self._failures + 1
            raise
        chance = world.random.stream("token-refresh").random()
        self._kept, self._due_at_ms = token, due_at_ms(token, endpoint.refresh, wall_ms(), chance)
        self._failure = None
        return token

    async def _text(self, world: World) -> str:
        """Return the token's text. Raises NoToken."""
        endpoint, read = self.endpoint, partial(_read, world.files)
        try:
            if endpoint.path is not None:
                return (await world.threads.run(read, endpoint.path)).decode("latin-1")
            tls = await world.threads.run(load_tls, endpoint.tls, read)
            question = HttpQuestion("POST", request_headers(endpoint), request_body(endpoint))
            answer = await ask_service(
                world,
                endpoint.url,
                tls,
                question,
                connect_seconds=endpoint.connect_seconds,
                answer_seconds=endpoint.answer_seconds,
            )
        except (FetchFailed, OSError, ValueError) as problem:
            raise NoToken(str(problem)) from problem
        return token_in_answer(answer.status, answer.body)


def _read(files: FileSystem, path: str) -> bytes:
    file = files.open(path, writable=False)
    try:
        return file.pread(STORE_BYTES_MAX + 1, 0)
    finally:
        file.close()
