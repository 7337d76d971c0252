"""Lags of the consumer groups that a node coordinates, for its metrics.

The ends of partitions that the node leads, or is in sync with, are read from their logs. All others are requested from
their leaders (ListOffsets), with one request to each, concurrently. A replica that is not in sync cannot be used: its
log ends at offsets that groups passed long ago, so no group would seem to have a lag.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import trio

from kraft.common.errors import ApiError, ProtocolError
from kraft.common.ids import TopicPartition
from kraft.common.listed_offsets import is_offset_answer
from kraft.common.metrics import Family
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.server.history.end_history import EndHistory
from kraft.server.history.history import NO_LAG, TopicLag
from kraft.server.http_admin.remote_requests import RemoteRequests
from kraft.server.metrics.group_lag_families import (
    COMMITS_A_TURN,
    Commits,
    GroupEnds,
    families_by_partition,
    families_by_topic,
)
from kraft.server.metrics.latest import Latest
from kraft.server.metrics.partition_metrics import PARTITION
from kraft.world.turns import Turn, in_turns

if TYPE_CHECKING:
    from kraft.server.node import Node

LATEST: Final = -1
LIST_OFFSETS_VERSION: Final = 7

ASKING_SECONDS_MAX: Final = 2.0
"""How long a scrape waits for the leaders. Prometheus gives a scrape ten seconds by default."""

EACH_MAX: Final = 1000
"""Limit of commits of a coordinator that are exported one by one by default."""


class GroupLags:
    """Gathers the series for each scrape, but large results at most once a second."""

    def __init__(self, node: Node, remote: RemoteRequests) -> None:
        self._node = node
        self._remote = remote
        self._history = EndHistory()
        self._latest: Latest[tuple[Commits, GroupEnds]] = Latest(
            node.world.clock.now, lambda found: count_of(found[0]) > EACH_MAX
        )

    async def families(self, by: str | None = None) -> tuple[list[Family], list[str] | None]:
        """The families, and the groups whose lags are shown (None: all). Empty on a node without a broker role. `by`
        says whether lags are shown by partition or summed by topic; None chooses by the number of committed offsets."""
        if self._node.broker is None:
            return [], None
        commits, known = await self._latest.get(self._gather)
        if by == PARTITION or (by is None and count_of(commits) <= EACH_MAX):
            return await families_by_partition(commits, known), None
        return await families_by_topic(commits, known)

    async def totals(self) -> tuple[dict[str, int], dict[str, TopicLag]]:
        """The lag of each group in records, over the partitions whose ends are known, and the same by topic."""
        if self._node.broker is None:
            return {}, {}
        commits, known = await self._latest.get(self._gather)
        turn = Turn(COMMITS_A_TURN)
        groups: dict[str, int] = {}
        topics: dict[str, TopicLag] = {}
        for group_id, places in commits.items():
            lags: dict[str, int] = {}
            for place, commit in places.items():
                if turn.is_over():
                    await turn.next()
                end = known.ends.get(place, commit.offset)
                lags[place.topic] = lags.get(place.topic, 0) + max(0, end - commit.offset)
            groups[group_id] = sum(lags.values())  # unordered: summed
            for topic, lag in lags.items():
                before = topics.get(topic, NO_LAG)
                topics[topic] = TopicLag(before.groups + 1, before.lag + lag)
        return groups, topics

    async def _gather(self) -> tuple[Commits, GroupEnds]:
        """The committed offsets, and the ends of their partitions. Only this adds to the history of ends."""
        assert self._node.broker is not None
        commits = await self._node.broker.groups.committed_offsets()
        known = GroupEnds(self._history)
        await self._find_ends((place for places in commits.values() for place in places), known)
        known.now = self._node.world.clock.now()
        untold = (place for places in commits.values() for place in places if place not in known.gone)
        await in_turns(self._history.take(known.ends, known.now, untold))
        return commits, known

    async def look(self, owned: Iterable[TopicPartition]) -> tuple[Commits, Mapping[TopicPartition, int]]:
        """The committed offsets, and the known ends of their partitions and of the `owned` ones."""
        commits, known = await self._latest.get(self._gather)
        more = GroupEnds(self._history)
        await self._find_ends((place for place in owned if place not in known.ends and place not in known.gone), more)
        return commits, ChainMap(known.ends, more.ends)

    async def _find_ends(self, places: Iterable[TopicPartition], known: GroupEnds) -> None:
        """Add the ends of `places` to `known`. Other tasks run meanwhile."""
        by_leader: dict[int, list[TopicPartition]] = {}
        turn = Turn(COMMITS_A_TURN)
        for place in places:
            if turn.is_over():
                await turn.next()
            if place not in known.ends:
                self._place_end(place, known, by_leader)
        with self._node.world.clock.move_on_after(ASKING_SECONDS_MAX):
            async with trio.open_nursery() as nursery:
                for leader, asked in by_leader.items():
                    nursery.start_soon(self._ask, leader, dict.fromkeys(asked), known.ends)

    def _place_end(self, place: TopicPartition, known: GroupEnds, by_leader: dict[int, list[TopicPartition]]) -> None:
        """Record the partition's end if this node knows it, else the leader to ask, or that the partition no longer
        exists."""
        assert self._node.broker is not None
        partition = self._node.broker.replicas.find(place.topic, place.partition)
        if partition is not None and (partition.is_leader or partition.node_id in partition.isr):
            known.ends[place] = partition.log.high_watermark
            return
        if place in known.gone:
            return
        topic = self._node.shared.loader.image.topics.by_name(place.topic)
        registration = None if topic is None else topic.partitions.get(place.partition)
        if registration is None:
            known.gone[place] = None
        elif registration.leader >= 0:
            by_leader.setdefault(registration.leader, []).append(place)

    async def _ask(self, leader: int, places: Iterable[TopicPartition], ends: dict[TopicPartition, int]) -> None:
        """Add the ends that `leader` returns. If it does not answer, its partitions have no end."""
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for place in places:
            asked = ListOffsetsPartition(partition_index=place.partition, timestamp=LATEST)
            topics.setdefault(place.topic, []).append(asked)
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=asked) for name, asked in topics.items()]
        )
        try:
            response = await self._remote.call(LIST_OFFSETS_VERSION, request, leader)
        except (ConnectionError, TimeoutError, ApiError, ProtocolError):
            return
        for topic in response.topics:
            for found in topic.partitions:
                if found.error_code == ErrorCode.NONE and is_offset_answer(found.offset, LATEST):
                    ends[TopicPartition(topic.name, found.partition_index)] = found.offset


def count_of(commits: Commits) -> int:
    return sum(map(len, commits.values()))  # unordered: summed
