"""The draft of a group operation: the shard state being changed, and the effects of the change.

Durable changes are written (`write_group`, `write_offsets` and their tombstones), which replays the record on the draft
immediately. State that is kept only in memory is changed on `edit(group_id)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from immutables import Map

from kraft.common.ids import TopicPartition
from kraft.coordinator.group import group_records
from kraft.coordinator.group.activity import GroupChange, GroupEvent
from kraft.coordinator.group.classic.classic_group import ClassicGroup, ClassicMember
from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.coordinator.group.consumer.consumer_group import FIRST_EPOCH, ConsumerGroup, RevocationDeadline
from kraft.coordinator.group.consumer.member import ConsumerMember
from kraft.coordinator.group.consumer.records import ConsumerRecord, group_tombstone
from kraft.coordinator.group.consumer.replay import replay as replay_consumer
from kraft.coordinator.group.consumer.settings import ConsumerGroupConfigs
from kraft.coordinator.group.offsets.pending_offsets import GroupPending
from kraft.coordinator.group.replay import replay_group, replay_offset, set_offsets
from kraft.coordinator.group.shard_state import NO_OFFSETS, GroupOffsets, GroupShardState, OffsetAndMetadata
from kraft.coordinator.group.share.records import ShareRecord
from kraft.coordinator.group.share.records import group_tombstones as share_group_tombstones
from kraft.coordinator.group.share.records import replay as replay_share
from kraft.coordinator.group.share.settings import ShareMembershipConfigs
from kraft.coordinator.group.share.share_group import SHARE_SESSION, ShareGroup
from kraft.coordinator.group.streams.records import StreamsRecord
from kraft.coordinator.group.streams.records import group_tombstones as streams_group_tombstones
from kraft.coordinator.group.streams.records import replay as replay_streams
from kraft.coordinator.group.streams.settings import StreamsGroupConfigs
from kraft.coordinator.group.streams.streams_group import StreamsGroup
from kraft.coordinator.group.topic_directory import TopicDirectory
from kraft.coordinator.records.group_metadata_value import GroupMetadataValue
from kraft.coordinator.shard import LogRecord, Moment, Producer, TimerKey, Token


class GroupDraft:
    """The draft of one operation. `token` identifies the caller's request, for operations that park it. `producer` is
    the producer in whose transaction the offsets are committed, or None."""

    __slots__ = (
        "_consumer_groups",
        "_edited",
        "_groups",
        "_offsets",
        "_pending",
        "_share_groups",
        "_streams_groups",
        "completions",
        "config",
        "consumer_configs",
        "effects",
        "notes",
        "now_ms",
        "producer",
        "records",
        "share_configs",
        "streams_configs",
        "timers",
        "token",
        "topics",
        "wall_ms",
    )

    def __init__(
        self,
        state: GroupShardState,
        config: GroupCoordinatorConfig,
        token: Token,
        moment: Moment,
        producer: Producer | None = None,
        *,
        topics: TopicDirectory,
        consumer_configs: ConsumerGroupConfigs,
        share_configs: ShareMembershipConfigs,
        streams_configs: StreamsGroupConfigs,
    ) -> None:
        self.producer = producer
        self.config = config
        self.topics = topics
        self.consumer_configs = consumer_configs
        self.share_configs = share_configs
        self.streams_configs = streams_configs
        self.token = token
        self.effects: list[Any] = []
        self.now_ms = moment.now_ms
        self.wall_ms = moment.wall_ms
        self.records: list[LogRecord] = []
        self.completions: list[tuple[Token, Any]] = []
        self.timers: list[TimerKey] = []
        self.notes: list[dict[str, Any]] = []
        self._groups: Map[str, ClassicGroup] = state.groups
        self._consumer_groups: Map[str, ConsumerGroup] = state.consumer_groups
        self._offsets: Map[str, GroupOffsets] = state.offsets
        self._pending = state.pending
        self._share_groups = state.share_groups
        self._streams_groups = state.streams_groups
        self._edited: dict[str, ClassicGroup] = {}

    def finish(self) -> GroupShardState:
        groups = self._groups
        for group_id, group in self._edited.items():
            groups = groups.set(group_id, group)
        return GroupShardState(
            groups, self._consumer_groups, self._offsets, self._pending, self._share_groups, self._streams_groups
        )

    # Reading.

    def group(self, group_id: str) -> ClassicGroup | None:
        """The group as of this draft; read only."""
        return self._edited.get(group_id) or self._groups.get(group_id)

    def group_ids(self) -> list[str]:
        """The ids of the classic groups."""
        return sorted(self._groups)

    def consumer_group(self, group_id: str) -> ConsumerGroup | None:
        """The consumer group as of this draft: a value."""
        return self._consumer_groups.get(group_id)

    def require_consumer_group(self, group_id: str) -> ConsumerGroup:
        """Return a consumer group that is known to exist."""
        return self._consumer_groups[group_id]

    def consumer_group_ids(self) -> list[str]:
        return sorted(self._consumer_groups)

    def share_group(self, group_id: str) -> ShareGroup | None:
        """The share group as of this draft: a value."""
        return self._share_groups.get(group_id)

    def require_share_group(self, group_id: str) -> ShareGroup:
        """Return a share group that is known to exist."""
        return self._share_groups[group_id]

    def share_group_ids(self) -> list[str]:
        return sorted(self._share_groups)

    def streams_group(self, group_id: str) -> StreamsGroup | None:
        """The streams group as of this draft: a value."""
        return self._streams_groups.get(group_id)

    def require_streams_group(self, group_id: str) -> StreamsGroup:
        """Return a streams group that is known to exist."""
        return self._streams_groups[group_id]

    def streams_group_ids(self) -> list[str]:
        return sorted(self._streams_groups)

    def offsets(self, group_id: str) -> GroupOffsets:
        return self._offsets.get(group_id, NO_OFFSETS)

    def pending(self, group_id: str) -> GroupPending:
        """Offsets of open transactions; read only."""
        return self._pending.of_group(group_id)

    # Changing what lives in memory.

    def edit(self, group_id: str) -> ClassicGroup:
        """The draft's own copy of an existing group. Call it again after `write_group`, which creates a new copy."""
        group = self._edited.get(group_id)
        if group is None:
            group = self._edited[group_id] = self._groups[group_id].copy()
        return group

    def complete(self, token: Token | None, response: Any) -> bool:
        """Complete a parked request; False if there is none."""
        if token is None:
            return False
        self.completions.append((token, response))
        return True

    def start_session(self, group: ClassicGroup, member: ClassicMember, timeout_ms: int | None = None) -> None:
        """Restart the member's session now. `group` must be the draft's copy."""
        deadline = self.now_ms + (member.session_timeout_ms if timeout_ms is None else timeout_ms)
        group.members = {**group.members, member.member_id: replace(member, session_deadline_ms=deadline)}
        self.timers.append(("member", group.group_id, member.member_id))

    def schedule_join(self, group: ClassicGroup, delay_ms: int) -> None:
        group.join_deadline_ms = self.now_ms + delay_ms
        self.timers.append(("join", group.group_id))

    def schedule_sync(self, group: ClassicGroup, delay_ms: int) -> None:
        group.sync_deadline_ms = self.now_ms + delay_ms
        self.timers.append(("sync", group.group_id))

    def keep_consumer(self, group: ConsumerGroup) -> ConsumerGroup:
        """Store the state of a consumer group that is not durable."""
        self._consumer_groups = self._consumer_groups.set(group.group_id, group)
        return group

    def start_consumer_session(self, group_id: str, member_id: str, timeout_ms: int | None = None) -> None:
        """Restart the session of a consumer group member: of `timeout_ms`, or as configured."""
        group = self._consumer_groups[group_id]
        if timeout_ms is None:
            timeout_ms = self.consumer_session_ms(group.members[member_id], group_id)
        restarted = replace(group, sessions=group.sessions.set(member_id, self.now_ms + timeout_ms))
        self._consumer_groups = self._consumer_groups.set(group_id, restarted)
        self.timers.append(("session", group_id, member_id))

    def consumer_session_ms(self, member: ConsumerMember, group_id: str) -> int:
        """The session timeout of a consumer group member. A classic member sets its own."""
        if member.classic is not None:
            return member.classic.session_timeout_ms
        return self.consumer_configs.settings_of(group_id).session_timeout_ms

    def keep_share(self, group: ShareGroup) -> ShareGroup:
        """Store the state of a share group that is not durable."""
        self._share_groups = self._share_groups.set(group.group_id, group)
        return group

    def start_share_session(self, group_id: str, member_id: str) -> None:
        """Restart the session of a share group member."""
        group = self._share_groups[group_id]
        deadline_ms = self.now_ms + self.share_configs.settings_of(group_id).session_timeout_ms
        self.keep_share(replace(group, sessions=group.sessions.set(member_id, deadline_ms)))
        self.timers.append((SHARE_SESSION, group_id, member_id))

    def keep_streams(self, group: StreamsGroup) -> StreamsGroup:
        """Store the state of a streams group that is not durable."""
        self._streams_groups = self._streams_groups.set(group.group_id, group)
        return group

    def limit_revocation(self, group: ConsumerGroup, member_id: str, deadline: RevocationDeadline) -> None:
        """Set the deadline for the member's revocation."""
        self.keep_consumer(replace(group, revocations=group.revocations.set(member_id, deadline)))
        self.timers.append(("revocation", group.group_id, member_id))

    def tell(self, group_id: str, protocol: str, happened: GroupEvent, deadline: str = "") -> None:
        """Report a group event, counted once the operation is committed."""
        self.effects.append(GroupChange(group_id, protocol, happened, deadline))

    def note(self, event: str, **fields: Any) -> None:
        self.notes.append({"event": event, **fields})

    # Writing records.

    def write_group(self, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        """Write a GroupMetadata record and replay it. Returns the draft's copy of the resulting group."""
        self.records.append((group_records.group_metadata_key(group_id), group_records.group_metadata_value(value)))
        group = self._edited[group_id] = replay_group(self.group(group_id), group_id, value)
        # The map gets the group already here, so that `_groups` has every id there is.
        self._groups = self._groups.set(group_id, group)
        return group

    def write_assignments(self, group: ClassicGroup, assignments: Mapping[str, bytes]) -> ClassicGroup:
        return self.write_group(group.group_id, group_records.group_metadata(group, assignments))

    def delete_group(self, group_id: str) -> None:
        self.records.append((group_records.group_metadata_key(group_id), None))
        self._edited.pop(group_id, None)
        if group_id in self._groups:
            self._groups = self._groups.delete(group_id)

    def write_consumer(self, group_id: str, record: ConsumerRecord) -> ConsumerGroup:
        """Write a record of a consumer group and replay it. Returns the resulting group."""
        self.records.append(record.encode())
        before = self._consumer_groups.get(group_id)
        group = replay_consumer(before, group_id, record)
        assert group is not None, f"no consumer group {group_id}"
        # One that is just made of a classic group in its first rebalance begins at epoch 0.
        assert before is None or before.group_epoch == FIRST_EPOCH or group.group_epoch >= before.group_epoch, (
            f"the epoch of group {group_id} would fall from {before.group_epoch} to {group.group_epoch}"
        )
        assert group.assignment_epoch <= max(FIRST_EPOCH, group.group_epoch), (
            f"group {group_id} has a target of a later epoch"
        )
        return self.keep_consumer(group)

    def write_share(self, group_id: str, record: ShareRecord) -> ShareGroup:
        """Write a record of a share group and replay it. Returns the resulting group."""
        self.records.append(record.encode())
        before = self._share_groups.get(group_id)
        group = replay_share(before, group_id, record, self.wall_ms)
        assert group is not None, f"no share group {group_id}"
        assert before is None or group.group_epoch >= before.group_epoch, f"the epoch of group {group_id} would fall"
        assert group.assignment_epoch <= group.group_epoch, f"group {group_id} has a target of a later epoch"
        return self.keep_share(group)

    def delete_share_group(self, group_id: str) -> None:
        """Write the tombstones of a share group without members."""
        assert not self._share_groups[group_id].members, f"group {group_id} has members"
        self.records += [record.encode() for record in share_group_tombstones(group_id)]
        self._share_groups = self._share_groups.delete(group_id)

    def write_streams(self, group_id: str, record: StreamsRecord) -> StreamsGroup:
        """Write a record of a streams group and replay it. Returns the resulting group."""
        self.records.append(record.encode())
        before = self._streams_groups.get(group_id)
        group = replay_streams(before, group_id, record)
        assert group is not None, f"no streams group {group_id}"
        assert before is None or group.group_epoch >= before.group_epoch, f"the epoch of group {group_id} would fall"
        assert group.assignment_epoch <= max(FIRST_EPOCH, group.group_epoch), (
            f"group {group_id} has a target of a later epoch"
        )
        return self.keep_streams(group)

    def write_streams_replayed(self, group: StreamsGroup, records: Sequence[LogRecord]) -> StreamsGroup:
        """Write already encoded records of a streams group. `group` is the result of replaying them."""
        self.records += records
        return self.keep_streams(group)

    def delete_streams_group(self, group_id: str) -> None:
        """Write the tombstones of a streams group without members."""
        assert not self._streams_groups[group_id].members, f"group {group_id} has members"
        self.records += [record.encode() for record in streams_group_tombstones(group_id)]
        self._streams_groups = self._streams_groups.delete(group_id)

    def write_replayed(self, group: ConsumerGroup, records: Sequence[LogRecord]) -> ConsumerGroup:
        """Write already encoded records of a consumer group. `group` is the result of replaying them."""
        self.records += records
        return self.keep_consumer(group)

    def forget_consumer_group(self, group_id: str) -> None:
        """Write the tombstone of a consumer group, which must be the last of its records."""
        self.records.append(group_tombstone(group_id).encode())
        self._consumer_groups = self._consumer_groups.delete(group_id)

    def write_offsets(self, group_id: str, commits: Sequence[tuple[TopicPartition, OffsetAndMetadata]]) -> None:
        """Write an OffsetCommit record for each commit. In a transaction they take effect when it is committed. A
        missing group is created as a simple one: offsets without members."""
        self.records += group_records.offset_commit_records(group_id, commits)
        if self.producer is not None:
            for partition, committed in commits:
                self._pending = self._pending.add(group_id, partition, self.producer.producer_id, committed)
        elif commits:
            offsets = self.offsets(group_id).mutate()
            for partition, committed in commits:
                offsets[partition] = committed
            self._offsets = self._offsets.set(group_id, offsets.finish())
            if self.pending(group_id):
                for partition, _ in commits:
                    self._pending = self._pending.supersede(group_id, partition)
        has_group = group_id in self._groups or group_id in self._consumer_groups or group_id in self._streams_groups
        if commits and not has_group:
            self._groups = self._groups.set(group_id, ClassicGroup(group_id))

    def delete_offset(self, group_id: str, partition: TopicPartition) -> None:
        """Write a tombstone, which deletes the offset and the partition's pending transactional commits."""
        self.records.append((group_records.offset_commit_key(group_id, partition), None))
        offsets = replay_offset(self.offsets(group_id), partition, None)
        self._offsets = set_offsets(self._offsets, group_id, offsets)
        self._pending = self._pending.drop(group_id, partition)
