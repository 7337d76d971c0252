"""StreamsGroupCurrentMemberAssignmentValue. Generated from Apache Kafka 4.4.0 by kraft/_tools/generate_messages.py: do not edit."""

from __future__ import annotations

from kraft.protocol.schema import Message, Struct, UnknownTags


class TaskIds(Struct):
    __slots__ = ("subtopology_id", "partitions", "assignment_epochs", "unknown_tags")
    SCHEMA = """
    subtopology_id: string 0+
    partitions: []int32 0+
    assignment_epochs: []int32 0+ nullable=0+ tag=0@0+
    """

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        partitions: list[int] | tuple[int, ...] = (),
        assignment_epochs: list[int] | tuple[int, ...] | None = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partitions: list[int] = list(partitions) if isinstance(partitions, tuple) else partitions
        self.assignment_epochs: list[int] | None = list(assignment_epochs) if isinstance(assignment_epochs, tuple) else assignment_epochs
        self.unknown_tags = unknown_tags


class StreamsGroupCurrentMemberAssignmentValue(Message):
    __slots__ = ("member_epoch", "previous_member_epoch", "state", "active_tasks", "standby_tasks", "warmup_tasks", "active_tasks_pending_revocation", "standby_tasks_pending_revocation", "warmup_tasks_pending_revocation", "unknown_tags")
    API_KEY = 22
    VALID_VERSIONS = (0, 0)
    FLEXIBLE_VERSIONS = (0, 0)
    SCHEMA = """
    member_epoch: int32 0+
    previous_member_epoch: int32 0+
    state: int8 0+
    active_tasks: []TaskIds 0+
    standby_tasks: []TaskIds 0+
    warmup_tasks: []TaskIds 0+
    active_tasks_pending_revocation: []TaskIds 0+
    standby_tasks_pending_revocation: []TaskIds 0+
    warmup_tasks_pending_revocation: []TaskIds 0+
    """

    def __init__(
        self,
        *,
        member_epoch: int = 0,
        previous_member_epoch: int = 0,
        state: int = 0,
        active_tasks: list[TaskIds] | tuple[TaskIds, ...] = (),
        standby_tasks: list[TaskIds] | tuple[TaskIds, ...] = (),
        warmup_tasks: list[TaskIds] | tuple[TaskIds, ...] = (),
        active_tasks_pending_revocation: list[TaskIds] | tuple[TaskIds, ...] = (),
        standby_tasks_pending_revocation: list[TaskIds] | tuple[TaskIds, ...] = (),
        warmup_tasks_pending_revocation: list[TaskIds] | tuple[TaskIds, ...] = (),
        unknown_tags: UnknownTags | None = None,
    ) -> None:
        self.member_epoch = member_epoch
        self.previous_member_epoch = previous_member_epoch
        self.state = state
        self.active_tasks: list[TaskIds] = list(active_tasks) if isinstance(active_tasks, tuple) else active_tasks
        self.standby_tasks: list[TaskIds] = list(standby_tasks) if isinstance(standby_tasks, tuple) else standby_tasks
        self.warmup_tasks: list[TaskIds] = list(warmup_tasks) if isinstance(warmup_tasks, tuple) else warmup_tasks
        self.active_tasks_pending_revocation: list[TaskIds] = list(active_tasks_pending_revocation) if isinstance(active_tasks_pending_revocation, tuple) else active_tasks_pending_revocation
        self.standby_tasks_pending_revocation: list[TaskIds] = list(standby_tasks_pending_revocation) if isinstance(standby_tasks_pending_revocation, tuple) else standby_tasks_pending_revocation
        self.warmup_tasks_pending_revocation: list[TaskIds] = list(warmup_tasks_pending_revocation) if isinstance(warmup_tasks_pending_revocation, tuple) else warmup_tasks_pending_revocation
        self.unknown_tags = unknown_tags
