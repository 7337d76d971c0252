"""Look-up of a group that must have one type. An id belongs to at most one group, whatever its type."""

from __future__ import annotations

from typing import Protocol, TypeVar

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode

G = TypeVar("G")


class Groups(Protocol):
    """Finds groups of each type by id. Implemented by the state of a shard and by a draft of it."""

    def group(self, group_id: str) -> object | None:
        """The classic group."""

    def consumer_group(self, group_id: str) -> object | None:
        """The consumer group."""

    def share_group(self, group_id: str) -> object | None:
        """The share group."""

    def streams_group(self, group_id: str) -> object | None:
        """The streams group."""


def is_taken(groups: Groups, group_id: str) -> bool:
    """Whether there is a group with this id, of any type."""
    return any(
        find(group_id) is not None
        for find in (groups.group, groups.consumer_group, groups.share_group, groups.streams_group)
    )


def require_type(found: G | None, groups: Groups, group_id: str, kind: str, missing: str = "Group {} not found.") -> G:
    """Return `found`, the group of the wanted type. Raises ApiError(GROUP_ID_NOT_FOUND) if it is None. The message
    names the type if a group of another type has the id, and is `missing` if no group has it."""
    if found is not None:
        return found
    raise ApiError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Group {group_id} is not a {kind} group." if is_taken(groups, group_id) else missing.format(group_id),
    )
