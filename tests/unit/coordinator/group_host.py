"""A host for the group state machine without tasks or disk: time moves when told to, the log is a list. What tests
of the pure part share."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

from kraft.common.ids import TopicPartition
from kraft.coordinator.group.activity import GroupChange
from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.coordinator.group.consumer.assigning import ComputedTarget, ComputeTarget, adopt_target, compute, snapshot
from kraft.coordinator.group.consumer.consumer_group import ResolvedRegex
from kraft.coordinator.group.consumer.expressions import adopt_expressions, describable, matching
from kraft.coordinator.group.consumer.target import counted_topics
from kraft.coordinator.group.group_shard import GroupShard
from kraft.coordinator.group.offsets.offset_expiry import expiring
from kraft.coordinator.group.shard_state import GroupShardState, OffsetAndMetadata
from kraft.coordinator.group.streams.assigning import ComputedStreamsTarget, ComputeStreamsTarget
from kraft.coordinator.group.streams.assigning import adopt_target as adopt_streams_target
from kraft.coordinator.group.streams.assigning import compute as compute_streams
from kraft.coordinator.group.streams.assigning import snapshot as snapshot_streams
from kraft.coordinator.regular_expression import RegularExpression
from kraft.coordinator.shard import PARKED, LogRecord, Moment, Token
from kraft.coordinator.sweeps import Walk
from kraft.protocol.messages.heartbeat_request import HeartbeatRequest
from kraft.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kraft.protocol.messages.leave_group_request import MemberIdentity
from kraft.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraft.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kraft.world.steps import Steps, at_once
from tests.unit.coordinator.fakes import PlainConsumerConfigs, PlainShareConfigs, PlainStreamsConfigs, Topics

T = TypeVar("T")


def result_of(work: Steps[T]) -> T:
    """What work that may pause returns, at once."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


WALL_START_MS = 1_700_000_000_000


class TestCaller:
    __test__ = False

    def __init__(self, api_version: int, client_id: str = "client", client_host: str = "/127.0.0.1") -> None:
        self.api_version = api_version
        self.client_id: str | None = client_id
        self.client_host = client_host


class GroupHost:
    """Runs operations at once, keeps every record, and fires deadlines in order as `advance` moves time."""

    def __init__(self, config: GroupCoordinatorConfig | None = None, topics: Topics | None = None) -> None:
        self.topics = topics or Topics("t", "u")
        self.consumer_configs = PlainConsumerConfigs()
        self.share_configs = PlainShareConfigs()
        self.streams_configs = PlainStreamsConfigs()
        self.shard = GroupShard(
            config or GroupCoordinatorConfig(),
            self.topics,
            self.consumer_configs,
            self.share_configs,
            self.streams_configs,
        )
        self.state: GroupShardState = self.shard.empty()
        self.log: list[LogRecord] = []
        self.now_ms = 0
        self.answers: dict[Token, Any] = {}
        self.expires_at_ms = 0
        self.jobs: dict[str, Any] = {}
        """By group, what an operation asked for that no job has done yet."""
        self.targets_asked: dict[str, ComputeTarget] = {}
        self.computed: list[ComputedTarget] = []
        """Targets that jobs have computed and not handed over yet."""
        self.streams_targets_asked: dict[str, ComputeStreamsTarget] = {}
        self.changes: list[GroupChange] = []
        self._token = 0
        self.load()

    def load(self) -> None:
        """Forget everything and rebuild it from the log, as a new leader does."""
        self.state = rebuild(self.shard, self.log)
        draft = self.draft()
        self.shard.loaded(draft)
        self._adopt(draft)
        self.expires_at_ms = self.now_ms + self.shard.config.offsets_retention_check_interval_ms

    def draft(self) -> Any:
        self._token += 1
        return self.shard.draft(self.state, self._token, Moment(self.now_ms, WALL_START_MS + self.now_ms))

    def run(self, operation: Any) -> tuple[Token, Any]:
        """The token of the request and its response, or PARKED: look in `answers` under the token later."""
        draft = self.draft()
        response = operation(draft)
        self._adopt(draft)
        if response is not PARKED:
            self.answers[draft.token] = response
        return draft.token, response

    def walk(self, walk: Walk[GroupShardState]) -> None:
        for operation in walk(self.state):
            self.run(operation)

    def _adopt(self, draft: Any) -> None:
        self.state = draft.finish()
        self.log += draft.records
        self.changes += [effect for effect in draft.effects if isinstance(effect, GroupChange)]
        for job in (effect for effect in draft.effects if not isinstance(effect, GroupChange)):
            asked: dict[str, Any] = self.jobs
            if isinstance(job, ComputeTarget):
                asked = self.targets_asked
            elif isinstance(job, ComputeStreamsTarget):
                asked = self.streams_targets_asked
            asked.setdefault(job.group_id, job)
        for token, response in draft.completions:
            assert token not in self.answers, "answered twice"
            self.answers[token] = response

    def advance(self, milliseconds: int) -> None:
        until = self.now_ms + milliseconds
        while self.expires_at_ms <= until:
            self._fire_until(self.expires_at_ms)
            self.walk(expiring(None))
            self.expires_at_ms += self.shard.config.offsets_retention_check_interval_ms
        self._fire_until(until)

    def _fire_until(self, until: int) -> None:
        while True:
            due = min(
                ((deadline, key) for key, deadline in self.shard.deadlines(self.state) if deadline <= until),
                default=None,
            )
            if due is None:
                break
            self.now_ms = max(self.now_ms, due[0])
            draft = self.draft()
            self.shard.expire(draft, due[1])
            self._adopt(draft)
            left = self.shard.deadline_of(self.state, due[1])
            assert left is None or left > self.now_ms or due[1][0] == "join", "an expired deadline stays"
        self.now_ms = until

    def do_jobs(self) -> None:
        """Do all that was asked for, as `ConsumerGroupJobs` does."""
        jobs, self.jobs = self.jobs, {}
        for job in jobs.values():
            self.run(self.outcome_of(job))
        self.begin_targets()
        self.end_targets()

    def begin_targets(self) -> None:
        """Compute each target that was asked for, from the group as it is now. A group has one job at a time."""
        at_work = {computed.group.group_id for computed in self.computed}
        for group_id in sorted(self.targets_asked.keys() - at_work):
            del self.targets_asked[group_id]
            _, due = self.run(partial(snapshot, group_id=group_id))
            if due is not None:
                self.computed.append(compute(due, at_once(counted_topics(due.group, self.topics))))

    def end_targets(self) -> None:
        """Hand over what was computed, however long ago."""
        computed, self.computed = self.computed, []
        for each in computed:
            self.run(partial(adopt_target, computed=each))

    def begin_streams_targets(self) -> list[ComputedStreamsTarget]:
        """Compute each target of a streams group that was asked for, from the group as it is now."""
        asked, self.streams_targets_asked = self.streams_targets_asked, {}
        found = [self.run(partial(snapshot_streams, group_id=group_id))[1] for group_id in sorted(asked)]
        return [compute_streams(due) for due in found if due is not None]

    def end_streams_targets(self, computed: list[ComputedStreamsTarget]) -> None:
        """Hand over what was computed, however long ago."""
        for each in computed:
            self.run(partial(adopt_streams_target, computed=each))

    def outcome_of(self, job: Any) -> Any:
        """The operation that hands to the group what the job found."""
        topics = self.topics.all_names()
        matched = {text: matching(RegularExpression(text), topics.names) for text in job.expressions}
        found = at_once(describable(matched, job.may_describe))
        resolved = {
            text: ResolvedRegex(names, topics.version, WALL_START_MS + self.now_ms) for text, names in found.items()
        }
        return partial(adopt_expressions, group_id=job.group_id, resolved=resolved)

    def offsets(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        offsets = self.state.offsets_of(group_id)
        return {key: offsets[key] for key in sorted(offsets)}


def rebuild(shard: GroupShard, log: list[LogRecord]) -> GroupShardState:
    state = shard.empty()
    for key, value in log:
        state = shard.replay(state, key, value)
    return state


def subscription(*topics: str) -> bytes:
    """Consumer protocol metadata, version 0."""
    body = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\x00\x00" + len(topics).to_bytes(4, "big") + body + b"\xff\xff\xff\xff"


def join_request(
    group: str,
    member_id: str = "",
    *,
    instance_id: str | None = None,
    protocols: tuple[tuple[str, bytes], ...] = (("range", subscription("t")),),
    session_ms: int = 10_000,
    rebalance_ms: int = 60_000,
    protocol_type: str = "consumer",
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols],
    )


def sync_request(
    group: str,
    member_id: str,
    generation: int,
    assignments: dict[str, bytes] | None = None,
    instance_id: str | None = None,
) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        assignments=[
            SyncGroupRequestAssignment(member_id=key, assignment=value) for key, value in (assignments or {}).items()
        ],
    )


def heartbeat_request(group: str, member_id: str, generation: int, instance_id: str | None = None) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance_id
    )


def leaving(member_id: str, instance_id: str | None = None) -> MemberIdentity:
    return MemberIdentity(member_id=member_id, group_instance_id=instance_id)


def commit_request(
    group: str,
    offsets: dict[tuple[str, int], int],
    member_id: str = "",
    generation: int = -1,
    *,
    instance_id: str | None = None,
    metadata: str = "",
    retention_ms: int = -1,
) -> OffsetCommitRequest:
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (topic, partition), offset in offsets.items():
        entry = topics.setdefault(topic, OffsetCommitRequestTopic(name=topic))
        entry.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_metadata=metadata
            )
        )
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        retention_time_ms=retention_ms,
        topics=list(topics.values()),
    )
