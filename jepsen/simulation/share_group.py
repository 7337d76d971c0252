"""The share group that a part of the simulated runs have."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import trio

from jepsen.simulation.clients.session import TRY_AGAIN, Refused, RoamingSession, Session, Unanswered
from jepsen.simulation.clients.share_members import LOCK_SECONDS, ShareMember
from jepsen.simulation.clients.share_starts import ShareStarts
from jepsen.simulation.recorder import Recorder
from kraft.common.config.resource_type import ResourceType
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.world.simulated import Universe

GROUP: Final = "share-group"
RATE: Final = 0.4
"""Share of the runs with a share group."""
MEMBERS: Final = 3
LIMITS: Final = (5, 25)
SESSION_SECONDS: Final = 4.0
IDLE_SECONDS: Final = SESSION_SECONDS + LOCK_SECONDS + 3.0
"""Longer than the session of a vanished member and the locks of its records."""
SETTINGS: Final = {
    "share.auto.offset.reset": "earliest",
    "share.isolation.level": "read_committed",
    "share.record.lock.duration.ms": str(int(LOCK_SECONDS * 1000)),
}


class ShareGroup:
    """The share group of one run, if the run has one: its configuration, its members, and the
    client that asks for its start offsets."""

    def __init__(
        self,
        universe: Universe,
        recorder: Recorder,
        session: Callable[[str], RoamingSession],
        topics: Mapping[str, int],
    ) -> None:
        """`topics` maps the topics that the group reads to their partition counts."""
        chance: random.Random = universe.stream("shares")
        self._limit = chance.choice(LIMITS) if chance.random() < RATE else None
        """The most deliveries of a record; None without a group."""
        self._universe = universe
        self._recorder = recorder
        self._session = session
        self._topics = topics
        self._members: list[ShareMember] = []
        self._starts: ShareStarts | None = None

    @property
    def is_on(self) -> bool:
        return self._limit is not None

    async def configure(self, session: Session) -> None:
        """Set the group's configuration, with retries until a node has accepted it."""
        if self._limit is None:
            return
        settings = {**SETTINGS, "share.delivery.count.limit": str(self._limit)}
        configs = [AlterableConfig(name=name, config_operation=0, value=value) for name, value in settings.items()]
        resource = AlterConfigsResource(resource_type=ResourceType.GROUP, resource_name=GROUP, configs=configs)
        while True:
            try:
                response = await session.call(IncrementalAlterConfigsRequest(resources=[resource]), 0, 1)
            except Unanswered:
                await session.pause(0.5)
                continue
            code = response.responses[0].error_code
            if code == ErrorCode.NONE:
                return
            if code not in TRY_AGAIN:
                raise Refused("IncrementalAlterConfigs of a share group", code)
            await session.pause(0.5)

    def start(self, nursery: trio.Nursery, client: Callable[[Callable[[], Awaitable[None]]], Awaitable[None]]) -> None:
        """Start the members. They run longer than the other clients, and finish the records that those have written."""
        if self._limit is None:
            return
        for number in range(MEMBERS):
            sessions = self._session(f"share-{number} coordinator"), self._session(f"share-{number}")
            member = ShareMember(sessions, self._recorder, GROUP, self._topics, self._limit)
            self._members.append(member)
            nursery.start_soon(client, member.run)
        self._starts = ShareStarts(self._session("share-starts"), self._recorder, GROUP, self._topics)
        nursery.start_soon(client, self._starts.run)

    async def finish(self) -> None:
        """Wait until no member gets records any more, for longer than a lock; then stop them."""
        for member in self._members:
            member.stays = True
            member.busy_at = self._universe.time.now
        while any(self._universe.time.now < each.busy_at + IDLE_SECONDS for each in self._members):
            await self._universe.sleep(0.5)
        for member in self._members:
            member.stopping.set()
        if self._starts is not None:
            self._starts.is_stopping = True
