"""The progress of copies in bytes: the sizes of the replicas being added, compared with their leaders'."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kraft.admin.errors import check
from kraft.admin.transport import AdminTransport
from kraft.common.ids import TopicPartition
from kraft.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from kraft.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse

Sizes = Mapping[tuple[int, TopicPartition], int]
"""Bytes of replicas on disk, by broker and partition."""

WINDOW_SECONDS: Final = 30.0
STEP_SECONDS: Final = 1.0
"""Samples that follow the previous one sooner are dropped."""


class Copy(NamedTuple):
    """A replica that is being added, or would be. `leader` is the broker whose log is copied, -1 without a leader."""

    partition: TopicPartition
    leader: int
    target: int


@dataclass(frozen=True, slots=True)
class Sums:
    """Totals of copies. A copy of unknown size counts in `unsized` only."""

    bytes_left: int
    unsized: int
    arrivals: Mapping[int, tuple[int, int]]
    """Replicas and bytes left for each target, in order of broker."""
    bytes_of_busiest: int
    """Bytes of the broker that sends or receives the most."""

    def seconds_at(self, bytes_per_second: int) -> float | None:
        """The duration in seconds if each broker sends and receives at that rate; None if a size is not known."""
        return None if self.unsized else self.bytes_of_busiest / bytes_per_second


async def replica_sizes(
    port: AdminTransport, replicas: Mapping[int, Sequence[TopicPartition]]
) -> dict[tuple[int, TopicPartition], int]:
    """The sizes of replicas, each from its own broker, without future replicas. Replicas that do not exist yet, and
    those whose broker does not answer, are left out. Raises Refused."""

    async def ask(broker_id: int) -> list[tuple[tuple[int, TopicPartition], int]]:
        topics: dict[str, list[int]] = {}
        for topic, index in replicas[broker_id]:
            topics.setdefault(topic, []).append(index)
        request = DescribeLogDirsRequest(
            topics=[DescribableLogDirTopic(topic=name, partitions=indexes) for name, indexes in topics.items()]
        )
        response = await port.ask(request, DescribeLogDirsResponse, node_id=broker_id)
        check(response.error_code, f"broker {broker_id}")
        return [
            ((broker_id, TopicPartition(topic.name, each.partition_index)), each.partition_size)
            for directory in response.results
            for topic in directory.topics
            for each in topic.partitions
            if not each.is_future_key
        ]

    return dict(pair for pairs in await port.ask_brokers(ask, sorted(replicas)) for pair in pairs)


async def sizes_of(port: AdminTransport, copies: Iterable[Copy]) -> dict[tuple[int, TopicPartition], int]:
    """The log sizes in bytes, by broker and partition, of the copies' leaders and of their targets. Raises Refused."""
    asked: dict[int, dict[TopicPartition, None]] = {}
    for copy in copies:
        for broker_id in (copy.leader, copy.target):
            if broker_id >= 0:
                asked.setdefault(broker_id, {})[copy.partition] = None
    return await replica_sizes(port, {broker_id: list(places) for broker_id, places in asked.items()})


def bytes_left(copy: Copy, sizes: Sizes) -> int | None:
    """The bytes left to copy; None if the leader's size is not known. Never exact, since the logs of replicas differ by
    what retention and compaction have deleted."""
    whole = sizes.get((copy.leader, copy.partition))
    return None if whole is None else max(0, whole - sizes.get((copy.target, copy.partition), 0))


def sums(copies: Iterable[Copy], sizes: Sizes) -> Sums:
    sent: dict[int, int] = {}
    taken: dict[int, int] = {}
    counts: dict[int, int] = {}
    unsized = 0
    for copy in copies:
        left = bytes_left(copy, sizes)
        unsized += left is None
        counts[copy.target] = counts.get(copy.target, 0) + 1
        sent[copy.leader] = sent.get(copy.leader, 0) + (left or 0)
        taken[copy.target] = taken.get(copy.target, 0) + (left or 0)
    return Sums(
        bytes_left=sum(taken.values()),
        unsized=unsized,
        arrivals={target: (count, taken[target]) for target, count in sorted(counts.items())},
        bytes_of_busiest=max((*sent.values(), *taken.values()), default=0),
    )


class CopyRate:
    """The rate in bytes per second at which the replicas being added have grown, over the samples of the last
    WINDOW_SECONDS. Each caller keeps its own object, and its first sample has no rate. The growth between a replica's
    last sample and its completion is not counted."""

    def __init__(self) -> None:
        self._last: Sizes = {}
        self._grown = 0
        self._looks: deque[tuple[float, int]] = deque()
        """The times of samples, and the bytes copied by then."""

    def look(self, now: float, copied: Sizes) -> float | None:
        """Add a sample of the replicas' sizes, and return the rate. None before there are two samples that are
        STEP_SECONDS apart, and while nothing is copied."""
        if not copied:
            self._looks.clear()
        while self._looks and now - self._looks[0][0] > WINDOW_SECONDS:
            self._looks.popleft()
        if copied and (not self._looks or now - self._looks[-1][0] >= STEP_SECONDS):
            if self._looks:
                self._grown += sum(max(0, size - self._last.get(key, size)) for key, size in copied.items())
            self._looks.append((now, self._grown))
            self._last = copied
        if len(self._looks) < 2:
            return None
        (since, before), (until, after) = self._looks[0], self._looks[-1]
        return (after - before) / (until - since)
