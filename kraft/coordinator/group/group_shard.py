"""The group state machine as hosted by the coordinator runtime: replay, sessions after loading, deadlines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from kraft.coordinator.group.classic import rebalance
from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.coordinator.group.consumer.deadlines import (
    KINDS,
    consumer_deadline,
    consumer_deadlines,
    expire_consumer,
    start_consumer_deadlines,
)
from kraft.coordinator.group.consumer.settings import ConsumerGroupConfigs
from kraft.coordinator.group.draft import GroupDraft
from kraft.coordinator.group.replay import replay_bytes, replay_marker
from kraft.coordinator.group.shard_state import GroupShardState
from kraft.coordinator.group.share.heartbeat import expire_session
from kraft.coordinator.group.share.settings import ShareMembershipConfigs
from kraft.coordinator.group.share.share_group import SHARE_SESSION
from kraft.coordinator.group.streams.deadlines import KINDS as STREAMS_KINDS
from kraft.coordinator.group.streams.deadlines import (
    expire_streams,
    start_streams_deadlines,
    streams_deadline,
    streams_deadlines,
)
from kraft.coordinator.group.streams.settings import StreamsGroupConfigs
from kraft.coordinator.group.topic_directory import TopicDirectory
from kraft.coordinator.shard import Marker, Moment, Producer, TimerKey, Token

MEMBER, JOIN, SYNC = "member", "join", "sync"


class GroupShard:
    """Implements `CoordinatorShard` for `GroupShardState`. Timer keys of classic groups: ("member", group, member id),
    ("join", group), ("sync", group). Of consumer groups: ("session", group, member id), and likewise "revocation",
    "rejoin" and "resync". Of share groups: ("share session", group, member id). Of streams groups: ("streams session",
    group, member id), ("streams revocation", group, member id) and ("streams delay", group)."""

    def __init__(
        self,
        config: GroupCoordinatorConfig,
        topics: TopicDirectory,
        consumer_configs: ConsumerGroupConfigs,
        share_configs: ShareMembershipConfigs,
        streams_configs: StreamsGroupConfigs,
    ) -> None:
        self.config = config
        self._topics = topics
        self._consumer_configs = consumer_configs
        self._share_configs = share_configs
        self._streams_configs = streams_configs

    is_compacted: Final = True

    def empty(self) -> GroupShardState:
        return GroupShardState()

    def replay(
        self, state: GroupShardState, key: bytes, value: bytes | None, producer: Producer | None = None
    ) -> GroupShardState:
        return replay_bytes(state, key, value, producer)

    def replay_marker(self, state: GroupShardState, marker: Marker) -> GroupShardState:
        return replay_marker(state, marker.producer_id, committed=marker.committed)

    def draft(
        self,
        state: GroupShardState,
        token: Token,
        moment: Moment,
        producer: Producer | None = None,
        committed: GroupShardState | None = None,
    ) -> GroupDraft:
        return GroupDraft(
            state,
            self.config,
            token,
            moment,
            producer,
            topics=self._topics,
            consumer_configs=self._consumer_configs,
            share_configs=self._share_configs,
            streams_configs=self._streams_configs,
        )

    def loaded(self, draft: GroupDraft) -> None:
        """Restart every member's session.

        A group above a limit that was lowered meanwhile rebalances, so that surplus members can commit before they are
        refused.
        """
        for group_id in draft.group_ids():
            group = draft.group(group_id)
            assert group is not None
            if not group.members:
                continue
            group = draft.edit(group_id)
            group.members = {
                member.member_id: replace(member, session_deadline_ms=draft.now_ms + member.session_timeout_ms)
                for member in group.members.values()
            }
            if len(group.members) > self.config.group_max_size:
                rebalance.prepare_rebalance(draft, group, f"{len(group.members)} members are more than group.max.size")
        for group_id in draft.consumer_group_ids():
            start_consumer_deadlines(draft, group_id)
        for group_id in draft.share_group_ids():
            for member in draft.require_share_group(group_id).members_in_order():
                draft.start_share_session(group_id, member.member_id)
        for group_id in draft.streams_group_ids():
            start_streams_deadlines(draft, group_id)

    def deadlines(self, state: GroupShardState) -> Iterator[tuple[TimerKey, int]]:
        for group_id in sorted(state.groups):
            group = state.groups[group_id]
            if group.join_deadline_ms is not None:
                yield (JOIN, group_id), group.join_deadline_ms
            if group.sync_deadline_ms is not None:
                yield (SYNC, group_id), group.sync_deadline_ms
            for member in group.members.values():
                if member.session_deadline_ms is not None:
                    yield (MEMBER, group_id, member.member_id), member.session_deadline_ms
            for member_id, deadline in group.pending_joins.items():
                yield (MEMBER, group_id, member_id), deadline
        for group_id in sorted(state.consumer_groups):
            yield from consumer_deadlines(state.consumer_groups[group_id])
        for group_id in sorted(state.share_groups):
            sessions = state.share_groups[group_id].sessions
            for member_id in sorted(sessions):
                yield (SHARE_SESSION, group_id, member_id), sessions[member_id]
        for group_id in sorted(state.streams_groups):
            yield from streams_deadlines(state.streams_groups[group_id])

    def deadline_of(self, state: GroupShardState, key: TimerKey) -> int | None:
        if key[0] in KINDS:
            return consumer_deadline(state.consumer_groups.get(key[1]), key)
        if key[0] == SHARE_SESSION:
            share_group = state.share_groups.get(key[1])
            return None if share_group is None else share_group.sessions.get(key[2])
        if key[0] in STREAMS_KINDS:
            return streams_deadline(state.streams_groups.get(key[1]), key)
        group = state.group(key[1])
        if group is None:
            return None
        if key[0] == JOIN:
            return group.join_deadline_ms
        if key[0] == SYNC:
            return group.sync_deadline_ms
        member = group.members.get(key[2])
        return group.pending_joins.get(key[2]) if member is None else member.session_deadline_ms

    def expire(self, draft: GroupDraft, key: TimerKey) -> None:
        if key[0] in KINDS:
            expire_consumer(draft, key)
            return
        if key[0] == SHARE_SESSION:
            expire_session(draft, key[1], key[2])
            return
        if key[0] in STREAMS_KINDS:
            expire_streams(draft, key)
            return
        group = draft.edit(key[1])
        if key[0] == JOIN:
            rebalance.expire_join(draft, group)
        elif key[0] == SYNC:
            rebalance.expire_sync(draft, group)
        else:
            rebalance.expire_session(draft, group, key[2])
