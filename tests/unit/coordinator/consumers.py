"""Members of consumer groups for tests: each does what a client does, one heartbeat at a time."""

from __future__ import annotations

import re
from typing import Any

from kraft.common.errors import ApiError
from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.coordinator.group.consumer.assigning import Snapshot, compute
from kraft.coordinator.group.consumer.consumer_group import NEVER_ASSIGNED_MS, ConsumerGroup
from kraft.coordinator.group.consumer.heartbeat import check_request, consumer_heartbeat
from kraft.coordinator.group.consumer.target import counted_topics, metadata_hash
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kraft.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from kraft.world.steps import at_once
from tests.unit.coordinator.fakes import Topics
from tests.unit.coordinator.group_host import GroupHost, TestCaller

GROUP = "g"
CALLER = TestCaller(1)


class ConsumerHost(GroupHost):
    """A `GroupHost` that answers heartbeats of consumer groups."""

    def __init__(self, config: GroupCoordinatorConfig | None = None, topics: Topics | None = None) -> None:
        super().__init__(config, topics)
        self.ids_made = 0
        self.hidden: set[str] = set()
        """Topics that no member may describe."""

    def may_describe(self, topic: str) -> bool:
        return topic not in self.hidden

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest, api_version: int = 1) -> Any:
        """The response; its error code and message where the request is refused."""
        try:
            check_request(request, api_version, self.shard.config.group_consumer_assignors)
            _, response = self.run(
                lambda draft: consumer_heartbeat(draft, request, CALLER, "made-here", self.may_describe)
            )
        except ApiError as refused:
            return ConsumerGroupHeartbeatResponse(error_code=refused.code, error_message=refused.message)
        return response

    @property
    def group(self) -> ConsumerGroup:
        group = self.state.consumer_group(GROUP)
        assert group is not None
        return group


class Consumer:
    """One client. Before a heartbeat it gives up what the last answer took from it. While an answer is missing, its
    heartbeats are full, as those of real clients."""

    def __init__(
        self, host: ConsumerHost, member_id: str, *topics: str, instance_id: str | None = None, **more: Any
    ) -> None:
        self.host = host
        self.member_id = member_id
        self.topics = list(topics)
        self.pattern: str | None = None
        self.instance_id = instance_id
        self.more = more
        self.epoch = 0
        self.owned: set[tuple[bytes, int]] = set()
        self.assigned: set[tuple[bytes, int]] = set()
        self.misses_answer = False
        self.error: int = ErrorCode.NONE
        self.message: str | None = None

    def join(self) -> Consumer:
        self.epoch, self.owned, self.assigned = 0, set(), set()
        return self.beat(full=True)

    def beat(self, *, full: bool = False) -> Consumer:
        """Send a heartbeat and take the answer; what is to be given up is given up before the next."""
        self.take(self.send(full=full))
        return self

    def send(self, *, full: bool = False) -> ConsumerGroupHeartbeatResponse:
        self.owned &= self.assigned
        full = full or self.misses_answer or self.epoch == 0
        self.misses_answer = True
        answer: ConsumerGroupHeartbeatResponse = self.host.heartbeat(self.request(full=full))
        return answer

    def take(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        self.misses_answer = False
        self.error, self.message = answer.error_code, answer.error_message
        if self.error != ErrorCode.NONE:
            return
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = {
                (bytes(topic.topic_id), partition)
                for topic in answer.assignment.topic_partitions
                for partition in topic.partitions
            }
            self.owned |= self.assigned

    def leave(self, epoch: int = -1) -> Consumer:
        self.take(
            self.host.heartbeat(
                ConsumerGroupHeartbeatRequest(
                    group_id=GROUP, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id
                )
            )
        )
        self.owned, self.assigned = set(), set()
        return self

    def request(self, *, full: bool) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=60_000 if full else -1,
            subscribed_topic_names=self.topics if full else None,
            subscribed_topic_regex=self.pattern if full else None,
            topic_partitions=self.reported(),
            **self.more,
        )

    def reported(self) -> list[TopicPartitions]:
        by_topic: dict[bytes, list[int]] = {}
        for topic_id, partition in sorted(self.owned):
            by_topic.setdefault(topic_id, []).append(partition)
        return [TopicPartitions(topic_id=topic_id, partitions=parts) for topic_id, parts in by_topic.items()]

    def wants(self) -> set[str]:
        """The topics that it subscribes to, by name or pattern, as far as it may know of them."""
        shown = [name for name in self.host.topics.names if name not in self.host.hidden]
        return {*self.topics, *(name for name in shown if self.pattern and re.fullmatch(self.pattern, name))}

    @property
    def has(self) -> set[int]:
        """Partition numbers, whatever the topic."""
        return {partition for _, partition in self.owned}


def is_target_of_its_members(group: ConsumerGroup, topics: Topics) -> bool:
    """Whether a target that was computed for the group's epoch is what the assignor finds, which changes nothing about
    what it found for the same members. True where there is none, topics changed since, or a member's new expression
    is not resolved yet: the group's epoch rises once it is."""
    if group.assignment_epoch != group.group_epoch or group.assignment_timestamp_ms == NEVER_ASSIGNED_MS:
        return True
    if metadata_hash(group.subscribed_topics(), topics) != group.metadata_hash:
        return True
    if any(expression not in group.regexes for expression in group.regex_subscribers):
        return True
    due = Snapshot(group, group.assignor("uniform"))
    return not compute(due, at_once(counted_topics(group, topics))).records


def settle(host: ConsumerHost, *consumers: Consumer) -> None:
    """Let all send heartbeats until nothing moves any more."""
    for _ in range(20):
        before = [(consumer.epoch, set(consumer.owned)) for consumer in consumers], host.group.group_epoch
        host.advance(host.consumer_configs.settings.assignment_interval_ms)
        for consumer in consumers:
            consumer.beat()
        if before == ([(consumer.epoch, set(consumer.owned)) for consumer in consumers], host.group.group_epoch):
            return
    raise AssertionError("the group does not settle")
