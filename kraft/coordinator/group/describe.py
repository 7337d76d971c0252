"""DescribeGroups (versions 0-6) and ListGroups (versions 0-5), over one shard. Read only."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

from kraft.coordinator.group.classic.classic_group import CONSUMER_PROTOCOL_TYPE, DEAD, STABLE
from kraft.coordinator.group.consumer.describe import CONSUMER_TYPE
from kraft.coordinator.group.portions import in_order
from kraft.coordinator.group.shard_state import GroupShardState
from kraft.coordinator.group.share.describe import SHARE_PROTOCOL_TYPE, SHARE_TYPE
from kraft.coordinator.group.streams.describe import STREAMS_PROTOCOL_TYPE, STREAMS_TYPE
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_groups_response import DescribedGroup, DescribedGroupMember
from kraft.protocol.messages.list_groups_response import ListedGroup
from kraft.world.steps import Steps

GROUP_ID_NOT_FOUND_VERSION = 6
CLASSIC_TYPE = "classic"


def describe_group(state: GroupShardState, group_id: str, api_version: int) -> DescribedGroup:
    """The description of one group. The members' metadata is shown only while the group is stable. A group that does
    not exist is Dead, and from version 6 on also an error (KIP-1043)."""
    group = state.group(group_id)
    if group is None:
        missing = f"Group {group_id} not found."
        if any(group_id in groups for groups in (state.consumer_groups, state.share_groups, state.streams_groups)):
            missing = f"Group {group_id} is not a classic group."
        if api_version < GROUP_ID_NOT_FOUND_VERSION:
            return DescribedGroup(group_id=group_id, group_state=DEAD.value)
        return DescribedGroup(
            group_id=group_id,
            group_state=DEAD.value,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=missing,
        )
    stable = group.state is STABLE
    members = [
        DescribedGroupMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata_for(group.protocol) if stable else b"",
            member_assignment=member.assignment,
        )
        for member in group.members.values()
    ]
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=members,
    )


class GroupFilter(NamedTuple):
    """The requested states and types, in lower case; None for all."""

    states: frozenset[str] | None
    types: frozenset[str] | None

    def admits(self, group_type: str, state: str) -> bool:
        return (self.types is None or group_type in self.types) and (
            self.states is None or state.lower() in self.states
        )


def group_filter(states: Iterable[str], types: Iterable[str]) -> Steps[GroupFilter]:
    """Build the filter of a request. An empty list of states or types selects all. Yields after each name."""
    wanted: set[str] = set()
    for name in states:
        wanted.add(name.lower().strip())
        yield None
    wanted_types: set[str] = set()
    for name in types:
        wanted_types.add(name.lower())
        yield None
    return GroupFilter(frozenset(wanted) or None, frozenset(wanted_types) or None)


def list_groups(state: GroupShardState, wanted: GroupFilter) -> Steps[list[ListedGroup]]:
    """The groups that match the filter, sorted. Yields after each group."""
    listed = []
    for group_id in in_order(chain(state.groups, state.consumer_groups, state.share_groups, state.streams_groups)):
        yield None
        if group_id is None:
            continue
        classic = state.group(group_id)
        if classic is not None:
            each = _listed(group_id, CLASSIC_TYPE, classic.state, classic.protocol_type or "")
        elif group_id in state.share_groups:
            each = _listed(group_id, SHARE_TYPE, state.share_groups[group_id].state, SHARE_PROTOCOL_TYPE)
        elif group_id in state.streams_groups:
            each = _listed(group_id, STREAMS_TYPE, state.streams_groups[group_id].state, STREAMS_PROTOCOL_TYPE)
        else:
            each = _listed(group_id, CONSUMER_TYPE, state.consumer_groups[group_id].state, CONSUMER_PROTOCOL_TYPE)
        if wanted.admits(each.group_type, each.group_state):
            listed.append(each)
    return listed


def _listed(group_id: str, group_type: str, state: str, protocol_type: str) -> ListedGroup:
    return ListedGroup(group_id=group_id, protocol_type=protocol_type, group_state=str(state), group_type=group_type)
