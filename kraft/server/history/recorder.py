"""Takes a sample of this node every ten seconds, for the charts of the console: of its partitions, its event loop and
the groups that it coordinates."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Final

import trio

from kraft.common.ids import TopicPartition
from kraft.common.logging import RateLimitedLog
from kraft.replication.partition_traffic import CONSUMERS
from kraft.server.facts.cluster_facts import SLICE_PARTITIONS, disk_room
from kraft.server.facts.group_progress import GroupProgress
from kraft.server.history.history import STEP_SECONDS, History, TopicCounts

if TYPE_CHECKING:
    from kraft.replication.partition import Partition
    from kraft.server.metrics.group_lags import GroupLags
    from kraft.server.node import Node

FAILURES_TOLD_SECONDS: Final = 600.0
GROUPS_EVERY_TIME: Final = 100
SAMPLES_BETWEEN_LAGS: Final = 3
"""Samples between two samples of lags, which send requests to other nodes."""


class HistoryRecorder:
    """Samples the node's metrics for the history. Runs on nodes with an HTTP admin."""

    def __init__(self, node: Node, lags: GroupLags) -> None:
        self.history = History()
        self._node = node
        self._lags = lags
        self.progress = GroupProgress(node, lags)
        self._told = RateLimitedLog(
            node.loggers.get("history"), node.world.clock, events_max=1, period_seconds=FAILURES_TOLD_SECONDS
        )
        self._known_lags: dict[str, int] = {}
        self._before: dict[TopicPartition, tuple[int, int, int]] | None = None
        """Log ends of led partitions, and bytes in and out, at the last sample."""
        self._requests = 0
        self._cpu_seconds = 0.0
        self._idle_seconds = 0.0

    async def run(self) -> None:
        """Take samples until cancelled. All nodes take them at the same times, so that they can be summed."""
        clock = self._node.world.clock
        await self._counts()
        self._rates(1.0)
        taken_at, number = clock.now(), 0
        while True:
            await clock.sleep(STEP_SECONDS - clock.wall_ms() / 1000 % STEP_SECONDS)
            now = clock.now()
            seconds = max(now - taken_at, 0.001)
            taken_at = now
            try:
                few = len(self._known_lags) <= GROUPS_EVERY_TIME
                await self._sample(seconds, with_lags=few or number % SAMPLES_BETWEEN_LAGS == 0)
            except Exception as problem:  # noqa: BLE001 - a chart with a gap is no reason for a node to end.
                self._told.warning(
                    "sample of the history failed", traceback="".join(traceback.format_exception(problem))
                )
            number += 1

    async def _sample(self, seconds: float, *, with_lags: bool) -> None:
        if with_lags:
            self._known_lags, self.history.topic_lags = await self._lags.totals()
            await self.progress.look()
        topics = await self._counts()
        node = self._rates(seconds)
        for position, name in enumerate(TopicCounts._fields):
            node[name] = sum(counts[position] for counts in topics.values()) / seconds  # unordered: summed
        self.history.take(self._node.world.clock.wall_ms(), seconds, node, topics, self._known_lags)

    async def _counts(self) -> dict[str, TopicCounts]:
        """The traffic of each topic since the previous call."""
        broker = self._node.broker
        last = self._before
        sums: dict[str, list[int]] = {}
        seen: dict[TopicPartition, tuple[int, int, int]] = {}
        for count, partition in enumerate([] if broker is None else list(broker.replicas), 1):
            key, now = partition.log.topic_partition, _counters(partition)
            before = now if last is None else last.get(key) or _at_its_beginning(partition)
            found = sums.setdefault(partition.topic, [0, 0, 0])
            if now == before:
                seen[key] = before  # The objects that there are already: new ones are work for the garbage collector.
            else:
                seen[key] = now
                for position in range(3):
                    if before[position] >= 0:  # It led then, too.
                        found[position] += max(0, now[position] - before[position])
            if count % SLICE_PARTITIONS == 0:
                await trio.lowlevel.checkpoint()
        self._before = seen
        return {topic: TopicCounts(*found) for topic, found in sums.items()}

    def _rates(self, seconds: float) -> dict[str, float]:
        """The node's rates per second, and its current state."""
        node, rates = self._node, {}
        idle = node.stalls.idle_seconds
        rates["busy"] = min(1.0, max(0.0, 1 - (idle - self._idle_seconds) / seconds))
        self._idle_seconds = idle
        usage = node.world.process_usage()
        if usage is not None:
            rates["cpu"] = max(0.0, usage.cpu_seconds - self._cpu_seconds) / seconds
            rates["memory_bytes"] = float(usage.resident_bytes)
            self._cpu_seconds = usage.cpu_seconds
        free, total = disk_room(node)
        if free is not None and total:
            rates["disk_used"] = 1 - free / total
        if node.broker is not None:
            requests = sum(each.requests for each in node.broker.dispatcher.counters.values())  # unordered: summed
            rates["requests"] = (requests - self._requests) / seconds
            self._requests = requests
            servers = node.broker.socket_servers.values()
            rates["connections"] = float(sum(len(server.connections) for server in servers))
        return rates


def _counters(partition: Partition) -> tuple[int, int, int]:
    """The partition's counters: end offset, bytes in, bytes out. The end is -1 on a follower: only the leader counts
    records."""
    end = partition.log.log_end_offset if partition.is_leader else -1
    return end, partition.traffic.bytes_in, partition.traffic.bytes_out[CONSUMERS]


def _at_its_beginning(partition: Partition) -> tuple[int, int, int]:
    """The initial counters of a replica that was added since the last sample. Its records count as new only if all of
    its log was produced to this replica, that is, neither replicated nor loaded from disk."""
    if not partition.is_leader:
        return -1, 0, 0
    log = partition.log
    return (log.log_start_offset if log.size <= partition.traffic.bytes_in else log.log_end_offset), 0, 0
