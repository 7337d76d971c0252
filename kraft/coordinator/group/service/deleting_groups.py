"""DeleteGroups. A share group is deleted by itself, because its share states are deleted first. All other groups of a
shard are deleted together, a limited number in one operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kraft.common.errors import ApiError
from kraft.coordinator.group.deletion import delete_groups
from kraft.coordinator.group.service.share_group_service import ShareGroupService
from kraft.coordinator.group.shard_state import GroupShardState
from kraft.coordinator.runtime import CoordinatorRuntime
from kraft.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kraft.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from kraft.world.turns import Turn

GROUPS_A_WRITE: Final = 100
GROUPS_A_TURN: Final = 500
"""Groups looked up between two yields."""


async def delete_requested_groups(
    request: DeleteGroupsRequest,
    runtime: CoordinatorRuntime[GroupShardState],
    partition_for: Callable[[str], int],
    shares: ShareGroupService,
) -> DeleteGroupsResponse:
    """Delete the groups of the request. Each has its own result."""
    by_partition: dict[int, list[str]] = {}
    results: list[DeletableGroupResult] = []
    turn = Turn(GROUPS_A_TURN)
    for group_id in dict.fromkeys(request.groups_names):
        if turn.is_over():
            await turn.next()
        if shares.has(group_id):
            results.append(DeletableGroupResult(group_id=group_id, error_code=await shares.delete_group(group_id)))
        else:
            by_partition.setdefault(partition_for(group_id), []).append(group_id)
    for partition, group_ids in by_partition.items():
        for start in range(0, len(group_ids), GROUPS_A_WRITE):
            if turn.is_over(GROUPS_A_WRITE if start else 1):
                await turn.next()
            results += await _delete(runtime, partition, group_ids[start : start + GROUPS_A_WRITE])
    return DeleteGroupsResponse(results=results)


async def _delete(
    runtime: CoordinatorRuntime[GroupShardState], partition: int, group_ids: list[str]
) -> list[DeletableGroupResult]:
    try:
        results: list[DeletableGroupResult] = await runtime.write(
            partition, lambda draft: delete_groups(draft, group_ids)
        )
    except ApiError as refused:
        return [DeletableGroupResult(group_id=group_id, error_code=refused.code) for group_id in group_ids]
    return results
