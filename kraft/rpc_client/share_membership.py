"""Membership of a share group (KIP-932). Its one request, ShareGroupHeartbeat, carries the member and its topics; the
response has the assigned partitions.

Several members may have the same partition, so a member adopts an assignment without a handover. Its share sessions and
acquired records outlive a membership that the group has ended.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import trio

from kraft.admin.errors import Refused
from kraft.common.errors import KraftError
from kraft.common.ids import TopicPartition, uuid_to_text
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kraft.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from kraft.rpc_client.backoff import Backoff
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.connection import UnsupportedApi
from kraft.rpc_client.partition_backoff import may_pass
from kraft.rpc_client.share_session import Place

JOINING: Final = 0
LEAVING: Final = -1
NAMING_SECONDS: Final = 0.2
"""The pause before the metadata is requested again, while an assigned topic is missing in it."""
JOIN_AGAIN: Final = frozenset((ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID))


class ShareGroupsOff(KraftError):
    """Raised when the cluster does not serve share groups."""

    def __init__(self, group_id: str) -> None:
        super().__init__(
            f"share group {group_id}: the cluster does not serve share groups: turn them on with `kraft features "
            "upgrade share.version=1`"
        )


def refusal(code: int, group_id: str, message: str | None) -> KraftError:
    """Return the error of a rejected request of a share group."""
    if code == ErrorCode.UNSUPPORTED_VERSION:
        return ShareGroupsOff(group_id)
    return Refused(code, f"share group {group_id}", message)


class ShareMembership:
    """A membership. `assigned` are the partitions by topic id. `failure` is set once the group rejects the member, and
    `obstacle` while the coordinator cannot be reached. `on_change` is called when one of them has changed.
    `heartbeat_seconds` is the interval of heartbeats, after which a changed assignment is known; 0 before the first."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        topics: Sequence[str],
        *,
        max_poll_seconds: float,
        on_change: Callable[[], None],
    ) -> None:
        self.cluster = cluster.apart()
        self.group_id = group_id
        self.member_id = uuid_to_text(cluster.world.random.uuid(f"member of {group_id}"))
        self.assigned: Mapping[Place, TopicPartition] = {}
        self.failure: KraftError | None = None
        self.obstacle: KraftError | TimeoutError | None = None
        self._topics = tuple(sorted(topics))
        self._max_poll_seconds = max_poll_seconds
        self._on_change = on_change
        self._epoch = JOINING
        self._is_member = True
        self._idle_since = math.inf
        self.heartbeat_seconds = 0.0
        self._wanted: tuple[Place, ...] = ()
        self._names: dict[bytes, str] = {}
        self._back = trio.Event()

    def poll_begins(self) -> None:
        """Note that the application polls. A member that has left joins again."""
        self._idle_since = math.inf
        if not self._is_member:
            self._is_member = True
            self._back.set()

    def poll_ended(self) -> None:
        self._idle_since = self.cluster.world.clock.now()

    async def run(self) -> None:
        """Send heartbeats until cancelled, or until the group rejects the member."""
        clock = self.cluster.world.clock
        backoff = Backoff(self.cluster.world.random.stream("share membership"))
        while self.failure is None:
            pause = 0.0
            try:
                pause = await self._turn()
                backoff = Backoff(self.cluster.world.random.stream("share membership"))
                self.obstacle = None
            except UnsupportedApi:
                self.failure = ShareGroupsOff(self.group_id)
            except (KraftError, TimeoutError) as problem:
                self.obstacle = problem
                self.cluster.forget()
                if isinstance(problem, KraftError) and not may_pass(problem):
                    self.failure = problem
                pause = backoff.next()
            self._on_change()
            if self.failure is None:
                await clock.sleep(pause)

    async def _turn(self) -> float:
        """Send one heartbeat, or leave and wait until the application polls again. Returns the seconds until the next
        turn. Raises ApiError, and the errors of `Cluster.call`."""
        if self.cluster.world.clock.now() - self._idle_since > self._max_poll_seconds:
            await self.leave()
        if not self._is_member:
            await self._back.wait()
        await self._beat()
        if not await self._find_names():
            return min(NAMING_SECONDS, self.heartbeat_seconds)
        return self.heartbeat_seconds

    async def _beat(self) -> None:
        joins = self._epoch == JOINING
        request = ShareGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self._epoch,
            subscribed_topic_names=list(self._topics) if joins else None,
        )
        answer: ShareGroupHeartbeatResponse = await self.cluster.call_coordinator(self.group_id, request)
        if answer.error_code in JOIN_AGAIN and not joins:
            self._epoch, self.heartbeat_seconds = JOINING, 0.0
            return
        if answer.error_code != ErrorCode.NONE:
            raise refusal(answer.error_code, self.group_id, answer.error_message)
        self._epoch = answer.member_epoch
        self.heartbeat_seconds = max(answer.heartbeat_interval_ms, 1) / 1000
        if answer.assignment is not None:
            self._wanted = tuple(
                sorted(
                    (bytes(topic.topic_id), index)
                    for topic in answer.assignment.topic_partitions
                    for index in topic.partitions
                )
            )

    async def _find_names(self) -> bool:
        """Update `assigned`. Returns False if the metadata of the node lacks an assigned topic."""
        if any(topic_id not in self._names for topic_id, _ in self._wanted):
            found = await self.cluster.metadata(self._topics)
            self._names = {topic.topic_id: topic.name for topic in found.topics.values()}
        self.assigned = {
            place: TopicPartition(self._names[place[0]], place[1]) for place in self._wanted if place[0] in self._names
        }
        return len(self.assigned) == len(self._wanted)

    async def leave(self) -> None:
        """Leave the group. Makes one attempt. Raises as `Cluster.call`, and ApiError."""
        if not self._is_member:
            return
        self._is_member, self._back = False, trio.Event()
        self.assigned, self._wanted = {}, ()
        self._epoch = JOINING
        request = ShareGroupHeartbeatRequest(group_id=self.group_id, member_id=self.member_id, member_epoch=LEAVING)
        await self.cluster.call_coordinator(self.group_id, request)
