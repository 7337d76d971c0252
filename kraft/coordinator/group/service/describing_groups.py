"""ConsumerGroupDescribe, ShareGroupDescribe and StreamsGroupDescribe: one walk over the requested groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.world.steps import Steps
from kraft.world.turns import TURN_ITEMS, Turn, in_turns

GROUPS_A_TURN: Final = 500
MEMBERS_A_GROUP: Final = 10
"""Describing this number of members takes as long as looking up one group."""


class Described(Protocol):
    """The result for one group in any of the three responses."""

    @property
    def members(self) -> Sequence[Any]: ...


D = TypeVar("D", bound=Described)


async def describe_each(
    group_ids: Iterable[str], result_class: Callable[..., D], describe: Callable[[str], Steps[D]]
) -> list[D]:
    """Describe the groups in order. A group named twice is described once. `describe` finds a group and returns the
    steps that describe it; it raises ApiError if it does not find the group. The error becomes the group's result."""
    results: list[D] = []
    turn = Turn(GROUPS_A_TURN)
    for group_id in dict.fromkeys(group_ids):
        described = await _describe(group_id, result_class, describe)
        results.append(described)
        if turn.is_over(1 + len(described.members) // MEMBERS_A_GROUP):
            await turn.next()
    return results


async def _describe(group_id: str, result_class: Callable[..., D], describe: Callable[[str], Steps[D]]) -> D:
    if not group_id:
        return result_class(error_code=ErrorCode.INVALID_GROUP_ID)
    try:
        steps = describe(group_id)
    except ApiError as refused:
        return result_class(group_id=group_id, error_code=refused.code, error_message=refused.message or None)
    return await in_turns(steps, TURN_ITEMS)
