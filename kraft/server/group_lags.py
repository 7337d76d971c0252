"""Lags of the consumer groups that a node coordinates, for its metrics.

The ends of partitions that the node hosts are read from their logs. Those of all others are asked of their leaders
(ListOffsets), in one request for each leader, all of them at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import trio

from kraft.common.errors import ApiError, ProtocolError
from kraft.common.ids import TopicPartition
from kraft.common.metrics import Family
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.server.cluster_facts import SLICE_PARTITIONS
from kraft.server.end_history import EndHistory
from kraft.server.remote_requests import RemoteRequests

if TYPE_CHECKING:
    from kraft.coordinator.group.shard_state import OffsetAndMetadata
    from kraft.server.node import Node

LATEST: Final = -1
LIST_OFFSETS_VERSION: Final = 7

ASKING_SECONDS_MAX: Final = 2.0
"""How long a scrape waits for the leaders. Prometheus gives a scrape ten seconds by default."""

Commits = Mapping[str, Mapping[TopicPartition, "OffsetAndMetadata"]]


class GroupLags:
    """Gathers the series anew for each scrape."""

    def __init__(self, node: Node, remote: RemoteRequests) -> None:
        self._node = node
        self._remote = remote
        self._history = EndHistory()

    async def families(self) -> list[Family]:
        """Empty on a node without a broker role."""
        if self._node.broker is None:
            return []
        commits, ends, gone, now = await self._gather()
        return [*await lag_families(commits, ends, gone), await self._seconds_behind(commits, now)]

    async def totals(self) -> dict[str, int]:
        """Records that each group is behind, over the partitions whose ends are known."""
        if self._node.broker is None:
            return {}
        commits, ends, _, _ = await self._gather()
        totals: dict[str, int] = {}
        seen = 0
        for group_id, places in commits.items():
            totals[group_id] = sum(
                max(0, ends[place] - commit.offset) for place, commit in places.items() if place in ends
            )
            before, seen = seen, seen + len(places)
            if before // SLICE_PARTITIONS != seen // SLICE_PARTITIONS:
                await trio.lowlevel.checkpoint()
        return totals

    async def _gather(self) -> tuple[Commits, dict[TopicPartition, int], set[TopicPartition], float]:
        """What groups have committed, where those partitions end, which of them are gone, and when that was."""
        assert self._node.broker is not None
        commits = await self._node.broker.groups.committed_offsets()
        ends: dict[TopicPartition, int] = {}
        gone: set[TopicPartition] = set()
        by_leader: dict[int, list[TopicPartition]] = {}
        seen = 0
        for places in commits.values():
            for place in places:
                self._place_end(place, ends, gone, by_leader)
                seen += 1
                if seen % SLICE_PARTITIONS == 0:
                    await trio.lowlevel.checkpoint()
        with self._node.world.clock.move_on_after(ASKING_SECONDS_MAX):
            async with trio.open_nursery() as nursery:
                for leader, asked in by_leader.items():
                    nursery.start_soon(self._ask, leader, dict.fromkeys(asked), ends)
        now = self._node.world.clock.now()
        self._history.take(ends, now)
        return commits, ends, gone, now

    async def _seconds_behind(self, commits: Commits, now: float) -> Family:
        behind: list[tuple[tuple[str, ...], float]] = []
        seen = 0
        for group_id, places in commits.items():
            for place, commit in places.items():
                seen += 1
                if seen % SLICE_PARTITIONS == 0:
                    await trio.lowlevel.checkpoint()
                seconds = self._history.seconds_behind(place, commit.offset, now)
                if seconds is not None:
                    behind.append(((group_id, place.topic, str(place.partition)), round(seconds, 3)))
        return _gauge_family(
            "kafka_consumergroup_lag_seconds",
            "Since the partition ended where the group stands, from the ends that earlier scrapes saw; at least so "
            "long where it stood there before the first of them.",
            ("consumergroup", "topic", "partition"),
            behind,
        )

    def _place_end(
        self,
        place: TopicPartition,
        ends: dict[TopicPartition, int],
        gone: set[TopicPartition],
        by_leader: dict[int, list[TopicPartition]],
    ) -> None:
        """Note the end if it is known here, else whom to ask, or that there is no such partition any more."""
        assert self._node.broker is not None
        if place in ends or place in gone:
            return
        partition = self._node.broker.replicas.find(place.topic, place.partition)
        if partition is not None:
            ends[place] = partition.log.high_watermark
            return
        topic = self._node.shared.loader.image.topics.by_name(place.topic)
        registration = None if topic is None else topic.partitions.get(place.partition)
        if registration is None:
            gone.add(place)
        elif registration.leader >= 0:
            by_leader.setdefault(registration.leader, []).append(place)

    async def _ask(self, leader: int, places: Iterable[TopicPartition], ends: dict[TopicPartition, int]) -> None:
        """Add the ends that `leader` tells. One that does not answer leaves its partitions without an end."""
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
                if found.error_code == ErrorCode.NONE:
                    ends[TopicPartition(topic.name, found.partition_index)] = found.offset


async def lag_families(
    commits: Commits, ends: Mapping[TopicPartition, int], gone: set[TopicPartition] | frozenset[TopicPartition]
) -> list[Family]:
    """Committed offsets and lags. A sum is left out while the end of one of its partitions is unknown: a sum that
    is too small looks like a group that keeps up. Partitions that are `gone` have no lag and keep no sum back."""
    lags: list[tuple[tuple[str, ...], float]] = []
    offsets: list[tuple[tuple[str, ...], float]] = []
    sums: dict[tuple[str, ...], float] = {}
    unknown: set[tuple[str, ...]] = set()
    seen = 0
    for group_id, places in commits.items():
        for place, commit in places.items():
            seen += 1
            if seen % SLICE_PARTITIONS == 0:
                await trio.lowlevel.checkpoint()
            labels = (group_id, place.topic, str(place.partition))
            offsets.append((labels, commit.offset))
            end = ends.get(place)
            if end is None:
                if place not in gone:
                    unknown.add((group_id, place.topic))
                continue
            lag = max(0, end - commit.offset)
            lags.append((labels, lag))
            sums[group_id, place.topic] = sums.get((group_id, place.topic), 0) + lag
    each = ("consumergroup", "topic", "partition")
    sum_help = "The same over a topic's partitions. Left out while the end of one of them is unknown."
    known = [(labels, lag) for labels, lag in sorted(sums.items()) if labels not in unknown]
    families = (
        ("kafka_consumergroup_lag", "How many records a group is behind.", each, lags),
        ("kafka_consumergroup_current_offset", "What a group has committed.", each, offsets),
        ("kafka_consumergroup_lag_sum", sum_help, ("consumergroup", "topic"), known),
    )
    return [_gauge_family(name, help_text, labels, series) for name, help_text, labels, series in families]


def _gauge_family(
    name: str, help_text: str, labels: tuple[str, ...], series: list[tuple[tuple[str, ...], float]]
) -> Family:
    family = Family(name, "gauge", help_text, labels)
    family.read = series.__iter__
    return family
