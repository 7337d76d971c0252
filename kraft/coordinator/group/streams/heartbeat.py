"""StreamsGroupHeartbeat (versions 0-1, KIP-1071): join, stay and leave, and learn the tasks.

A heartbeat writes the changes of its member, checks the topology against the topics, computes a new target assignment
if the group has changed, and takes the member one step towards it. It returns the internal topics that are missing;
the caller creates them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from immutables import Map

from kraft.common.errors import ApiError
from kraft.coordinator.group.activity import STREAMS, GroupEvent
from kraft.coordinator.group.caller import Caller
from kraft.coordinator.group.classic.classic_group import EMPTY
from kraft.coordinator.group.consumer.member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    LEAVING_STATIC_EPOCH,
    NO_REBALANCE_TIMEOUT,
)
from kraft.coordinator.group.consumer.target import metadata_hash
from kraft.coordinator.group.draft import GroupDraft
from kraft.coordinator.group.group_types import is_taken
from kraft.coordinator.group.streams import records
from kraft.coordinator.group.streams.assigning import RACK_AWARE_TAGS, assign, assignment_configs, is_due
from kraft.coordinator.group.streams.configured_topology import ConfiguredTopology, Status, configure
from kraft.coordinator.group.streams.deadlines import delay_assignment, limit_revocation, start_session
from kraft.coordinator.group.streams.endpoints import partitions_by_endpoint
from kraft.coordinator.group.streams.member import NO_TOPOLOGY_EPOCH, Endpoint, StreamsMember
from kraft.coordinator.group.streams.membership import (
    bump_epoch,
    remove_member,
    replace_static,
    require_room,
    set_aside,
)
from kraft.coordinator.group.streams.reconciliation import Reconciliation
from kraft.coordinator.group.streams.settings import ACCEPTABLE_RECOVERY_LAG, TASK_OFFSET_INTERVAL_MS
from kraft.coordinator.group.streams.streams_group import (
    StreamsGroup,
    StreamsGroupState,
    TaskOffsets,
    known_streams_group,
)
from kraft.coordinator.group.streams.tasks import NOTHING_WANTED, Task, TaskEpochs, Tasks, TaskSet, tasks_of
from kraft.coordinator.group.streams.topology import InternalTopic, Topology, topology_of_message, topology_record
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import streams_group_heartbeat_request as wire
from kraft.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest as Request
from kraft.protocol.messages.streams_group_heartbeat_response import Status as StatusMessage
from kraft.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse as Response
from kraft.protocol.messages.streams_group_heartbeat_response import TaskIds

CLIENT_TAGS_VERSION = 1
"""From this version on members know the status MISSING_CLIENT_TAGS."""


class HeartbeatResult(NamedTuple):
    """The response to a heartbeat, and the internal topics that are missing, by name."""

    response: Response
    missing: Mapping[str, InternalTopic] = {}


# Checks that need no group.


def check_request(request: Request) -> None:
    """Check the request without its group. Raises ApiError with Kafka's messages."""
    if request.topology is not None:
        _check_topology(request.topology)
    for name, value in (
        ("MemberId", request.member_id),
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        if value is not None and not value.strip():
            raise _invalid(f"{name} can't be empty.")
    reported = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if request.member_epoch == JOINING_EPOCH:
        if request.rebalance_timeout_ms == NO_REBALANCE_TIMEOUT:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        for name, tasks in zip(("ActiveTasks", "StandbyTasks", "WarmupTasks"), reported, strict=True):
            if tasks:
                raise _invalid(f"{name} must be empty when (re-)joining.")
        if request.topology is None:
            raise _invalid("Topology must be non-null when (re-)joining.")
        _check_changelogs(request.topology)
    elif request.member_epoch == LEAVING_STATIC_EPOCH:
        if request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif request.member_epoch < LEAVING_STATIC_EPOCH:
        raise _invalid(f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2.")
    if any(tasks is not None for tasks in reported) and any(tasks is None for tasks in reported):
        raise _invalid("If one task-type is non-null, all must be non-null.")
    if request.member_epoch != JOINING_EPOCH and request.topology is not None:
        raise _invalid("Topology can only be provided when (re-)joining.")


def _check_topology(topology: wire.Topology) -> None:
    if any(each.source_topic_regex for each in topology.subtopologies):
        raise _invalid("Regular expressions for source topics are not supported yet.")
    if topology.epoch < 0:
        raise _invalid("Topology epoch must be non-negative.")
    if len({each.subtopology_id for each in topology.subtopologies}) < len(topology.subtopologies):
        raise ApiError(ErrorCode.STREAMS_INVALID_TOPOLOGY, "Two subtopologies have the same id.")


def _check_changelogs(topology: wire.Topology) -> None:
    for subtopology in topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions:
                raise ApiError(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                    f"{topic.partitions}.",
                )


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)


# The heartbeat.


def streams_heartbeat(draft: GroupDraft, request: Request, caller: Caller) -> HeartbeatResult:
    """Handle a request that passed `check_request`. Raises ApiError."""
    if request.member_epoch in (LEAVING_EPOCH, LEAVING_STATIC_EPOCH):
        return _leave(draft, request)
    return _Heartbeat(draft, request, caller).run()


class _Heartbeat:
    """One heartbeat of a member that joins or stays. `before` is the group at the start of the heartbeat. Only tasks
    that are free in `before` are assigned, so a task that this heartbeat frees is assigned in a later one."""

    def __init__(self, draft: GroupDraft, request: Request, caller: Caller) -> None:
        self.draft = draft
        self.request = request
        self.caller = caller
        self.group_id = request.group_id
        self.joins = request.member_epoch == JOINING_EPOCH
        self.statuses: list[StatusMessage] = []
        self.existed = draft.streams_group(self.group_id) is not None
        self.before = _group_for(draft, request)

    def run(self) -> HeartbeatResult:
        draft, request, before = self.draft, self.request, self.before
        known = _member_for(draft, before, request)
        member = _updated(known, request, self.caller)
        must_assign = self._write_member(known, member)
        topology = self._topology()
        if before.topology is not None and member.topology_epoch < before.topology.epoch:
            self._tell(
                Status.STALE_TOPOLOGY,
                f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch "
                f"{before.topology.epoch}.",
            )
        configured, digest = self._configure(topology)
        if configured.is_ready:
            _check_tasks(configured, request)
        self._note_offsets()
        self._follow(configured, digest, must_assign=must_assign)
        group, target = self._assign(configured)
        after = self._reconcile(group, group.members[member.member_id], target)
        start_session(draft, self.group_id, member.member_id)
        if request.shutdown_application:
            group = draft.require_streams_group(self.group_id)
            draft.keep_streams(replace(group, shutdown_member=group.shutdown_member or member.member_id))
        response = self._response(known, after)
        self._tell_problems(configured, after)
        response.status = self.statuses
        return HeartbeatResult(response, configured.missing)

    def _tell(self, status: Status, detail: str) -> None:
        self.statuses.append(StatusMessage(status_code=status, status_detail=detail))

    def _write_member(self, known: StreamsMember, member: StreamsMember) -> bool:
        """Write the member if it is new or has changed. Returns whether the group needs another assignment. A change of
        a static member counts only if assignments depend on it."""
        group = self.draft.streams_group(self.group_id)
        if member == known and group is not None and member.member_id in group.members:
            return False
        self.draft.write_streams(self.group_id, records.member_metadata(self.group_id, member))
        return self.request.instance_id is None or _assigned_by(known) != _assigned_by(member)

    def _topology(self) -> Topology:
        """The group's topology: that of its first member."""
        message, present = self.request.topology, self.before.topology
        if message is None:
            if present is None:
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Group {self.group_id} has no topology.")
            return present
        topology = topology_of_message(message)
        if present is None:
            self.draft.write_streams(self.group_id, records.topology(self.group_id, topology_record(message)))
            return topology
        if topology.epoch >= present.epoch and topology != present:
            raise _invalid("Topology updates are not supported yet.")
        return present

    def _configure(self, topology: Topology) -> tuple[ConfiguredTopology, int]:
        """The topology checked against the present topics, and the digest of the topics that it reads."""
        group, topics = self.draft.require_streams_group(self.group_id), self.draft.topics
        if group.configured is not None and group.topics_seen is topics.version():
            return group.configured, group.metadata_hash
        digest = metadata_hash(topology.required_topics, topics)
        configured = group.configured
        if configured is None or digest != group.metadata_hash:
            configured = configure(topology, topics)
        self.draft.keep_streams(replace(group, configured=configured, topics_seen=topics.version()))
        return configured, digest

    def _note_offsets(self) -> None:
        """Remember the offsets that the member reports. They last as long as its membership here."""
        request, member_id = self.request, self.request.member_id
        if request.task_offsets is None and request.task_end_offsets is None:
            return
        group = self.draft.require_streams_group(self.group_id)
        known = group.offsets_of(member_id)
        reported = TaskOffsets(
            known.offsets if request.task_offsets is None else _offsets(request.task_offsets),
            known.end_offsets if request.task_end_offsets is None else _offsets(request.task_end_offsets),
        )
        self.draft.keep_streams(replace(group, task_offsets=group.task_offsets.set(member_id, reported)))

    def _follow(self, configured: ConfiguredTopology, digest: int, *, must_assign: bool) -> None:
        """Raise the group epoch if the member, the topics or the settings have changed."""
        group = self.draft.require_streams_group(self.group_id)
        validated = configured.epoch if configured.is_ready else NO_TOPOLOGY_EPOCH
        configs = assignment_configs(self.draft, self.group_id)
        present = (group.metadata_hash, group.validated_epoch, group.assignment_configs)
        if must_assign or (digest, validated, configs) != present:
            raised = replace(group, metadata_hash=digest, validated_epoch=validated, assignment_configs=configs)
            bump_epoch(self.draft, raised)
        delay_ms = self.draft.streams_configs.settings_of(self.group_id).initial_rebalance_delay_ms
        if self.before.is_empty and delay_ms > 0 and group.delay_deadline_ms is None:
            delay_assignment(self.draft, self.group_id, delay_ms)

    def _assign(self, configured: ConfiguredTopology) -> tuple[StreamsGroup, TaskSet]:
        """Compute a new target assignment if one is due. Returns the group and the member's target."""
        draft = self.draft
        group = draft.require_streams_group(self.group_id)
        if group.delay_deadline_ms is not None:
            self._tell(Status.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured initial rebalance delay.")
            return group, NOTHING_WANTED
        if group.assignment_epoch < group.group_epoch:
            if is_due(draft, group):
                group = assign(draft, group)
                if group.assignment_epoch < group.group_epoch:
                    self._tell(Status.ASSIGNMENT_DELAYED, "The assignment of this large group is being computed.")
            else:
                self._tell(Status.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured assignment interval.")
        return group, group.target_of(self.request.member_id)

    def _reconcile(self, group: StreamsGroup, member: StreamsMember, target: TaskSet) -> StreamsMember:
        """Take the member one step towards its target. Returns the member."""
        if member.has_reached(group.assignment_epoch):
            return member
        step = Reconciliation(
            target=target,
            target_epoch=group.assignment_epoch,
            reported=_reported(self.request),
            holders=self.before.holders,
        )
        after = step.next(member)
        if after != member:
            self.draft.write_streams(self.group_id, records.current_assignment(self.group_id, after))
            limit_revocation(self.draft, self.group_id, after)
            if self.draft.require_streams_group(self.group_id).state is StreamsGroupState.STABLE:
                self.draft.tell(self.group_id, STREAMS, GroupEvent.SETTLED)
        return after

    def _response(self, known: StreamsMember, after: StreamsMember) -> Response:
        response = Response(
            member_id=after.member_id,
            member_epoch=after.member_epoch,
            heartbeat_interval_ms=self.draft.streams_configs.settings_of(self.group_id).heartbeat_interval_ms,
            task_offset_interval_ms=TASK_OFFSET_INTERVAL_MS,
            acceptable_recovery_lag=ACCEPTABLE_RECOVERY_LAG,
        )
        has_changed = known.assigned != after.assigned
        if self.joins or has_changed:
            response.active_tasks = _task_ids(after.assigned.active)
            response.standby_tasks = _task_ids(after.assigned.standby)
            response.warmup_tasks = _task_ids(after.assigned.warmup)
        self._add_endpoints(response, known, after, tasks_changed=has_changed)
        return response

    def _add_endpoints(
        self, response: Response, known: StreamsMember, after: StreamsMember, *, tasks_changed: bool
    ) -> None:
        """Add the endpoints of all members if they changed since the epoch that the member knows. As in Kafka, the
        heartbeat that creates the group starts no epoch."""
        group = self.draft.require_streams_group(self.group_id)
        epoch = group.endpoint_epoch
        if known.endpoint != after.endpoint or (tasks_changed and after.endpoint is not None):
            epoch += 1
        if epoch != self.request.endpoint_information_epoch:
            response.partitions_by_user_endpoint = partitions_by_endpoint(group, after.member_id, self.draft.topics)
        if self.existed:
            response.endpoint_information_epoch = epoch
            self.draft.keep_streams(replace(group, endpoint_epoch=epoch))

    def _tell_problems(self, configured: ConfiguredTopology, member: StreamsMember) -> None:
        if configured.problem is not None:
            self._tell(*configured.problem)
        group = self.draft.require_streams_group(self.group_id)
        if group.shutdown_member is not None:
            self._tell(
                Status.SHUTDOWN_APPLICATION,
                f"Streams group member {group.shutdown_member} encountered a fatal error and requested a shutdown for "
                "the entire application.",
            )
        wanted = dict(assignment_configs(self.draft, self.group_id)).get(RACK_AWARE_TAGS, "")
        present = dict(member.tags)
        missing = [tag.strip() for tag in wanted.split(",") if wanted and tag.strip() not in present]
        if missing and self.caller.api_version >= CLIENT_TAGS_VERSION:
            self._tell(
                Status.MISSING_CLIENT_TAGS,
                f"Missing required client tags for rack-aware standby assignment: [{', '.join(missing)}]. Configure "
                "them via 'client.tag.<tagKey>' in your Streams config.",
            )


def _group_for(draft: GroupDraft, request: Request) -> StreamsGroup:
    """Return the group, or a new one for its first member. It replaces a classic group without members; the offsets
    stay. Raises ApiError."""
    group_id = request.group_id
    group = draft.streams_group(group_id)
    if group is None:
        classic = draft.group(group_id)
        is_replaced = classic is not None and classic.state is EMPTY
        if request.member_epoch != JOINING_EPOCH or (is_taken(draft, group_id) and not is_replaced):
            return known_streams_group(draft, group_id, "Streams group {} not found.")
        if is_replaced:
            draft.delete_group(group_id)
        group = StreamsGroup(group_id=group_id)
    is_static = request.instance_id is not None and request.instance_id in group.static_members
    if request.member_epoch == JOINING_EPOCH and request.member_id not in group.members and not is_static:
        require_room(draft, group)
    return group


def _member_for(draft: GroupDraft, group: StreamsGroup, request: Request) -> StreamsMember:
    """The member that sends the heartbeat: a known one, a new one, or one that replaces another. Raises ApiError."""
    member_id, instance_id = request.member_id, request.instance_id
    if request.member_epoch == JOINING_EPOCH:
        holder = None if instance_id is None else group.static_member(instance_id)
        if holder is None:
            return group.members.get(member_id) or StreamsMember(member_id=member_id)
        if not holder.is_away:
            raise ApiError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance "
                f"id is owned by {holder.member_id} member.",
            )
        return replace_static(draft, group.group_id, holder, member_id)
    if instance_id is None:
        member = group.require_member(member_id)
    else:
        member = group.require_holder(instance_id, member_id)
    _check_epoch(member, request)
    return member


def _check_epoch(member: StreamsMember, request: Request) -> None:
    """Check the member's epoch. The previous epoch is accepted too, because the response that raised it may be lost.
    The member must then own nothing that it was not assigned."""
    epoch = request.member_epoch
    if epoch > member.member_epoch:
        what = "greater"
    elif epoch < member.member_epoch and (epoch != member.previous_epoch or not _has_only_assigned(member, request)):
        what = "smaller"
    else:
        return
    raise ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The streams group member has a {what} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.member_epoch}). The member must abandon all its partitions and rejoin.",
    )


def _has_only_assigned(member: StreamsMember, request: Request) -> bool:
    reported, assigned = _reported(request), member.assigned
    return reported is not None and (
        set(tasks_of(reported.active)) <= set(tasks_of(assigned.active))
        and set(tasks_of(reported.standby)) <= set(tasks_of(assigned.standby))
        and set(tasks_of(reported.warmup)) <= set(tasks_of(assigned.warmup))
    )


def _updated(member: StreamsMember, request: Request, caller: Caller) -> StreamsMember:
    """The member with the changes in the request. Absent fields keep their values, except the endpoint of a member that
    joins."""
    endpoint = (
        None if request.user_endpoint is None else Endpoint(request.user_endpoint.host, request.user_endpoint.port)
    )
    if endpoint is None and request.member_epoch != JOINING_EPOCH:
        endpoint = member.endpoint
    timeout_ms, tags = request.rebalance_timeout_ms, request.client_tags
    return replace(
        member,
        instance_id=request.instance_id or member.instance_id,
        rack_id=request.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == NO_REBALANCE_TIMEOUT else timeout_ms,
        topology_epoch=member.topology_epoch if request.topology is None else request.topology.epoch,
        client_id=caller.client_id or "",
        client_host=caller.client_host,
        process_id=member.process_id if request.process_id is None else request.process_id,
        tags=member.tags if tags is None else tuple(sorted({each.key: each.value for each in tags}.items())),
        endpoint=endpoint,
    )


def _assigned_by(member: StreamsMember) -> tuple[object, ...]:
    """The fields of a member on which assignments depend."""
    return member.topology_epoch, member.rack_id, member.tags, member.process_id


def _check_tasks(configured: ConfiguredTopology, request: Request) -> None:
    """Check that the tasks that the member reports exist. Raises ApiError."""
    assert configured.subtopologies is not None, "a topology without a problem has subtopologies"
    for tasks in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
        for each in tasks or ():
            subtopology = configured.subtopologies.get(each.subtopology_id)
            if subtopology is None:
                raise _invalid(f"Subtopology {each.subtopology_id} does not exist in the topology.")
            for partition in each.partitions:
                if not 0 <= partition < subtopology.task_count:
                    raise _invalid(
                        f"Task {partition} for subtopology {each.subtopology_id} is invalid. Number of tasks for this "
                        f"subtopology: {subtopology.task_count}"
                    )


def _reported(request: Request) -> TaskSet | None:
    """The tasks that the member says it owns; None if it does not say."""
    active, standby, warmup = request.active_tasks, request.standby_tasks, request.warmup_tasks
    if active is None or standby is None or warmup is None:
        return None
    return TaskSet(_tasks(active), _tasks(standby), _tasks(warmup))


def _tasks(ids: Sequence[wire.TaskIds]) -> Tasks:
    tasks: dict[str, frozenset[int]] = {}
    for each in ids:
        if each.partitions:
            tasks[each.subtopology_id] = tasks.get(each.subtopology_id, frozenset()) | frozenset(each.partitions)
    return tasks


def _offsets(reported: Sequence[wire.TaskOffset]) -> Map[Task, int]:
    """Raises ApiError if a task is reported twice."""
    offsets: dict[Task, int] = {}
    for each in reported:
        task = (each.subtopology_id, each.partition)
        if task in offsets:
            raise _invalid(
                f"Task offsets contain a duplicate entry for subtopology {each.subtopology_id} and partition "
                f"{each.partition}."
            )
        offsets[task] = each.offset
    return Map(offsets)


def _task_ids(tasks: Tasks | TaskEpochs) -> list[TaskIds]:
    return [TaskIds(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks)]


def _leave(draft: GroupDraft, request: Request) -> HeartbeatResult:
    group = known_streams_group(draft, request.group_id)
    member_id = request.member_id
    if request.instance_id is None:
        member = group.require_member(member_id)
    else:
        member = group.require_holder(request.instance_id, member_id)
    if request.shutdown_application and group.shutdown_member is None:
        draft.keep_streams(replace(group, shutdown_member=member_id))
    if request.instance_id is not None and request.member_epoch == LEAVING_STATIC_EPOCH:
        set_aside(draft, request.group_id, member)
    else:
        remove_member(draft, request.group_id, member_id)
    return HeartbeatResult(Response(member_id=member_id, member_epoch=request.member_epoch, status=[]))
