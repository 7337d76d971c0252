"""Members of the classic protocol for tests: each does what a consumer does, one request at a time, whichever kind of
group it finds."""

from __future__ import annotations

from functools import partial
from typing import Any

from kraft.common.errors import ApiError
from kraft.coordinator.group.classic.heartbeat import heartbeat
from kraft.coordinator.group.classic.join import join
from kraft.coordinator.group.classic.leave import leave
from kraft.coordinator.group.classic.sync import sync
from kraft.coordinator.group.consumer_protocol import decode_assignment, decode_subscription
from kraft.coordinator.group.offsets.offset_commit import commit_offsets
from kraft.coordinator.shard import Token
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from kraft.protocol.messages.consumer_protocol_assignment import TopicPartition as AssignedTopic
from kraft.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kraft.protocol.messages.consumer_protocol_subscription import TopicPartition as OwnedTopic
from kraft.protocol.messages.join_group_response import JoinGroupResponse
from kraft.protocol.messages.sync_group_response import SyncGroupResponse
from tests.unit.coordinator.consumers import GROUP, ConsumerHost
from tests.unit.coordinator.group_host import (
    TestCaller,
    commit_request,
    heartbeat_request,
    join_request,
    leaving,
    sync_request,
)

VERSION = 3
"""Of the consumer protocol."""
CALLER = TestCaller(9)
Owned = set[tuple[str, int]]


def subscription_of(topics: list[str], owned: Owned = frozenset(), generation: int = -1) -> bytes:  # type: ignore[assignment]
    named = [
        OwnedTopic(topic=topic, partitions=sorted(partition for each, partition in owned if each == topic))
        for topic in sorted({topic for topic, _ in owned})
    ]
    message = ConsumerProtocolSubscription(topics=topics, owned_partitions=named, generation_id=generation)
    return VERSION.to_bytes(2, "big") + message.encode(VERSION)


def assignment_of(parts: Owned, user_data: bytes | None = None) -> bytes:
    named = [
        AssignedTopic(topic=topic, partitions=sorted(partition for each, partition in parts if each == topic))
        for topic in sorted({topic for topic, _ in parts})
    ]
    message = ConsumerProtocolAssignment(assigned_partitions=named, user_data=user_data)
    return VERSION.to_bytes(2, "big") + message.encode(VERSION)


class ClassicConsumer:
    """One client. `owned` are partitions that it reads. An eager one gives up all before it joins anew; a cooperative
    one keeps what it is not told to give up (KIP-429). One that is not `prompt` takes an answer by
    its next heartbeat only. `error` is the last answer's code; `is_dead` says that it gives
    up: a newer process has its instance id, or the group does not take it."""

    def __init__(
        self,
        host: ConsumerHost,
        name: str,
        *topics: str,
        instance_id: str | None = None,
        cooperative: bool = False,
        session_ms: int = 10_000,
        protocol_type: str = "consumer",
        prompt: bool = True,
    ) -> None:
        self.host = host
        self.name = name
        self.topics = list(topics)
        self.instance_id = instance_id
        self.cooperative = cooperative
        self.session_ms = session_ms
        self.protocol_type = protocol_type
        self.prompt = prompt
        self.member_id, self.generation = "", -1
        self.owned: Owned = set()
        self.error: int = ErrorCode.NONE
        self.is_dead = False
        self.joined_with: list[tuple[str, int]] = []
        self.waits_for: tuple[str, Token] | None = None
        self.must_join = False

    # Requests.

    def join(self) -> ClassicConsumer:
        """Ask to join; `hear` takes the answer, which may come later."""
        if not self.cooperative:
            self.owned = set()
        self.joined_with, self.must_join = self._sees(), False
        metadata = subscription_of(self.topics, self.owned, self.generation)
        request = join_request(
            GROUP,
            self.member_id,
            instance_id=self.instance_id,
            protocols=(("range", metadata),),
            session_ms=self.session_ms,
            rebalance_ms=60_000,
            protocol_type=self.protocol_type,
        )
        self._send("join", partial(join, request=request, caller=CALLER, new_member_suffix=self._new_id()))
        return self.hear() if self.prompt else self

    def _sees(self) -> list[tuple[str, int]]:
        """What it subscribes to: when that is another than it was, it joins anew."""
        return [(topic, self.host.topics.partition_count(topic)) for topic in sorted(self.topics)]

    def _new_id(self) -> str:
        self.host.ids_made += 1
        return f"id-{self.host.ids_made}"

    def sync(self, assignments: dict[str, bytes] | None = None) -> ClassicConsumer:
        request = sync_request(GROUP, self.member_id, self.generation, assignments, self.instance_id)
        request.protocol_type = self.protocol_type
        self._send("sync", partial(sync, request=request))
        return self.hear() if self.prompt else self

    def beat(self) -> ClassicConsumer:
        """A heartbeat, unless an answer is missing; and what it leads to."""
        self.hear()
        if self.waits_for is not None or self.is_dead:
            return self
        if self.must_join or self.generation < 0 or self._sees() != self.joined_with:
            return self.join()
        code = self._ask(
            partial(heartbeat, request=heartbeat_request(GROUP, self.member_id, self.generation, self.instance_id))
        )
        self._obey(code)
        return self

    def commit(self, offsets: dict[tuple[str, int], int]) -> list[int]:
        """The error codes of the partitions."""
        request = commit_request(GROUP, offsets, self.member_id, self.generation, instance_id=self.instance_id)
        try:
            _, response = self.host.run(lambda draft: commit_offsets(draft, request, 9))
        except ApiError as refused:
            return [refused.code] * len(offsets)
        return [partition.error_code for topic in response.topics for partition in topic.partitions]

    def leave(self) -> ClassicConsumer:
        self.host.run(lambda draft: leave(draft, GROUP, [leaving(self.member_id, self.instance_id)]))
        self.member_id, self.generation, self.owned, self.waits_for = "", -1, set(), None
        return self

    def lose_answer(self) -> None:
        """What it waits for never comes: it joins anew."""
        self.must_join = self.must_join or self.waits_for is not None
        self.waits_for = None

    # Answers.

    def hear(self) -> ClassicConsumer:
        """Take the answer that was waited for, if it is there, and go on."""
        if self.waits_for is None or self.waits_for[1] not in self.host.answers:
            return self
        kind, token = self.waits_for
        self.waits_for = None
        answer = self.host.answers[token]
        self.error = answer.error_code
        if kind == "join":
            self._joined(answer)
        else:
            self._synced(answer)
        return self

    def _joined(self, answer: JoinGroupResponse) -> None:
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self.join()
        elif answer.error_code != ErrorCode.NONE:
            self._obey(answer.error_code)
        else:
            self.member_id, self.generation = answer.member_id, answer.generation_id
            self.sync(self._assign(answer) if answer.leader == self.member_id else None)

    def _assign(self, answer: JoinGroupResponse) -> dict[str, bytes]:
        """As a leader: everything in turn to those who subscribe to it. Nobody gets what another still owns."""
        members = {each.member_id: decode_subscription(bytes(each.metadata)) for each in answer.members}
        owners = {
            (topic.topic, partition): member_id
            for member_id, subscription in members.items()
            for topic in subscription.owned_partitions
            for partition in topic.partitions
        }
        parts: dict[str, Owned] = {member_id: set() for member_id in members}
        topics = self.host.topics
        for topic in sorted({topic for subscription in members.values() for topic in subscription.topics}):
            takers = sorted(member_id for member_id in members if topic in members[member_id].topics)
            for partition in range(topics.partition_count(topic)):
                taker = takers[partition % len(takers)]
                if owners.get((topic, partition), taker) == taker:
                    parts[taker].add((topic, partition))
        return {member_id: assignment_of(part) for member_id, part in parts.items()}

    def _synced(self, answer: SyncGroupResponse) -> None:
        if answer.error_code != ErrorCode.NONE:
            self._obey(answer.error_code)
            return
        data = bytes(answer.assignment)
        given = {
            (topic.topic, partition)
            for topic in (decode_assignment(data).assigned_partitions if data else [])
            for partition in topic.partitions
        }
        gives_up = self.owned - given
        self.owned = given
        if self.cooperative and gives_up:
            self.join()

    def _obey(self, code: int) -> None:
        self.error = code
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self.owned, self.generation = set(), -1
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
        elif code in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.INCONSISTENT_GROUP_PROTOCOL):
            self.owned, self.is_dead = set(), True

    def _send(self, kind: str, operation: Any) -> None:
        try:
            token, _ = self.host.run(operation)
        except ApiError as refused:
            self.waits_for = None
            self._obey(refused.code)
            return
        self.waits_for = kind, token

    def _ask(self, operation: Any) -> int:
        try:
            _, response = self.host.run(operation)
        except ApiError as refused:
            return refused.code
        return int(response.error_code)
