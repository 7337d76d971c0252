"""The committed offsets of all groups of a coordinator, sorted, for callers that read them repeatedly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kraft.world.turns import Turn, sorted_in_turns

if TYPE_CHECKING:
    from kraft.common.ids import TopicPartition
    from kraft.coordinator.group.shard_state import GroupOffsets, GroupShardState, OffsetAndMetadata


class CommittedOffsets:
    """A cache of sorted offsets. A group's offsets are an immutable value, and are sorted again only if the value
    changed."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[str, tuple[GroupOffsets, dict[TopicPartition, OffsetAndMetadata]]] = {}

    async def of(self, shards: Sequence[GroupShardState]) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Offsets by group id, both sorted. Yields to other tasks meanwhile. The caller must not change the result."""
        kept: dict[str, tuple[GroupOffsets, dict[TopicPartition, OffsetAndMetadata]]] = {}
        turn = Turn()
        for state in shards:
            for group_id, offsets in state.offsets.items():
                found = self._kept.get(group_id)
                is_new = found is None or found[0] is not offsets
                if turn.is_over(1 + len(offsets) if is_new else 1):
                    await turn.next()
                if found is None or is_new:
                    found = offsets, {key: offsets[key] for key in sorted(offsets)}
                kept[group_id] = found
        self._kept = kept
        in_order: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
        for group_id in await sorted_in_turns(kept):
            if turn.is_over():
                await turn.next()
            in_order[group_id] = kept[group_id][1]
        return in_order
