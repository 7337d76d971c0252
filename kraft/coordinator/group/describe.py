"""DescribeGroups (versions 0-6) and ListGroups (versions 0-5): what a shard has. Read only."""

from __future__ import annotations

from collections.abc import Iterable

from kraft.coordinator.group.classic_group import DEAD, STABLE
from kraft.coordinator.group.shard_state import GroupShardState
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_groups_response import DescribedGroup, DescribedGroupMember
from kraft.protocol.messages.list_groups_response import ListedGroup

GROUP_ID_NOT_FOUND_VERSION = 6
CLASSIC_TYPE = "classic"


def describe_group(state: GroupShardState, group_id: str, api_version: int) -> DescribedGroup:
    """One group; members' metadata is told only while the group is stable. A group that does not exist is Dead, and
    from version 6 also an error (KIP-1043)."""
    group = state.group(group_id)
    if group is None:
        if api_version < GROUP_ID_NOT_FOUND_VERSION:
            return DescribedGroup(group_id=group_id, group_state=DEAD.value)
        return DescribedGroup(
            group_id=group_id,
            group_state=DEAD.value,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} not found.",
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


def list_groups(state: GroupShardState, states: Iterable[str], types: Iterable[str]) -> list[ListedGroup]:
    """Groups in one of the states and of one of the types, compared without case; an empty filter takes all."""
    wanted_states = [name.lower().strip() for name in states]
    wanted_types = [name.lower() for name in types]
    if wanted_types and CLASSIC_TYPE not in wanted_types:
        return []
    listed = []
    for group_id in sorted(state.groups):
        group = state.groups[group_id]
        if not wanted_states or group.state.value.lower() in wanted_states:
            listed.append(
                ListedGroup(
                    group_id=group_id,
                    protocol_type=group.protocol_type or "",
                    group_state=group.state.value,
                    group_type=CLASSIC_TYPE,
                )
            )
    return listed
