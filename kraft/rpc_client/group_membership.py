"""Membership of a consumer group with the classic protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup) and the range
assignor.

One task calls `join` and `leave`. `heartbeat` runs beside it, and sets `must_join` when the group rebalances.
Heartbeats continue until that task joins, so that it can finish the records it has. If it does not come back within the
poll interval, the member leaves (KIP-62).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kraft.admin.assignments import read_assignment
from kraft.admin.errors import UNKNOWN_TOPIC, Refused, check
from kraft.common.errors import ApiError, KraftError
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode, is_retriable
from kraft.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from kraft.protocol.messages.consumer_protocol_assignment import TopicPartition as AssignedTopic
from kraft.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kraft.protocol.messages.heartbeat_request import HeartbeatRequest
from kraft.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kraft.protocol.messages.join_group_response import JoinGroupResponse
from kraft.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kraft.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kraft.rpc_client.cluster import METADATA_SECONDS, Cluster
from kraft.rpc_client.connection import Disconnected
from kraft.rpc_client.errors import NoBroker
from kraft.rpc_client.partition_backoff import may_pass

SESSION_TIMEOUT_MS = 45_000
MAX_POLL_SECONDS = 300.0
"""max.poll.interval.ms, which is also how long a rebalance waits for a member."""
HEARTBEAT_SECONDS = 3.0
PROTOCOL_TYPE = "consumer"
PROTOCOL_VERSION = 1
JOIN_AGAIN = frozenset((ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID))


class GroupMembership:
    """A membership. While it is not a member, `generation` is -1 and `assigned` is empty. `idle_since` is when the last
    `poll` ended; infinity during a poll."""

    join_again = JOIN_AGAIN
    """The error codes after which a member rejoins."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        topics: Sequence[str],
        *,
        instance_id: str | None = None,
        max_poll_seconds: float = MAX_POLL_SECONDS,
    ) -> None:
        self.cluster = cluster.apart()  # JoinGroup is answered when everybody has joined.
        self.group_id = group_id
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.assigned: tuple[TopicPartition, ...] = ()
        self.must_join = True
        self.failure: KraftError | None = None
        self.idle_since = math.inf
        self._is_joining = False
        self._max_poll_seconds = max_poll_seconds
        self._counts: dict[str, int] | None = None
        """The partition counts of the topics at the last assignment, if this member leads the group."""
        self._counts_end = 0.0
        self._topics = tuple(sorted(topics))

    async def join(self) -> None:
        """Become a member, or take part in a rebalance. Raises ApiError, DeadlinePassed."""

        async def attempt() -> None:
            while not await self._attempt():
                pass  # Each turn gave us a member id, or took one back: the protocol goes on from there.

        self._is_joining = True
        try:
            await self.cluster.retrying(attempt, seconds=self._max_poll_seconds + self.cluster.operation_seconds)
        finally:
            self._is_joining = False

    async def _attempt(self) -> bool:
        """Send one JoinGroup and SyncGroup. Returns False if the join has to be repeated immediately."""
        seconds = self._max_poll_seconds + self.cluster.request_seconds
        joined: JoinGroupResponse = await self.cluster.call_coordinator(
            self.group_id, self._join_request(), seconds=seconds
        )
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            return False
        if not self._goes_on(joined.error_code):
            return False
        self.member_id, self.generation = joined.member_id, joined.generation_id
        self._counts = None
        assignments = await self._assignments(joined) if joined.leader == joined.member_id else []
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=RANGE,
            assignments=[] if joined.skip_assignment else assignments,
        )
        synced = await self.cluster.call_coordinator(self.group_id, request, seconds=seconds)
        if not self._goes_on(synced.error_code):
            return False
        self.assigned = read_assignment(synced.assignment)
        self.must_join = False
        return True

    def _goes_on(self, code: int) -> bool:
        """Whether the code is no error. False if the member has to rejoin. Raises ApiError if rejoining cannot help."""
        if code in JOIN_AGAIN:
            if code != ErrorCode.REBALANCE_IN_PROGRESS:
                self.forget()
            return False
        check(code, f"group {self.group_id}")
        return True

    def forget(self) -> None:
        """Reset the membership: the group does not know this member any more."""
        self.member_id, self.generation, self.assigned, self.must_join, self._counts = "", -1, (), True, None

    def _join_request(self) -> JoinGroupRequest:
        subscription = ConsumerProtocolSubscription(topics=list(self._topics), user_data=None)
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=int(self._max_poll_seconds * 1000),
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=RANGE, metadata=_versioned(subscription))],
        )

    async def _assignments(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """Compute the assignment of every member, as the group's leader."""
        subscribers = [
            Subscriber(member.member_id, member.group_instance_id, _subscribed_topics(member.metadata))
            for member in joined.members
        ]
        names = sorted({topic for subscriber in subscribers for topic in subscriber.topics})
        self._counts = await self._count(names)
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=_versioned(_assignment(partitions)))
            for member_id, partitions in assign_range(subscribers, self._counts).items()
        ]

    async def _count(self, names: Sequence[str]) -> dict[str, int]:
        """Return the current number of partitions of each topic; 0 for a missing topic. Raises ApiError for a topic
        that this member is not authorized to describe."""
        found = await self.cluster.metadata(names)
        for name, code in found.errors.items():
            if code not in UNKNOWN_TOPIC and not is_retriable(code):
                raise Refused(code, f"topic {name}")
        counts = {name: len(found.topics[name].partitions) if name in found.topics else 0 for name in names}
        # A topic that does not exist is looked for with each heartbeat: it may be made at any time.
        self._counts_end = self.cluster.world.clock.now() + (METADATA_SECONDS if all(counts.values()) else 0.0)
        return counts

    def look_at_topics(self) -> None:
        """Count partitions at the next heartbeat, because a topic is missing: a new assignment may be needed."""
        self._counts_end = 0.0

    async def _count_again(self) -> None:
        """Count the partitions, and rejoin if a number has changed, so that the group's leader assigns again."""
        counts = self._counts
        if counts is not None and self.cluster.world.clock.now() >= self._counts_end:
            changed = await self._count(sorted(counts)) != counts
            if changed and self._counts is counts:
                self.must_join = True

    async def heartbeat(self) -> None:
        """Send heartbeats until cancelled, or until the group rejects this member (for example with
        FENCED_INSTANCE_ID): then `failure` holds the reason."""
        while self.failure is None:
            await self.cluster.world.clock.sleep(HEARTBEAT_SECONDS)
            if self.generation < 0 or self._is_joining:
                continue
            try:
                if self.cluster.world.clock.now() - self.idle_since > self._max_poll_seconds:
                    await self.leave(f"the consumer was not polled within {self._max_poll_seconds:g} s")
                    self.forget()
                else:
                    await self._beat()
                    await self._count_again()
            except (Disconnected, TimeoutError, NoBroker) as problem:
                if isinstance(problem, KraftError) and not may_pass(problem):
                    self.failure = problem
                self.cluster.forget()
            except ApiError as problem:
                if not is_retriable(problem.code):
                    self.failure = problem
            except KraftError as problem:
                self.failure = problem

    async def _beat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        as_whom = self.member_id, self.generation
        code = (await self.cluster.call_coordinator(self.group_id, request)).error_code
        if self._is_joining or as_whom != (self.member_id, self.generation):
            return  # It says nothing about now.
        if code in JOIN_AGAIN:
            self.must_join = True
            if code != ErrorCode.REBALANCE_IN_PROGRESS:
                self.forget()
        elif is_retriable(code):
            self.cluster.forget()
        else:
            check(code, f"group {self.group_id}")

    async def leave(self, reason: str = "the consumer is closing") -> None:
        """Leave the group, so that the others need not wait for the session timeout. Static members do not leave
        (KIP-345). Raises as `Cluster.call`."""
        if self.generation < 0 or self.instance_id is not None:
            return
        request = LeaveGroupRequest(
            group_id=self.group_id, members=[MemberIdentity(member_id=self.member_id, reason=reason)]
        )
        self.forget()
        await self.cluster.call_coordinator(self.group_id, request)


def _versioned(message: Any) -> bytes:
    """Encode a message of the consumer protocol, which starts with its version."""
    return PROTOCOL_VERSION.to_bytes(2, "big") + bytes(message.encode(PROTOCOL_VERSION))


def _subscribed_topics(data: bytes | memoryview) -> tuple[str, ...]:
    version = min(int.from_bytes(data[:2], "big"), ConsumerProtocolSubscription.VALID_VERSIONS[1])
    subscription, _ = ConsumerProtocolSubscription.decode_from(data, 2, version)
    return tuple(subscription.topics)


def _assignment(partitions: Sequence[TopicPartition]) -> ConsumerProtocolAssignment:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return ConsumerProtocolAssignment(
        assigned_partitions=[AssignedTopic(topic=topic, partitions=indexes) for topic, indexes in topics.items()],
        user_data=None,
    )


RANGE = "range"


class Subscriber(NamedTuple):
    """A member as the group's leader sees it. `instance_id` is set for static members (KIP-345)."""

    member_id: str
    instance_id: str | None
    topics: tuple[str, ...]


def assign_range(
    subscribers: Sequence[Subscriber], partition_counts: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """The range assignor of Kafka's clients, so that mixed groups agree. Each subscriber of a topic gets a range of its
    partitions. Where they do not divide evenly, the first subscribers get one more. Static members come first, then
    the order is by member id."""
    ordered = sorted(subscribers, key=lambda each: (each.instance_id is None, each.instance_id or "", each.member_id))
    assigned: dict[str, list[TopicPartition]] = {subscriber.member_id: [] for subscriber in ordered}
    for topic in sorted({topic for subscriber in subscribers for topic in subscriber.topics}):
        readers = [subscriber for subscriber in ordered if topic in subscriber.topics]
        share, more = divmod(partition_counts.get(topic, 0), len(readers))
        first = 0
        for position, reader in enumerate(readers):
            count = share + (position < more)
            assigned[reader.member_id] += [TopicPartition(topic, index) for index in range(first, first + count)]
            first += count
    return assigned
