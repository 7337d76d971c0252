"""Random lives of a group, told to Apache Kafka and to our coordinator alike: every answer must be the same, field
by field.

Member ids are random, so each side's are renamed by the order in which they are learned. A life ends early where
Kafka's choice is arbitrary (who leads after a leader left, which of two equally wanted protocols). Two differences
are known and meant: a request that its client gave up on (it asked again, or left) is answered by us and never by
Kafka; and after a static member returns with another subscription, we know of it at once.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from random import Random
from typing import Any

import trio

from kraft.protocol import api_keys, framing
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kraft.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kraft.protocol.messages.heartbeat_request import HeartbeatRequest
from kraft.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kraft.protocol.messages.join_group_response import JoinGroupResponse
from kraft.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kraft.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraft.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kraft.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kraft.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kraft.protocol.schema import Message, Struct
from tests.unit.coordinator.group_host import TestCaller, subscription
from tests.unit.coordinator.service import Service

SETTLE_S = 0.06
GIVEN_UP = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.FENCED_INSTANCE_ID)
UUID_TEXT = re.compile("-[0-9a-f]{8}-[0-9a-f-]{27}$")
PROTOCOLS = ("range", "sticky"), ("sticky", "range"), ("range",), ("sticky",)
METHODS = {
    ApiKey.JOIN_GROUP: "join_group",
    ApiKey.SYNC_GROUP: "sync_group",
    ApiKey.HEARTBEAT: "heartbeat",
    ApiKey.LEAVE_GROUP: "leave_group",
    ApiKey.OFFSET_COMMIT: "offset_commit",
    ApiKey.OFFSET_FETCH: "offset_fetch",
    ApiKey.OFFSET_DELETE: "offset_delete",
    ApiKey.DESCRIBE_GROUPS: "describe_groups",
    ApiKey.DELETE_GROUPS: "delete_groups",
}

Build = Callable[[Callable[[str], str]], Message]
"""Makes a request, given what turns our name of a member into the side's id of it."""


class ArbitraryChoice(Exception):
    """Kafka chose among equals by the order of a hash map; nothing after it can be compared."""


class Side:
    """One of the two that are asked, and the names of its member ids."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.names: dict[str, str] = {}
        self.ids: dict[str, str] = {}

    def __call__(self, name: str) -> str:
        """The side's id of a member that has a name."""
        return self.ids.get(name, name)

    async def ask(self, key: int, version: int, message: Message, client_id: str) -> Message:
        raise NotImplementedError

    def plain(self, value: Any) -> Any:
        """The value with member ids renamed and orders that mean nothing removed."""
        if isinstance(value, Struct):
            left_out = ("unknown_tags", "throttle_time_ms", "error_message")
            return {name: self.plain(getattr(value, name)) for name in type(value).__slots__ if name not in left_out}
        if isinstance(value, list | tuple):
            return sorted((self.plain(each) for each in value), key=repr)
        if isinstance(value, bytes | bytearray | memoryview):
            data = bytes(value)
            for real, name in self.names.items():
                data = data.replace(real.encode(), name.encode())
            return data
        return self.names.get(value) or UUID_TEXT.sub("-?", value) if isinstance(value, str) else value


class Kafka(Side):
    def __init__(self, port: int) -> None:
        super().__init__("kafka")
        self.port = port

    async def ask(self, key: int, version: int, message: Message, client_id: str) -> Message:
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        async with stream:
            await stream.send_all(framing.encode_request(key, version, 1, client_id, message))
            data = bytearray()
            while len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
                data += await stream.receive_some(65536) or b"\xff" * 4
        start = 8 + api_keys.response_header_version(key, version)
        return api_keys.response_class(key).decode(bytes(data[start:]), version)


class Ours(Side):
    def __init__(self, service: Service) -> None:
        super().__init__("ours")
        self.service = service

    async def ask(self, key: int, version: int, message: Message, client_id: str) -> Message:
        request = api_keys.request_class(key).decode(message.encode(version), version)
        response = await getattr(self.service.coordinator, METHODS[key])(request, TestCaller(version, client_id))
        return api_keys.response_class(key).decode(response.encode(version), version)


class Client:
    """A member as it believes itself to be, in names."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.instance_id = f"i{number}" if number % 2 else None
        self.restart()

    def restart(self) -> None:
        self.member, self.generation, self.leads = "", -1, False


class Asked:
    """A request on its way to both sides. One of some kinds may wait for what other members do."""

    def __init__(self, label: str, client: Client | None, *, waits_for_others: bool) -> None:
        self.label = label
        self.client = client
        self.waits_for_others = waits_for_others
        self.answers: dict[str, Any] = {}


class Life:
    """One group's life. `run` raises AssertionError at the first answer that differs, with what led to it."""

    def __init__(
        self,
        source: Random,
        ours: Ours,
        kafka: Kafka,
        topic_ids: dict[str, bytes],
        *,
        session_ms: int = 30_000,
        rebalance_ms: int = 60_000,
    ) -> None:
        self.source = source
        self.sides = (ours, kafka)
        self.topic_ids = topic_ids
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.group = f"life-{source.randrange(10**12)}"
        self.clients = [Client(number) for number in range(4)]
        self.pending: list[Asked] = []
        self.trace: list[str] = []
        self.learned = 0
        self.compared = 0

    async def run(self, steps: int) -> None:
        names = {
            "join": 24,
            "everybody": 6,
            "sync": 24,
            "beat": 8,
            "commit": 14,
            "outsider": 3,
            "fetch": 5,
            "leave": 4,
            "evict": 2,
        }
        names |= {
            "restart": 5,
            "zombie": 4,
            "delete": 1,
            "forget": 3,
            "describe": 8,
            "pause": 0 if self.session_ms > 10_000 else 6,
        }
        await self.run_steps(names, steps)

    async def run_steps(self, weights: dict[str, int], steps: int) -> None:
        """Take steps at random, each as likely as its weight says."""
        async with trio.open_nursery() as nursery:
            self.nursery = nursery
            for _ in range(steps):
                (name,) = self.source.choices(list(weights), list(weights.values()))
                await getattr(self, f"_{name}")(self.source.choice(self.clients))
            nursery.cancel_scope.cancel()

    # Steps.

    async def _join(
        self,
        client: Client,
        version: int | None = None,
        protocols: tuple[str, ...] | None = None,
        topic: str | None = None,
    ) -> None:
        version = version or (self.source.randrange(10) if client.instance_id is None else self.source.randrange(5, 10))
        offered, topic = protocols or self.source.choice(PROTOCOLS), topic or self.source.choice("tu")
        member, instance_id = client.member, client.instance_id

        def build(real: Callable[[str], str]) -> Message:
            return JoinGroupRequest(
                group_id=self.group,
                session_timeout_ms=self.session_ms,
                rebalance_timeout_ms=self.rebalance_ms if version else -1,
                member_id=real(member),
                group_instance_id=instance_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name=name, metadata=subscription(topic)) for name in offered],
            )

        await self._ask(
            f"join {client.number} {member} v{version} {offered} {topic}", ApiKey.JOIN_GROUP, version, build, client
        )

    async def _sync(self, client: Client) -> None:
        version = self.source.randrange(6) if client.instance_id is None else self.source.randrange(3, 6)
        everybody = sorted({each.member for each in self.clients if each.member}) if client.leads else []
        member, generation, instance_id = client.member, client.generation, client.instance_id
        protocol = self.source.choice(("range", "sticky", None)) if version >= 5 else None

        def build(real: Callable[[str], str]) -> Message:
            return SyncGroupRequest(
                group_id=self.group,
                generation_id=generation,
                member_id=real(member),
                group_instance_id=instance_id,
                protocol_type="consumer" if protocol else None,
                protocol_name=protocol,
                assignments=[
                    SyncGroupRequestAssignment(member_id=real(name), assignment=f"{name}@{generation}".encode())
                    for name in everybody
                ],
            )

        await self._ask(
            f"sync {client.number} {member} v{version} generation {generation} {protocol}",
            ApiKey.SYNC_GROUP,
            version,
            build,
            client,
        )

    async def _everybody(self, client: Client) -> None:
        for each in self.clients:
            await self._join(each, 9, ("range", "sticky"), "t")
            if each.instance_id is None and each.generation < 0 and each.member:
                await self._join(each, 9, ("range", "sticky"), "t")
        for each in self.clients:
            await self._sync(each)

    async def _beat(self, client: Client) -> None:
        member, generation, instance_id = client.member, client.generation, client.instance_id
        await self._ask(
            f"heartbeat {client.number} {member}",
            ApiKey.HEARTBEAT,
            self.source.randrange(3, 5),
            lambda real: HeartbeatRequest(
                group_id=self.group, generation_id=generation, member_id=real(member), group_instance_id=instance_id
            ),
        )

    async def _outsider(self, client: Client) -> None:
        await self._commit(Client(0))

    async def _commit(self, client: Client) -> None:
        version, offset = self.source.randrange(7, 11), self.source.randrange(100)
        names, indexes = self.source.choice(("t", "u", "tu", "tx")), self.source.choice(((0,), (1, 2), (0, 1)))
        member, generation, instance_id = client.member, client.generation, client.instance_id
        partitions = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="note")
            for index in indexes
        ]
        topics = [
            OffsetCommitRequestTopic(
                name="" if version >= 10 else name, topic_id=self._topic_id(name, version), partitions=partitions
            )
            for name in names
        ]

        def build(real: Callable[[str], str]) -> Message:
            return OffsetCommitRequest(
                group_id=self.group,
                generation_id_or_member_epoch=generation,
                member_id=real(member),
                group_instance_id=instance_id,
                topics=topics,
            )

        await self._ask(
            f"commit {client.number} {member} v{version} {names} {indexes}", ApiKey.OFFSET_COMMIT, version, build
        )

    async def _fetch(self, client: Client) -> None:
        version, everything, stable = (
            self.source.randrange(8, 11),
            self.source.random() < 0.4,
            self.source.random() < 0.5,
        )
        wanted = [
            OffsetFetchRequestTopics(
                name="" if version >= 10 else name, topic_id=self._topic_id(name, version), partition_indexes=[0, 1, 2]
            )
            for name in "tux"
        ]
        groups = [
            OffsetFetchRequestGroup(group_id=group, topics=None if everything else wanted)
            for group in (self.group, "nobody")
        ]
        await self._ask(
            f"fetch v{version}",
            ApiKey.OFFSET_FETCH,
            version,
            lambda real: OffsetFetchRequest(groups=groups, require_stable=stable),
        )

    async def _leave(self, client: Client) -> None:
        member, instance_id = client.member, client.instance_id
        client.restart()
        await self._remove(f"leave {client.number} {member}", member, instance_id)

    async def _evict(self, client: Client) -> None:
        await self._remove(f"evict {client.number}", "", client.instance_id)

    async def _remove(self, label: str, member: str, instance_id: str | None) -> None:
        await self._ask(
            label,
            ApiKey.LEAVE_GROUP,
            self.source.randrange(3, 6),
            lambda real: LeaveGroupRequest(
                group_id=self.group, members=[MemberIdentity(member_id=real(member), group_instance_id=instance_id)]
            ),
        )

    async def _restart(self, client: Client) -> None:
        client.restart()

    async def _zombie(self, client: Client) -> None:
        other = self.source.choice(self.clients)
        client.member, client.generation, client.instance_id, client.leads = (
            other.member,
            other.generation,
            other.instance_id,
            other.leads,
        )

    async def _delete(self, client: Client) -> None:
        await self._ask(
            "delete",
            ApiKey.DELETE_GROUPS,
            2,
            lambda real: DeleteGroupsRequest(groups_names=[self.group, "nobody", self.group]),
        )

    async def _forget(self, client: Client) -> None:
        partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in (0, 2)]
        # Topic u is left out: Kafka is late to know that a static member came back subscribed to it.
        topics = [OffsetDeleteRequestTopic(name=name, partitions=partitions) for name in "tx"]
        state = self.sides[0].service.coordinator.group_states().get(self.group)
        if state in ("Empty", None):
            await self._ask(
                "delete offsets",
                ApiKey.OFFSET_DELETE,
                0,
                lambda real: OffsetDeleteRequest(group_id=self.group, topics=topics),
            )

    async def _describe(self, client: Client) -> None:
        await self._ask(
            "describe",
            ApiKey.DESCRIBE_GROUPS,
            self.source.randrange(7),
            lambda real: DescribeGroupsRequest(groups=[self.group, "nobody"]),
        )

    async def _pause(self, client: Client) -> None:
        seconds = self.source.choice((3.03, 6.37, 8.71))
        self.trace.append(f"pause {seconds}")
        await trio.sleep(seconds)
        await self._settle()

    def _topic_id(self, name: str, version: int) -> bytes:
        return self.topic_ids.get(name, b"?" * 16) if version >= 10 else bytes(16)

    # Asking and comparing.

    async def _ask(self, label: str, key: int, version: int, build: Build, client: Client | None = None) -> None:
        asked = Asked(label, client, waits_for_others=key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP))
        self.trace.append(label)

        async def one(side: Side) -> None:
            message = build(side)
            asked.answers[side.name] = await side.ask(key, version, message, f"c{client.number}" if client else "c")

        for side in self.sides:
            self.nursery.start_soon(one, side)
        self.pending.append(asked)
        await self._settle()

    async def _settle(self) -> None:
        """Wait until both sides have had time to answer, and longer where one has not."""
        await trio.sleep(SETTLE_S)
        for tried in range(500):
            alone = [asked for asked in self.pending if len(asked.answers) == 1]
            late = any(not asked.answers and not asked.waits_for_others for asked in self.pending)
            if not late and (not alone or (tried >= 20 and all(self._was_given_up(asked) for asked in alone))):
                break  # A busy machine may take long, and one that was given up is never answered by Kafka.
            await trio.sleep(SETTLE_S / 3)
        for asked in list(self.pending):
            if len(asked.answers) == 2:
                self.pending.remove(asked)
                self._compare(asked)
            elif asked.answers:
                if not self._was_given_up(asked):
                    raise AssertionError(self._report("only one side answered", asked, asked.answers))
                self.pending.remove(asked)

    def _was_given_up(self, asked: Asked) -> bool:
        ours = asked.answers.get("ours")
        return ours is not None and getattr(ours, "error_code", 0) in GIVEN_UP

    def _compare(self, asked: Asked) -> None:
        ours, kafka = asked.answers["ours"], asked.answers["kafka"]
        if isinstance(ours, JoinGroupResponse):
            self._learn(ours.member_id, kafka.member_id)
        answers = {side.name: side.plain(asked.answers[side.name]) for side in self.sides}
        joined = (
            isinstance(ours, JoinGroupResponse)
            and ours.error_code == kafka.error_code == 0
            and ours.generation_id == kafka.generation_id
        )
        if joined and any(answers["ours"][field] != answers["kafka"][field] for field in ("leader", "protocol_name")):
            raise ArbitraryChoice
        assert answers["ours"] == answers["kafka"], self._report("the answers differ", asked, answers)
        self.compared += 1
        if asked.client is not None and isinstance(ours, JoinGroupResponse):
            if ours.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                asked.client.member = answers["ours"]["member_id"]
            if ours.error_code == ErrorCode.NONE:
                asked.client.generation, asked.client.leads = (
                    ours.generation_id,
                    answers["ours"]["leader"] == asked.client.member,
                )

    def _learn(self, *real_ids: str) -> None:
        if all(real and real not in side.names for side, real in zip(self.sides, real_ids, strict=True)):
            self.learned += 1
            for side, real in zip(self.sides, real_ids, strict=True):
                side.names[real] = f"m{self.learned}@"
                side.ids[f"m{self.learned}@"] = real

    def _report(self, what: str, asked: Asked, answers: dict[str, Any]) -> str:
        told = "\n".join(f"  {name}: {answer!r}" for name, answer in sorted(answers.items()))
        return f"{what}: {asked.label}\n{told}\n  after: {' | '.join(self.trace[-30:])}"
