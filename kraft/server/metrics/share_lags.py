"""Lags of the share groups that a node coordinates, for its metrics: the records that are not finished (KIP-1226).

A measurement reads the start offsets from the share coordinators, and the ends of partitions from their leaders. Its
result is reused for all scrapes of the next KEPT_SECONDS.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from kraft.common.ids import TopicPartition
from kraft.common.metrics import Family, LabelValues
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_share_group_offsets_request import DescribeShareGroupOffsetsRequestGroup
from kraft.server.metrics.group_lag_families import TOPICS_MAX, Largest
from kraft.server.metrics.partition_metrics import PARTITION
from kraft.world.turns import Turn

if TYPE_CHECKING:
    from kraft.coordinator.group.service.share_group_service import ShareGroupService
    from kraft.coordinator.group.shard_state import GroupShardState
    from kraft.world.ports import Clock

EACH_MAX: Final = 1000
"""Limit of share partitions that are exported one by one by default."""
LOOKED_AT_MAX: Final = 2000
"""Limit of share partitions whose lag is measured. Groups beyond it are counted as not measured."""
ASKED_AT_ONCE: Final = 8
"""Limit of groups that are described concurrently."""
ASKING_SECONDS_MAX: Final = 2.0
KEPT_SECONDS: Final = 10.0
START, LAG = "kraft_sharegroup_start_offset", "kraft_sharegroup_lag"
LAG_SUM, NOT_MEASURED = "kraft_sharegroup_lag_sum", "kraft_sharegroup_groups_not_measured"
LEFT_OUT: Final = "kraft_sharegroup_topics_left_out"
HELP: Final = {
    START: "The first record that a share group has not finished.",
    LAG: "Records from there to the end of the partition that are not finished.",
    LAG_SUM: "The same over a topic's partitions. Left out while the lag in one of them is unknown.",
    NOT_MEASURED: (
        f"Share groups without a lag: they have more share partitions than the {LOOKED_AT_MAX} that are asked about, "
        "or their share coordinator does not answer."
    ),
    LEFT_OUT: (
        f"Pairs of a share group and a topic without series, since {TOPICS_MAX} others are further behind. "
        "/metrics?by=partition has them."
    ),
}


class ShareProgress(NamedTuple):
    """The progress of a group in one partition. None where it is unknown."""

    start_offset: int | None
    lag: int | None


Found = Mapping[str, Mapping[TopicPartition, ShareProgress]]


class ShareLags:
    """Measures the lags when a scrape finds the last measurement too old."""

    def __init__(self, shares: ShareGroupService, clock: Clock) -> None:
        self._shares = shares
        self._clock = clock
        self._lock = trio.Lock()
        self._found: Found = {}
        self._not_measured = 0
        self._looked: float | None = None

    async def families(self, shards: Sequence[GroupShardState], by: str | None) -> list[Family]:
        """The series of the groups of these shards. They are by partition if there are at most EACH_MAX or if `by` is
        "partition", else summed by group and topic."""
        await self.look(shards)
        count = sum(map(len, self._found.values()))  # unordered: summed
        missing = _family(NOT_MEASURED, (), [((), self._not_measured)])
        return [missing, *families(self._found, each=by == PARTITION or (by is None and count <= EACH_MAX))]

    async def look(self, shards: Sequence[GroupShardState]) -> Found:
        """The progress of each group by partition, at most KEPT_SECONDS old."""
        async with self._lock:
            now = self._clock.now()
            if self._looked is None or now - self._looked >= KEPT_SECONDS:
                await self._look(shards)
                self._looked = now
            return self._found

    async def _look(self, shards: Sequence[GroupShardState]) -> None:
        wanted: list[str] = []
        groups = left = 0
        turn = Turn()
        sizes = {
            group.group_id: sum(len(each.partitions) for each in group.initialized.values())  # unordered: summed
            for shard in shards
            for group in shard.share_groups.values()  # unordered: sorted below
        }
        for group_id in sorted(sizes):
            groups += 1
            if left + sizes[group_id] <= LOOKED_AT_MAX:
                left += sizes[group_id]
                wanted.append(group_id)
            if turn.is_over():
                await turn.next()
        found: dict[str, dict[TopicPartition, ShareProgress]] = {}
        waiting = iter(wanted)

        async def ask() -> None:
            for group_id in waiting:
                progress = await self._ask(group_id)
                if progress is not None:
                    found[group_id] = progress

        with self._clock.move_on_after(ASKING_SECONDS_MAX):
            async with trio.open_nursery() as asking_nursery:
                for _ in range(ASKED_AT_ONCE):
                    asking_nursery.start_soon(ask)
        self._found = {group_id: found[group_id] for group_id in sorted(found)}
        self._not_measured = groups - len(found)

    async def _ask(self, group_id: str) -> dict[TopicPartition, ShareProgress] | None:
        """The progress of one group; None if the group has moved or is deleted."""
        wanted = DescribeShareGroupOffsetsRequestGroup(group_id=group_id)
        wanted.topics = None
        described = await self._shares.describe_offsets(wanted)
        if described.error_code != ErrorCode.NONE:
            return None
        return {
            TopicPartition(topic.topic_name, each.partition_index): ShareProgress(
                each.start_offset if each.start_offset >= 0 else None, each.lag if each.lag >= 0 else None
            )
            for topic in described.topics
            for each in topic.partitions
        }


def families(found: Found, *, each: bool) -> list[Family]:
    """The series by partition, or only the sums by topic of the TOPICS_MAX pairs that are furthest behind. A partition
    from which no member has fetched has no start offset yet, and counts with a lag of 0 in the sum."""
    sums: dict[tuple[str, str], int | None] = {}
    for group_id, places in found.items():
        for place, (start, lag) in places.items():
            before = sums.get((group_id, place.topic), 0)
            known = 0 if start is None else lag
            sums[group_id, place.topic] = None if before is None or known is None else before + known
    pairs = {pair: total for pair, total in sums.items() if total is not None}
    if each:
        labels = ("sharegroup", "topic", "partition")
        return [
            _family(START, labels, _by_partition(found, 0)),
            _family(LAG, labels, _by_partition(found, 1)),
            _family(LAG_SUM, labels[:2], sorted(pairs.items())),
            _family(LEFT_OUT, (), [((), 0)]),
        ]
    most: Largest[tuple[str, str]] = Largest(TOPICS_MAX)
    for pair, total in pairs.items():
        most.offer(pair, total)
    chosen = sorted(most.keys())
    return [
        _family(LAG_SUM, ("sharegroup", "topic"), [(pair, pairs[pair]) for pair in chosen]),
        _family(LEFT_OUT, (), [((), len(pairs) - len(chosen))]),
    ]


def _by_partition(found: Found, field: int) -> list[tuple[LabelValues, float]]:
    return [
        ((group_id, place.topic, str(place.partition)), number)
        for group_id, places in found.items()
        for place in sorted(places)
        if (number := places[place][field]) is not None
    ]


def _family(name: str, labels: tuple[str, ...], series: Iterable[tuple[LabelValues, float]]) -> Family:
    family = Family(name, "gauge", HELP[name], labels)
    family.read = list(series).__iter__
    return family
