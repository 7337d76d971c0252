"""StreamsGroupTargetAssignmentMemberValue. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class TaskIds(Struct):
    __slots__ = ("subtopology_id", "partitions", "unknown_tags")
    SCHEMA = """
    subtopology_id: string 0+
    partitions: []int32 0+
    """

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        partitions: list[int] | tuple[int, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partitions: list[int] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.unknown_tags = unknown_tags


class StreamsGroupTargetAssignmentMemberValue(Message):
    __slots__ = ("active_tasks", "standby_tasks", "warmup_tasks", "unknown_tags")
    API_KEY = 21
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    active_tasks: []TaskIds 0+
    standby_tasks: []TaskIds 0+
    warmup_tasks: []TaskIds 0+
    """

    def __init__(
        self,
        *,
        active_tasks: list[TaskIds] | tuple[TaskIds, ...] = (),
        standby_tasks: list[TaskIds] | tuple[TaskIds, ...] = (),
        warmup_tasks: list[TaskIds] | tuple[TaskIds, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.active_tasks: list[TaskIds] = list(active_tasks) if isinstance(active_tasks, tuple) else active_tasks
        self.standby_tasks: list[TaskIds] = list(standby_tasks) if isinstance(standby_tasks, tuple) else standby_tasks
        self.warmup_tasks: list[TaskIds] = list(warmup_tasks) if isinstance(warmup_tasks, tuple) else warmup_tasks
        self.unknown_tags = unknown_tags
