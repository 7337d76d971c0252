"""ConsumerGroupDescribeResponse. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.common.ids import ZERO_UUID
from kraft.protocol.schema import Message, Struct, UnknownTags


class TopicPartitions(Struct):
    __slots__ = ("topic_id", "topic_name", "partitions", "unknown_tags")
    SCHEMA = """
    topic_id: uuid 0+
    topic_name: string 0+ entity=topicName
    partitions: []int32 0+
    """

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        topic_name: str = "",
        partitions: list[int] | tuple[int, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partitions: list[int] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class Assignment(Struct):
    __slots__ = ("topic_partitions", "unknown_tags")
    SCHEMA = """
    topic_partitions: []TopicPartitions 0+
    """

    def __init__(
        self,
        *,
        topic_partitions: list[TopicPartitions] | tuple[TopicPartitions, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.topic_partitions: list[TopicPartitions] = list(topic_partitions) if isinstance(topic_partitions, tuple) else topic_partitions
        self.unknown_tags = unknown_tags


class Member(Struct):
    __slots__ = ("member_id", "instance_id", "rack_id", "member_epoch", "client_id", "client_host", "subscribed_topic_names", "subscribed_topic_regex", "assignment", "target_assignment", "member_type", "unknown_tags")
    SCHEMA = """
    member_id: string 0+
    instance_id: string 0+ nullable=0+ default=null
    rack_id: string 0+ nullable=0+ default=null
    member_epoch: int32 0+
    client_id: string 0+
    client_host: string 0+
    subscribed_topic_names: []string 0+ entity=topicName
    subscribed_topic_regex: string 0+ nullable=0+ default=null
    assignment: Assignment 0+
    target_assignment: Assignment 0+
    member_type: int8 1+ default=-1 ignorable
    """

    def __init__(
        self,
        *,
        member_id: str = "",
        instance_id: str | None = None,
        rack_id: str | None = None,
        member_epoch: int = 0,
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] | tuple[str, ...] = (),
        subscribed_topic_regex: str | None = None,
        assignment: Assignment | None = None,
        target_assignment: Assignment | None = None,
        member_type: int = -1,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.member_epoch = member_epoch
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names: list[str] = list(subscribed_topic_names) if isinstance(subscribed_topic_names, tuple) else subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.assignment = Assignment() if assignment is None else assignment
        self.target_assignment = Assignment() if target_assignment is None else target_assignment
        self.member_type = member_type
        self.unknown_tags = unknown_tags


class DescribedGroup(Struct):
    __slots__ = ("error_code", "error_message", "group_id", "group_state", "group_epoch", "assignment_epoch", "assignor_name", "members", "authorized_operations", "unknown_tags")
    SCHEMA = """
    error_code: int16 0+
    error_message: string 0+ nullable=0+ default=null
    group_id: string 0+ entity=groupId
    group_state: string 0+
    group_epoch: int32 0+
    assignment_epoch: int32 0+
    assignor_name: string 0+
    members: []Member 0+
    authorized_operations: int32 0+ default=-2147483648
    """

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        assignor_name: str = "",
        members: list[Member] | tuple[Member, ...] = (),
        authorized_operations: int = -2147483648,
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.assignor_name = assignor_name
        self.members: list[Member] = list(members) if isinstance(members, tuple) else members
        self.authorized_operations = authorized_operations
        self.unknown_tags = unknown_tags


class ConsumerGroupDescribeResponse(Message):
    __slots__ = ("throttle_time_ms", "groups", "unknown_tags")
    API_KEY = 69
    VALID_VERSIONS = (0, 1)
    FLEXIBLE_VERSIONS = (0, 1)
    SCHEMA = """
    throttle_time_ms: int32 0+
    groups: []DescribedGroup 0+
    """

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: list[DescribedGroup] | tuple[DescribedGroup, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups: list[DescribedGroup] = list(groups) if isinstance(groups, tuple) else groups
        self.unknown_tags = unknown_tags
