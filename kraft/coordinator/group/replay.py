"""Applies records to groups. The only code that changes their durable state, for new records and loaded ones alike.

A record replayed onto an existing group keeps the in-memory state (parked requests, deadlines, protocols other than the
selected one) of the members it names. Replayed onto nothing, it creates a group whose members have yet to send a
heartbeat.
"""

from __future__ import annotations

from dataclasses import replace

from immutables import Map

from kraft.common.ids import TopicPartition
from kraft.coordinator.group.classic.classic_group import EMPTY, STABLE, ClassicGroup, ClassicMember
from kraft.coordinator.group.classic.subscription import subscribed_topics
from kraft.coordinator.group.consumer.consumer_group import less
from kraft.coordinator.group.consumer.records import RECORD_TYPES as CONSUMER_RECORD_TYPES
from kraft.coordinator.group.consumer.records import ConsumerRecord
from kraft.coordinator.group.consumer.replay import replay as replay_consumer
from kraft.coordinator.group.group_records import (
    GROUP_METADATA,
    LEGACY_OFFSET_COMMIT,
    OFFSET_COMMIT,
    decode_group_metadata_key,
    decode_group_metadata_value,
    decode_offset_commit_key,
    decode_offset_commit_value,
    record_type,
)
from kraft.coordinator.group.offsets.pending_offsets import PendingOffsets
from kraft.coordinator.group.shard_state import NO_OFFSETS, GroupOffsets, GroupShardState, OffsetAndMetadata
from kraft.coordinator.group.share.records import RECORD_TYPES as SHARE_RECORD_TYPES
from kraft.coordinator.group.share.records import ShareRecord
from kraft.coordinator.group.share.records import replay as replay_share
from kraft.coordinator.group.streams.records import RECORD_TYPES as STREAMS_RECORD_TYPES
from kraft.coordinator.group.streams.records import StreamsRecord
from kraft.coordinator.group.streams.records import replay as replay_streams
from kraft.coordinator.records.group_metadata_value import GroupMetadataValue, MemberMetadata
from kraft.coordinator.records.serde import GROUP_RECORDS
from kraft.coordinator.shard import Producer


def replay_bytes(
    state: GroupShardState, key: bytes, value: bytes | None, producer: Producer | None = None
) -> GroupShardState:
    """The state after one record of the log, written in a transaction of `producer` or outside of any. Records of
    unknown types are skipped."""
    kind = record_type(key)
    if kind in (LEGACY_OFFSET_COMMIT, OFFSET_COMMIT):
        group_id, partition = decode_offset_commit_key(key)
        committed = None if value is None else decode_offset_commit_value(value, kind)
        groups = state.groups
        has_group = group_id in groups or group_id in state.consumer_groups or group_id in state.streams_groups
        if committed is not None and not has_group:
            groups = groups.set(group_id, ClassicGroup(group_id))
        if committed is not None and producer is not None:
            pending = state.pending.add(group_id, partition, producer.producer_id, committed)
            return replace(state, groups=groups, pending=pending)
        return replace(
            state,
            groups=groups,
            offsets=set_offsets(
                state.offsets, group_id, replay_offset(state.offsets_of(group_id), partition, committed)
            ),
            pending=overwrite_pending(state.pending, group_id, partition, committed),
        )
    if kind == GROUP_METADATA:
        group_id = decode_group_metadata_key(key)
        if value is None:
            return replace(state, groups=state.groups.delete(group_id) if group_id in state.groups else state.groups)
        group = replay_group(state.group(group_id), group_id, decode_group_metadata_value(value))
        return replace(
            state,
            groups=state.groups.set(group_id, group),
            consumer_groups=less(state.consumer_groups, group_id),
            streams_groups=less(state.streams_groups, group_id),
        )
    if kind in CONSUMER_RECORD_TYPES:
        return _replay_consumer_record(state, key, value)
    if kind in SHARE_RECORD_TYPES:
        return _replay_share_record(state, key, value)
    if kind in STREAMS_RECORD_TYPES:
        return _replay_streams_record(state, key, value)
    return state


def _replay_consumer_record(state: GroupShardState, key: bytes, value: bytes | None) -> GroupShardState:
    """Replay a record of a consumer group. A classic group with the id is removed: it was converted, or was created for
    offsets that precede the group's records in a compacted log."""
    decoded = GROUP_RECORDS.decode(key, value)
    group_id: str = decoded.key.group_id  # type: ignore[attr-defined]  # Every key of a consumer group has it.
    group = replay_consumer(state.consumer_group(group_id), group_id, ConsumerRecord(decoded.key, decoded.value))
    if group is None:
        return replace(state, consumer_groups=less(state.consumer_groups, group_id))
    return replace(
        state, groups=less(state.groups, group_id), consumer_groups=state.consumer_groups.set(group_id, group)
    )


def _replay_share_record(state: GroupShardState, key: bytes, value: bytes | None) -> GroupShardState:
    """Replay a record of a share group. A classic group with the id is removed, as for a consumer group."""
    decoded = GROUP_RECORDS.decode(key, value)
    group_id: str = decoded.key.group_id  # type: ignore[attr-defined]  # Every key of a share group has it.
    group = replay_share(state.share_groups.get(group_id), group_id, ShareRecord(decoded.key, decoded.value))
    if group is None:
        return replace(state, share_groups=less(state.share_groups, group_id))
    return replace(state, groups=less(state.groups, group_id), share_groups=state.share_groups.set(group_id, group))


def _replay_streams_record(state: GroupShardState, key: bytes, value: bytes | None) -> GroupShardState:
    """Replay a record of a streams group. A classic group with the id is removed, as for a consumer group."""
    decoded = GROUP_RECORDS.decode(key, value)
    group_id: str = decoded.key.group_id  # type: ignore[attr-defined]  # Every key of a streams group has it.
    group = replay_streams(state.streams_groups.get(group_id), group_id, StreamsRecord(decoded.key, decoded.value))
    if group is None:
        return replace(state, streams_groups=less(state.streams_groups, group_id))
    return replace(state, groups=less(state.groups, group_id), streams_groups=state.streams_groups.set(group_id, group))


def replay_marker(state: GroupShardState, producer_id: int, *, committed: bool) -> GroupShardState:
    """The state after a transaction marker: the producer's pending offsets take effect or are dropped."""
    pending, counting = state.pending.settle(producer_id, committed=committed)
    all_offsets = state.offsets
    for (group_id, partition), offset in counting:
        offsets = all_offsets.get(group_id, NO_OFFSETS)
        all_offsets = set_offsets(all_offsets, group_id, replay_offset(offsets, partition, offset))
    return replace(state, offsets=all_offsets, pending=pending)


def overwrite_pending(
    pending: PendingOffsets, group_id: str, partition: TopicPartition, committed: OffsetAndMetadata | None
) -> PendingOffsets:
    """The pending offsets after a commit of the partition outside of transactions, or after its tombstone."""
    return pending.drop(group_id, partition) if committed is None else pending.supersede(group_id, partition)


def replay_offset(
    offsets: GroupOffsets, partition: TopicPartition, committed: OffsetAndMetadata | None
) -> GroupOffsets:
    """One group's offsets after a commit, or after its tombstone."""
    if committed is not None:
        return offsets.set(partition, committed)
    return offsets.delete(partition) if partition in offsets else offsets


def set_offsets(all_offsets: Map[str, GroupOffsets], group_id: str, offsets: GroupOffsets) -> Map[str, GroupOffsets]:
    """Set a group's offsets. A group without offsets has no entry."""
    if offsets:
        return all_offsets.set(group_id, offsets)
    return all_offsets.delete(group_id) if group_id in all_offsets else all_offsets


def replay_group(live: ClassicGroup | None, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group after a GroupMetadata record: `live` with its generation complete, or a new group."""
    group = ClassicGroup(group_id) if live is None else live.copy()
    group.previous_state = group.state
    group.state = STABLE if value.members else EMPTY
    group.state_timestamp_ms = value.current_state_timestamp
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol = value.protocol
    group.leader = value.leader
    group.awaiting_join_count = 0
    known = {} if live is None else live.members
    members: dict[str, ClassicMember] = {}
    supporters: dict[str, int] = {}
    for recorded in value.members:
        member = _member(recorded, value.protocol or "", known.get(recorded.member_id))
        members[member.member_id] = member
        group.awaiting_join_count += member.awaiting_join is not None
        for name in dict.fromkeys(name for name, _ in member.protocols):
            supporters[name] = supporters.get(name, 0) + 1
    group.members, group.supporters = members, supporters
    group.static_members = {
        member.group_instance_id: member.member_id
        for member in members.values()
        if member.group_instance_id is not None
    }
    group.subscribed_topics = subscribed_topics(group.protocol_type, group.protocol, members.values())
    return group


def _member(recorded: MemberMetadata, protocol: str, known: ClassicMember | None) -> ClassicMember:
    recorded_protocol = (protocol, bytes(recorded.subscription))
    member = ClassicMember(
        member_id=recorded.member_id,
        group_instance_id=recorded.group_instance_id,
        client_id=recorded.client_id,
        client_host=recorded.client_host,
        rebalance_timeout_ms=recorded.session_timeout
        if recorded.rebalance_timeout == -1
        else recorded.rebalance_timeout,
        session_timeout_ms=recorded.session_timeout,
        protocols=(recorded_protocol,),
        assignment=bytes(recorded.assignment),
    )
    if known is None:
        return member
    return replace(
        member,
        # A living member's other protocols are kept; one read from an older record knows only what was selected then.
        protocols=known.protocols if recorded_protocol in known.protocols else member.protocols,
        awaiting_join=known.awaiting_join,
        awaiting_sync=known.awaiting_sync,
        is_new=known.is_new,
        session_deadline_ms=known.session_deadline_ms,
    )
