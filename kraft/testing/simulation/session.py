"""A client that reconnects, and speaks any version that both sides know."""

from __future__ import annotations

import random
from typing import Any

from kraft.client.connection import ClientConnection, Disconnected, open_connection
from kraft.protocol.error_codes import name_of
from kraft.world.ports import World

REQUEST_SECONDS = 10.0


class Unanswered(Exception):
    """No answer came: the request may have had its effect or not, or may still have it."""


class Refused(Exception):
    """The node answered with an error code that the caller did not ask about."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(f"{what}: {name_of(code)}")
        self.code = code


class Session:
    """One connection at a time to one node; used by one task. Versions are drawn anew for each request."""

    def __init__(self, world: World, host: str, port: int, name: str) -> None:
        self.world = world
        self.name = name
        self.chance: random.Random = world.random.stream(f"session {name}")
        self._host = host
        self._port = port
        self._connection: ClientConnection | None = None

    async def call(self, request: Any, low: int, high: int) -> Any:
        """Send `request` in a version drawn from `low` to `high`, as far as the node serves them. Raises Unanswered."""
        try:
            if self._connection is None or not self._connection.is_open:
                self._connection = await open_connection(self.world, self._host, self._port, client_id=self.name, timeout=REQUEST_SECONDS)
            least, most = self._connection.versions[request.API_KEY]
            version = self.chance.randint(max(low, least), min(high, most))
            return await self._connection.call(request, version=version, timeout=REQUEST_SECONDS)
        except (Disconnected, TimeoutError) as problem:
            self.close()
            raise Unanswered(str(problem)) from problem

    def close(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None

    async def pause(self, seconds_most: float) -> None:
        await self.world.clock.sleep(self.chance.uniform(0.0, seconds_most))
