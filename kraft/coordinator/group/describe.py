"""DescribeGroups (versions 0-6) and ListGroups (versions 0-5): what a shard has. Read only."""

from __future__ import annotations

from collections.abc import Iterable

from kraft.coordinator.group.classic_group import DEAD, STABLE
from kraft.coordinator.group.portions import in_order
from kraft.coordinator.group.shard_state import GroupShardState
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_groups_response import DescribedGroup, DescribedGroupMember
from kraft.protocol.messages.list_groups_response import ListedGroup
from kraft.protocol.schema import Turns

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


def group_filter(states: Iterable[str], types: Iterable[str]) -> Turns[frozenset[str] | None]:
    """The states that are asked for, in lower case; None for all. Yields after each name.

    An empty list of states or types asks for all of them."""
    wanted: set[str] = set()
    for name in states:
        wanted.add(name.lower().strip())
        yield
    wanted_types: set[str] = set()
    for name in types:
        wanted_types.add(name.lower())
        yield
    if wanted_types and CLASSIC_TYPE not in wanted_types:
        return frozenset()
    return frozenset(wanted) if wanted else None


def list_groups(state: GroupShardState, states: frozenset[str] | None) -> Turns[list[ListedGroup]]:
    """Groups in one of the states (`group_filter`), in order. Yields after each group."""
    listed = []
    for group_id in in_order(state.groups):
        yield
        if group_id is None:
            continue
        group = state.groups[group_id]
        if states is None or group.state.value.lower() in states:
            listed.append(
                ListedGroup(
                    group_id=group_id,
                    protocol_type=group.protocol_type or "",
                    group_state=group.state.value,
                    group_type=CLASSIC_TYPE,
                )
            )
    return listed
