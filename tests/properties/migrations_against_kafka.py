"""Random lives of a group whose members speak the classic and the consumer protocol in turns, told to Apache Kafka and
to our coordinator alike: every answer must be the same, field by field.

The coordinators assign, each as it likes: of partitions only the number is compared, and each side's members report
what that side gave them. The topic has as many partitions as any number of members divides evenly. Who leads after a
downgrade is Kafka's arbitrary choice: each side's leader assigns. A life ends early where the sides let a member give
up different partitions first, so that one is further than the other.
"""

from __future__ import annotations

from typing import Any

from kraft.common.errors import ProtocolError
from kraft.coordinator.group.consumer_protocol import decode_assignment
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kraft.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kraft.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kraft.protocol.messages.join_group_response import JoinGroupResponse
from kraft.protocol.messages.list_groups_request import ListGroupsRequest
from kraft.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kraft.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kraft.protocol.schema import Message, Struct
from tests.properties.groups_against_kafka import ArbitraryChoice, Asked, Client, Life, Ours, Side
from tests.unit.coordinator.classic_consumers import assignment_of, subscription_of
from tests.unit.coordinator.group_host import TestCaller

TOPIC = "w"
PARTITIONS = 12
METHODS = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT: lambda coordinator, request, caller: coordinator.consumer.heartbeat(
        request, caller, lambda topic: True
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: lambda coordinator, request, caller: coordinator.consumer.describe(request),
    ApiKey.LIST_GROUPS: lambda coordinator, request, caller: coordinator.list_groups(request, caller),
}
ASSIGNMENTS = ("assignment", "member_assignment")
UNDER_WAY = ("member_epoch", "generation_id", "assignment", "topic_partitions", "group_state")
ORDERED_BY_NOTHING = ("members", "leader")


def counted(side: Side, value: Any) -> Any:
    """As `Side.plain`, with the number of partitions in the place of the partitions."""
    if isinstance(value, Struct):
        left_out = ("unknown_tags", "throttle_time_ms")
        told: dict[str, Any] = {}
        for name in type(value).__slots__:
            each = getattr(value, name)
            if name == "partitions" and all(isinstance(partition, int) for partition in each):
                told[name] = len(each)
            elif name in ASSIGNMENTS and isinstance(each, bytes | bytearray | memoryview):
                told[name] = counted_assignment(bytes(each))
            elif name == "error_message":
                told[name] = side.plain(each)
            elif name not in left_out:
                told[name] = counted(side, each)
        return told
    if isinstance(value, list | tuple):
        return sorted((counted(side, each) for each in value), key=repr)
    return side.plain(value)


def settled(told: Any) -> Any:
    """An answer without what depends on how far a member has come: which partitions it gives up first is an arbitrary
    choice."""
    if isinstance(told, dict):
        kept = {name: settled(each) for name, each in told.items() if name not in UNDER_WAY}
        return {**kept, "error_code": 0} if kept.get("error_code") == ErrorCode.REBALANCE_IN_PROGRESS else kept
    return [settled(each) for each in told] if isinstance(told, list) else told


def counted_assignment(data: bytes) -> Any:
    try:
        return {each.topic: len(each.partitions) for each in decode_assignment(data).assigned_partitions}
    except ProtocolError:
        return data


class OursOfBothKinds(Ours):
    async def ask(self, key: int, version: int, message: Message, client_id: str) -> Message:
        method = METHODS.get(key)
        if method is None:
            return await super().ask(key, version, message, client_id)
        request = type(message).decode(message.encode(version), version)
        response = await method(self.service.coordinator, request, TestCaller(version, client_id))
        return type(response).decode(response.encode(version), version)


class Member(Client):
    """A member that may change its protocol. `owned` and `leads_on` are by side."""

    def restart(self) -> None:
        super().restart()
        self.epoch = 0
        self.is_consumer = False
        self.owned: dict[str, list[TopicPartitions]] = {}
        self.leads_on: dict[str, bool] = {}


class MigratingLife(Life):
    """See the module."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.clients = [Member(number) for number in range(4)]
        self.made = 0
        self.kinds: set[str] = set()

    async def run(self, steps: int) -> None:
        weights = {
            "beat_consumer": 22,
            "beat_classic": 16,
            "join_consumer": 6,
            "join_classic": 10,
            "sync_classic": 14,
            "settle_all": 5,
            "leave_consumer": 4,
            "away": 2,
            "leave": 3,
            "evict": 1,
            "swap": 2,
            "commit": 6,
            "fetch_as_member": 4,
            "describe": 3,
            "describe_consumer": 5,
            "list": 4,
        }
        await self.run_steps(weights, steps)

    # Members of the consumer protocol.

    async def _join_consumer(self, client: Member) -> None:
        """A process of the consumer protocol starts; a static one may take the place of the classic one."""
        if client.member and not (client.instance_id and self.source.random() < 0.5):
            return
        client.restart()
        self.made += 1
        client.member, client.is_consumer = f"{self.group}-c{self.made}", True
        await self._send_consumer_beat(client)

    async def _beat_consumer(self, client: Member) -> None:
        if client.is_consumer:
            await self._send_consumer_beat(client)

    async def _send_consumer_beat(self, client: Member) -> None:
        joins = client.epoch == 0
        member, epoch, instance_id, owned = client.member, client.epoch, client.instance_id, dict(client.owned)

        def build(side: Any) -> Message:
            return ConsumerGroupHeartbeatRequest(
                group_id=self.group,
                member_id=member,
                member_epoch=epoch,
                instance_id=instance_id,
                rebalance_timeout_ms=self.rebalance_ms if joins else -1,
                subscribed_topic_names=[TOPIC] if joins else None,
                topic_partitions=[] if joins else owned.get(side.name, []),
            )

        await self._ask(
            f"heartbeat {client.number} {member} epoch {epoch}", ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, build, client
        )

    async def _leave_consumer(self, client: Member) -> None:
        await self._end(client, -1)

    async def _away(self, client: Member) -> None:
        if client.instance_id:
            await self._end(client, -2)

    async def _end(self, client: Member, epoch: int) -> None:
        if not client.is_consumer:
            return
        member, instance_id = client.member, client.instance_id
        client.restart()
        await self._ask(
            f"leave {client.number} {member} {epoch}",
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            1,
            lambda side: ConsumerGroupHeartbeatRequest(
                group_id=self.group, member_id=member, member_epoch=epoch, instance_id=instance_id
            ),
        )

    # Members of the classic protocol.

    async def _join_classic(self, client: Member) -> None:
        if client.is_consumer:
            return
        version, member, instance_id = self.source.randrange(5, 10), client.member, client.instance_id

        def build(side: Any) -> Message:
            return JoinGroupRequest(
                group_id=self.group,
                session_timeout_ms=self.session_ms,
                rebalance_timeout_ms=self.rebalance_ms,
                member_id=side(member),
                group_instance_id=instance_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription_of([TOPIC]))],
            )

        await self._ask(f"join {client.number} {member} v{version}", ApiKey.JOIN_GROUP, version, build, client)

    async def _swap(self, client: Member) -> None:
        """A static member's process of the consumer protocol is replaced by a classic one at once."""
        if client.is_consumer and client.instance_id:
            client.restart()
            await self._join_classic(client)

    async def _sync_classic(self, client: Member) -> None:
        if client.is_consumer:
            return
        member, generation, instance_id = client.member, client.generation, client.instance_id
        everybody = sorted({each.member for each in self.clients if each.member and not each.is_consumer})
        leads_on = dict(client.leads_on)

        def build(side: Any) -> Message:
            parts: dict[str, set[tuple[str, int]]] = {name: set() for name in everybody}
            for partition in range(PARTITIONS if everybody else 0):
                parts[everybody[partition % len(everybody)]].add((TOPIC, partition))
            return SyncGroupRequest(
                group_id=self.group,
                generation_id=generation,
                member_id=side(member),
                group_instance_id=instance_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[
                    SyncGroupRequestAssignment(member_id=side(name), assignment=assignment_of(part))
                    for name, part in parts.items()
                ]
                if leads_on.get(side.name)
                else [],
            )

        await self._ask(f"sync {client.number} {member} {generation}", ApiKey.SYNC_GROUP, 5, build, client)

    async def _beat_classic(self, client: Member) -> None:
        if not client.is_consumer:
            await super()._beat(client)

    async def _settle_all(self, client: Member) -> None:
        """Everybody does what a client does, some times."""
        for _ in range(2):
            for each in self.clients:
                if each.is_consumer:
                    await self._beat_consumer(each)
                elif each.member:
                    await self._join_classic(each)
            for each in self.clients:
                if each.member and not each.is_consumer:
                    await self._sync_classic(each)

    # Questions.

    async def _leave(self, client: Client) -> None:
        if not client.is_consumer:  # type: ignore[attr-defined]  # A member.
            await super()._leave(client)

    async def _commit(self, client: Client) -> None:
        known = client.generation
        if isinstance(client, Member) and client.is_consumer:
            client.generation = client.epoch
        await super()._commit(client)
        client.generation = known

    async def _fetch_as_member(self, client: Member) -> None:
        member, epoch = client.member, client.epoch if client.is_consumer else client.generation
        wanted = [OffsetFetchRequestTopics(name=name, partition_indexes=[0, 1]) for name in "tu"]
        await self._ask(
            f"fetch as {member} {epoch}",
            ApiKey.OFFSET_FETCH,
            9,
            lambda side: OffsetFetchRequest(
                groups=[
                    OffsetFetchRequestGroup(
                        group_id=self.group, member_id=side(member), member_epoch=epoch, topics=wanted
                    )
                ]
            ),
        )

    async def _describe_consumer(self, client: Member) -> None:
        await self._ask(
            "describe consumer group",
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            1,
            lambda side: ConsumerGroupDescribeRequest(group_ids=[self.group]),
        )

    async def _list(self, client: Member) -> None:
        await self._ask("list", ApiKey.LIST_GROUPS, 5, lambda side: ListGroupsRequest())

    # Comparing.

    def _compare(self, asked: Asked) -> None:
        ours, kafka = asked.answers["ours"], asked.answers["kafka"]
        if isinstance(ours, JoinGroupResponse):
            self._learn(ours.member_id, kafka.member_id)
        answers = {side.name: counted(side, asked.answers[side.name]) for side in self.sides}
        if asked.label == "list":
            for told in answers.values():
                told["groups"] = [each for each in told["groups"] if each["group_id"] == self.group]
            self.kinds |= {each["group_type"] for each in answers["ours"]["groups"]}
        if isinstance(ours, JoinGroupResponse) and answers["ours"]["leader"] != answers["kafka"]["leader"]:
            for told in answers.values():
                for name in ORDERED_BY_NOTHING:
                    told.pop(name)
        if answers["ours"] != answers["kafka"] and settled(answers["ours"]) == settled(answers["kafka"]):
            raise ArbitraryChoice
        assert answers["ours"] == answers["kafka"], self._report("the answers differ", asked, answers)
        self.compared += 1
        if isinstance(asked.client, Member):
            self._hear(asked.client, asked)

    def _hear(self, client: Member, asked: Asked) -> None:
        ours = asked.answers["ours"]
        if isinstance(ours, JoinGroupResponse):
            if ours.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                client.member = self.sides[0].names.get(ours.member_id, ours.member_id)
            if ours.error_code == ErrorCode.NONE:
                client.generation = ours.generation_id
                client.leads_on = {name: answer.leader == answer.member_id for name, answer in asked.answers.items()}
            if ours.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                client.restart()
        elif hasattr(ours, "heartbeat_interval_ms"):
            self._hear_consumer(client, asked)

    def _hear_consumer(self, client: Member, asked: Asked) -> None:
        ours = asked.answers["ours"]
        if ours.error_code != ErrorCode.NONE:
            client.restart()
            return
        client.epoch = ours.member_epoch
        for name, answer in asked.answers.items():
            if answer.assignment is not None:
                client.owned[name] = [
                    TopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
                    for each in answer.assignment.topic_partitions
                ]
