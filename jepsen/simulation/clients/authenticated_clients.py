"""The authenticated clients of a simulated cluster: their listener, the guarded topic, the clients, and a final check
of every broker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from jepsen.checker.operations import OK, Partition
from jepsen.simulation.clients.authenticated_client import (
    GUARDED,
    LIMITED,
    STRANGER,
    AuthenticatedClient,
    Insight,
    Permissions,
    password,
    settings,
)
from jepsen.simulation.clients.readers import Reader
from jepsen.simulation.clients.session import RoamingSession, Session, Unanswered
from jepsen.simulation.clients.topic_makers import create_topic
from jepsen.simulation.faults.node_faults import CLIENTS
from jepsen.simulation.layouts import GUESTS_PORT
from jepsen.simulation.recorder import Recorder
from kraft.world.ports import Login, SecuredWorld
from kraft.world.simulated import Universe

OPEN_RATE: Final = 0.25
REPLICAS: Final = 3
IN_SYNC: Final = {"min.insync.replicas": "2", "internal.segment.bytes": "20000"}


class AuthenticatedClients:
    """The authenticated clients of one run. `is_open` is false if the run has none. `session` opens a session for the
    administrator."""

    def __init__(
        self,
        universe: Universe,
        recorder: Recorder,
        brokers: Sequence[str],
        session: Callable[[str], Session],
        insight: Insight,
    ) -> None:
        self._universe = universe
        self._recorder = recorder
        self._hosts = tuple(f"node-{broker}" for broker in brokers)
        self._session = session
        self._insight = insight
        self._permissions = Permissions(session("permissions"), recorder)
        self.is_open = universe.stream("guests").random() < OPEN_RATE
        self.places: tuple[Partition, ...] = (GUARDED,) if self.is_open else ()
        self.settings = settings() if self.is_open else None

    async def set_up(self, session: Session) -> None:
        """Create the guarded topic, and grant the user with the quota the permission to write."""
        if not self.is_open:
            return
        while await create_topic(session, GUARDED[0], 1, REPLICAS, IN_SYNC) != OK:
            await session.pause(0.5)
        await self._permissions.admit(LIMITED)
        await self._permissions.limit(LIMITED)

    def clients(self) -> list[Permissions | AuthenticatedClient | Reader]:
        if not self.is_open:
            return []
        return [
            self._permissions,
            self._guest(lambda: self._permissions.user),
            self._guest(lambda: STRANGER),
            self._guest(lambda: LIMITED, reads=False),
            Reader(self._session("guarded reader"), self._recorder, GUARDED),
        ]

    async def take_all(self) -> None:
        """Revoke all permissions: see `Permissions.take_all`."""
        if self.is_open:
            await self._permissions.take_all()

    async def connect_everywhere(self) -> None:
        """Check at every broker that users whose permission was revoked are refused, and so is the user that never had
        it."""
        if not self.is_open:
            return
        for host in self._hosts:
            for user in (*self._permissions.users, STRANGER):
                await self._knock(host, user)

    def _guest(self, user: Callable[[], str], *, reads: bool = True) -> AuthenticatedClient:
        return AuthenticatedClient(self._log_in, self._recorder, self._insight, user, reads=reads)

    async def _knock(self, host: str, user: str) -> None:
        session = self._log_in(user, host, name=f"final {user} at {host}")
        guest = self._guest(lambda: user)
        while True:
            try:
                await guest.write(session, user)
                return session.close()
            except Unanswered:
                await session.pause(0.5)

    def _log_in(self, user: str, *hosts: str, name: str = "") -> RoamingSession:
        """Open a session of a user to `hosts`, by default to all brokers."""
        login = Login(mechanism="PLAIN", username=user, password=password(user))
        return RoamingSession(
            SecuredWorld(self._universe.world_for(CLIENTS), None, login),
            hosts or self._hosts,
            GUESTS_PORT,
            name or user,
        )
