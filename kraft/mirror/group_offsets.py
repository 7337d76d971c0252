"""Copy committed offsets of consumer groups from a mirrored cluster to the target cluster, so that a group can move
there.

An offset at the target never goes back. So a group that was reset to earlier offsets at the source does not read that
part again at the target. A group with members at the target is not changed: it has already moved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kraft.admin import groups
from kraft.admin.offsets import EARLIEST, offsets_at
from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.mirror.mirror_config import Notice, Say
from kraft.mirror.names import chosen_groups
from kraft.mirror.sync_points import Points, translated
from kraft.protocol.error_codes import ErrorCode, is_retriable
from kraft.rpc_client.cluster import Cluster

HAS_MOVED = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.STALE_MEMBER_EPOCH)


class GroupOffsets:
    """Copies offsets of the groups whose whole names match. `place` maps a source partition to its partition at the
    target."""

    def __init__(
        self,
        source: Cluster,
        target: Cluster,
        pattern: str,
        place: Callable[[TopicPartition], TopicPartition],
        say: Say,
    ) -> None:
        self._source = source
        self._target = target
        self._pattern = pattern
        self._place = place
        self._say = say
        self._told: dict[str, None] = {}

    async def keep(self, points: Mapping[TopicPartition, Points]) -> None:
        """Copy the offsets once, translated by `points`. A group that is refused is reported once. Raises
        DeadlinePassed, and ApiError of the clusters."""
        names = [each.group_id for each in await groups.list_groups(self._source)]
        for group in chosen_groups(names, self._pattern):
            try:
                await self._keep(group, points)
            except ApiError as problem:
                if is_retriable(problem.code):
                    raise
                self._tell(group, problem)

    async def _keep(self, group: str, points: Mapping[TopicPartition, Points]) -> None:
        read = await groups.committed_offsets(self._source, group)
        chosen = {each: committed.offset for each, committed in read.items() if each in points}
        if not chosen:
            return
        places = {each: self._place(each) for each in chosen}
        begins = await offsets_at(self._target, places.values(), EARLIEST)
        there = await groups.committed_offsets(self._target, group)
        ahead: dict[TopicPartition, int] = {}
        for each, offset in chosen.items():
            place = places[each]
            wanted = max(translated(points[each], offset) or 0, begins[place])
            if place not in there or wanted > there[place].offset:
                ahead[place] = wanted
        if ahead:
            await groups.commit_offsets(self._target, group, ahead)

    def _tell(self, group: str, problem: ApiError) -> None:
        if group not in self._told:
            self._told[group] = None
            why = "it has members there" if problem.code in HAS_MOVED else str(problem)
            self._say(Notice(f"offsets of group {group} are not kept at the target: {why}", is_warning=True))
