"""Membership of a consumer group with the protocol of KIP-848. Its one request, ConsumerGroupHeartbeat, carries the
member and its current assignment; the response has the target assignment. The coordinator assigns.

As with the classic protocol, one task calls `join` and `leave`. `heartbeat` runs beside it, and sets `must_join` when
the assignment should change. A revoked partition is kept until that task has committed and calls `join`, so no other
member reads it before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from kraft.admin.errors import Refused, check
from kraft.common.errors import ApiError, KraftError
from kraft.common.ids import TopicPartition, uuid_to_text
from kraft.protocol.error_codes import ErrorCode, is_retriable
from kraft.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kraft.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.connection import Disconnected, UnsupportedApi
from kraft.rpc_client.errors import NoBroker
from kraft.rpc_client.group_membership import MAX_POLL_SECONDS
from kraft.rpc_client.partition_backoff import may_pass

HEARTBEAT_SECONDS = 1.0
"""The interval until the coordinator sends its own (group.consumer.heartbeat.interval.ms)."""
JOINING, LEAVING, LEAVING_FOR_NOW = 0, -1, -2
"""Member epochs in requests: to join, to leave, and, for static members, to leave temporarily."""
PATTERN_VERSION = 1
JOIN_AGAIN = frozenset((ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH))
TopicIdPartitions = dict[bytes, tuple[int, ...]]
"""Partitions by topic id, sorted."""


class ConsumerMembership:
    """A membership. `generation` is the member epoch; -1 while not a member. Otherwise as `GroupMembership`."""

    join_again = JOIN_AGAIN

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        topics: Sequence[str],
        *,
        pattern: str | None = None,
        instance_id: str | None = None,
        assignor: str | None = None,
        max_poll_seconds: float = MAX_POLL_SECONDS,
    ) -> None:
        """`pattern` (RE2/J, as the coordinator requires) selects topics by name in addition to `topics`. `assignor` is
        one of the coordinator's; None means the coordinator's default."""
        self.cluster = cluster.apart()
        self.group_id = group_id
        self.instance_id = instance_id
        self.member_id = uuid_to_text(cluster.world.random.uuid(f"member of {group_id}"))
        self.generation = -1
        self.assigned: tuple[TopicPartition, ...] = ()
        self.must_join = True
        self.failure: KraftError | None = None
        self.idle_since = math.inf
        self._topics = tuple(sorted(topics))
        self._pattern = pattern
        self._assignor = assignor
        self._max_poll_seconds = max_poll_seconds
        self._seconds = HEARTBEAT_SECONDS
        self._held: TopicIdPartitions = {}
        self._wanted: TopicIdPartitions = {}
        self._names: dict[bytes, str] = {}
        self._is_joining = False
        self._is_in_doubt = False
        """Whether the last heartbeat may be lost: the next one then sends the full state."""

    async def join(self) -> None:
        """Become a member, or adopt the coordinator's target assignment. The caller has committed and reads nothing
        meanwhile. Raises ApiError, DeadlinePassed."""
        self._is_joining = True
        try:
            if self.generation < 0:
                self._held = {}
                await self.cluster.retrying(self._begin)
            while True:
                self._held = self._wanted
                self.assigned = await self.cluster.retrying(self._named)
                await self.cluster.retrying(self._tell)
                if self.generation >= 0 and self._wanted == self._held:
                    break
                if self.generation < 0:
                    await self.cluster.retrying(self._begin)
            self.must_join = False
        finally:
            self._is_joining = False

    async def _begin(self) -> None:
        """Join without assigned partitions. Makes one attempt."""
        self.forget()
        await self._beat(JOINING, says_all=True)

    async def _tell(self) -> None:
        """Report the current assignment to the coordinator. Makes one attempt."""
        if self.generation >= 0:
            await self._beat(self.generation, says_all=True)

    async def _named(self) -> tuple[TopicPartition, ...]:
        """Return the current assignment with topic names. Makes one attempt. Raises Refused while the node does not
        know a topic."""
        unknown = [each for each in self._held if each not in self._names]
        if unknown:
            found = await self.cluster.metadata(None if self._pattern is not None else self._topics)
            self._names.update({topic.topic_id: topic.name for topic in found.topics.values()})
            if any(each not in self._names for each in unknown):
                # It may have been deleted since: then the coordinator wants something else by now.
                await self._beat(self.generation, says_all=False)
                self._held = self._wanted
                raise Refused(ErrorCode.UNKNOWN_TOPIC_ID, f"an assigned topic of group {self.group_id}")
        return tuple(
            sorted(
                TopicPartition(self._names[each], index) for each, indexes in self._held.items() for index in indexes
            )
        )

    async def _beat(self, epoch: int, *, says_all: bool) -> None:
        """Send one heartbeat and apply its response. Raises ApiError if rejoining cannot help, and the errors of
        `Cluster.call`."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id
        )
        as_whom = self._is_joining, self.generation
        coordinator = await self.cluster.coordinator(self.group_id)
        if says_all:
            request.rebalance_timeout_ms = int(self._max_poll_seconds * 1000)
            request.subscribed_topic_names = list(self._topics)
            request.subscribed_topic_regex = self._pattern
            request.server_assignor = self._assignor
            request.topic_partitions = [
                TopicPartitions(topic_id=topic_id, partitions=list(indexes)) for topic_id, indexes in self._held.items()
            ]
            version = await self.cluster.version_of(request.API_KEY, node_id=coordinator)
            if self._pattern is not None and version < PATTERN_VERSION:
                raise UnsupportedApi("topics by pattern want a coordinator of Apache Kafka 4.0 or newer")
        self._is_in_doubt = True
        answer: ConsumerGroupHeartbeatResponse = await self.cluster.call(request, node_id=coordinator)
        if as_whom != (self._is_joining, self.generation):
            return  # It says nothing about now.
        self._is_in_doubt = False
        if epoch < 0:
            return
        if answer.error_code in JOIN_AGAIN:
            self.forget()
            return
        check(answer.error_code, f"group {self.group_id}", answer.error_message)
        self._take(answer)

    def _take(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        self.member_id = answer.member_id or self.member_id
        self.generation = answer.member_epoch
        self._seconds = max(answer.heartbeat_interval_ms, 1) / 1000
        if answer.assignment is not None:
            self._wanted = {
                bytes(each.topic_id): tuple(sorted(each.partitions))
                for each in sorted(answer.assignment.topic_partitions, key=lambda each: bytes(each.topic_id))
                if each.partitions
            }
        if self._wanted != self._held:
            self.must_join = True

    def look_at_topics(self) -> None:
        """Do nothing: the coordinator watches the topics."""

    def forget(self) -> None:
        """Reset the membership: the group does not know this member any more."""
        self.generation, self.assigned, self.must_join = -1, (), True
        self._held, self._wanted = {}, {}

    async def heartbeat(self) -> None:
        """Send heartbeats until cancelled, or until the group rejects this member: then `failure` holds the reason."""
        while self.failure is None:
            await self.cluster.world.clock.sleep(self._seconds)
            if self.generation < 0 or self._is_joining:
                continue
            try:
                if self.cluster.world.clock.now() - self.idle_since > self._max_poll_seconds:
                    await self.leave()
                else:
                    await self._beat(self.generation, says_all=self._is_in_doubt)
            except (Disconnected, TimeoutError, NoBroker) as problem:
                if isinstance(problem, KraftError) and not may_pass(problem):
                    self.failure = problem
                self.cluster.forget()
            except ApiError as problem:
                if is_retriable(problem.code):
                    self.cluster.forget()
                else:
                    self.failure = problem
            except KraftError as problem:
                self.failure = problem

    async def leave(self) -> None:
        """Leave the group. A static member may come back. Raises as `Cluster.call`."""
        if self.generation < 0:
            return
        self.forget()
        await self._beat(LEAVING if self.instance_id is None else LEAVING_FOR_NOW, says_all=False)
