"""Copy offsets of groups from a mirrored cluster to the target cluster, so that a group can move there: committed
offsets of consumer groups, and start offsets of share groups.

An offset at the target never goes back. So a group that was reset to earlier offsets at the source does not read that
part again at the target. A group with members at the target is not changed: it has already moved.

The start offset of a share group is the first record that is not finished. Acknowledgements of later records are not
copied: a group that moves gets those records again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from kraft.admin import groups, share_groups
from kraft.admin.offsets import EARLIEST, offsets_at
from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.mirror.mirror_config import Notice, Say
from kraft.mirror.names import chosen_groups
from kraft.mirror.sync_points import Points, translated
from kraft.protocol.error_codes import ErrorCode, is_retriable
from kraft.rpc_client.cluster import Cluster

HAS_MOVED: Final = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.NON_EMPTY_GROUP,
)
"""Error codes with which a coordinator rejects offsets for a group with members."""

Offsets = Mapping[TopicPartition, int]


class Kind(NamedTuple):
    """The operations on the offsets of one kind of groups."""

    name: str
    list_names: Callable[[Cluster], Awaitable[list[str]]]
    read: Callable[[Cluster, str], Awaitable[Offsets]]
    """Returns the offsets of a group at the source."""
    read_target: Callable[[Cluster, str], Awaitable[Offsets]]
    """The same at the target, where the group may not exist."""
    write: Callable[[Cluster, str, Offsets], Awaitable[None]]


async def _consumer_groups(cluster: Cluster) -> list[str]:
    return [each.group_id for each in await groups.list_groups(cluster) if not groups.is_share_group(each)]


async def _committed(cluster: Cluster, group: str) -> Offsets:
    return {each: found.offset for each, found in (await groups.committed_offsets(cluster, group)).items()}


async def _share_groups(cluster: Cluster) -> list[str]:
    return [each.group_id for each in await share_groups.list_share_groups(cluster)]


async def _starts(cluster: Cluster, group: str) -> Offsets:
    found = await share_groups.share_group_offsets(cluster, group)
    return {each: offsets.start_offset for each, offsets in found.items() if offsets.start_offset is not None}


async def _present_starts(cluster: Cluster, group: str) -> Offsets:
    found = await share_groups.present_start_offsets(cluster, group, may_be_new=True)
    return {each: start for each, start in found.items() if start is not None}


CONSUMER_GROUPS: Final = Kind("offsets of group", _consumer_groups, _committed, _committed, groups.commit_offsets)
SHARE_GROUPS: Final = Kind(
    "start offsets of share group", _share_groups, _starts, _present_starts, share_groups.alter_share_group_offsets
)


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
        self._told: dict[tuple[str, str], None] = {}

    async def keep(self, points: Mapping[TopicPartition, Points]) -> None:
        """Copy the offsets once, translated by `points`. A group that is refused is reported once. Raises
        DeadlinePassed, and ApiError of the clusters."""
        for kind in (CONSUMER_GROUPS, SHARE_GROUPS):
            for group in chosen_groups(await kind.list_names(self._source), self._pattern):
                try:
                    await self._keep(kind, group, points)
                except ApiError as problem:
                    if is_retriable(problem.code):
                        raise
                    self._tell(kind, group, problem)

    async def _keep(self, kind: Kind, group: str, points: Mapping[TopicPartition, Points]) -> None:
        read = await kind.read(self._source, group)
        chosen = {each: offset for each, offset in read.items() if each in points}
        if not chosen:
            return
        places = {each: self._place(each) for each in chosen}
        begins = await offsets_at(self._target, places.values(), EARLIEST)
        there = await kind.read_target(self._target, group)
        ahead: dict[TopicPartition, int] = {}
        for each, offset in chosen.items():
            place = places[each]
            wanted = max(translated(points[each], offset) or 0, begins[place])
            if place not in there or wanted > there[place]:
                ahead[place] = wanted
        if ahead:
            await kind.write(self._target, group, ahead)

    def _tell(self, kind: Kind, group: str, problem: ApiError) -> None:
        if (kind.name, group) not in self._told:
            self._told[kind.name, group] = None
            why = "it has members there" if problem.code in HAS_MOVED else str(problem)
            self._say(Notice(f"{kind.name} {group} are not kept at the target: {why}", is_warning=True))
