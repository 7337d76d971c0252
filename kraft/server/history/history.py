"""The last hour of a node: for each series a ring of numbers, one every ten seconds. Memory is bounded: only the
busiest topics and the groups with the largest lag are kept, and series that were zero for an hour are dropped. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

STEP_SECONDS: Final = 10
SAMPLES_MAX: Final = 360
TOPICS_MAX: Final = 1000
"""Limit of topics, of 9 KB each. The least active ones of the last hour are dropped."""
GROUPS_MAX: Final = 1000
"""Limit of groups, of 3 KB each. Those with the smallest lags are dropped."""
NOTHING: Final = 1e-3
"""Rates up to this one, below one record an hour, count as zero."""
TOPIC_SERIES: Final = ("records_in", "bytes_in", "bytes_out")
"""Series of a topic, per second."""


class TopicCounts(NamedTuple):
    """The traffic of a topic's partitions on this node since the previous sample."""

    records_in: int
    bytes_in: int
    bytes_out: int


class TopicLag(NamedTuple):
    """The lag of a topic in the groups that this node coordinates."""

    groups: int
    """The groups with committed offsets for the topic."""
    lag: int
    """Total lag in records, in partitions with known ends."""


NO_LAG: Final = TopicLag(0, 0)


class Ring:
    """A number for each sample, and their sum. Samples before the first are zero."""

    __slots__ = ("sum", "values")

    def __init__(self) -> None:
        self.values = array("d", bytes(8 * SAMPLES_MAX))
        self.sum = 0.0

    def put(self, place: int, value: float) -> None:
        """Replace the number of an hour ago."""
        self.sum += value - self.values[place]
        self.values[place] = value

    def in_order(self, end: int, count: int) -> list[float]:
        """The last `count` numbers, oldest first. `end` is the number of samples so far."""
        return [round(self.values[index % SAMPLES_MAX], 3) for index in range(end - count, end)]


class History:
    """Stores samples, and returns them as series."""

    def __init__(self) -> None:
        self._count = 0
        self._times_ms = array("q", bytes(8 * SAMPLES_MAX))
        self._node: dict[str, Ring] = {}
        self._topics: dict[str, tuple[Ring, ...]] = {}
        self._groups: dict[str, Ring] = {}
        self.topic_lags: Mapping[str, TopicLag] = {}
        """Lags by topic at the last sample of lags. Topics without committed offsets are absent."""

    def take(
        self,
        time_ms: int,
        seconds: float,
        node: Mapping[str, float],
        topics: Mapping[str, TopicCounts],
        lags: Mapping[str, int],
    ) -> None:
        """Add one sample. `seconds` have passed since the previous one. `node` has current numbers, `topics` the
        traffic since then, `lags` the lag in records by group."""
        place = self._count % SAMPLES_MAX
        self._times_ms[place] = time_ms
        self._count += 1
        for name, value in node.items():
            self._node.setdefault(name, Ring()).put(place, value)
        self._take_topics(place, seconds, topics)
        for group, ring in self._groups.items():
            ring.put(place, lags.get(group, 0))
        unknown = {group: lag for group, lag in lags.items() if lag and group not in self._groups}
        for group in _largest(unknown, GROUPS_MAX):
            self._groups.setdefault(group, Ring()).put(place, lags[group])
        if self._count % SAMPLES_MAX == 0 or len(self._topics) > TOPICS_MAX or len(self._groups) > GROUPS_MAX:
            self._forget()

    def _take_topics(self, place: int, seconds: float, topics: Mapping[str, TopicCounts]) -> None:
        for rings in self._topics.values():
            for ring in rings:
                ring.put(place, 0)
        for topic, counts in topics.items():
            if topic in self._topics or any(counts):
                rings = self._topics.setdefault(topic, tuple(Ring() for _ in TOPIC_SERIES))
                for ring, count in zip(rings, counts, strict=True):
                    ring.put(place, count / seconds)

    def _forget(self) -> None:
        done = {topic: sum(ring.sum for ring in rings) for topic, rings in self._topics.items()}
        self._topics = {topic: self._topics[topic] for topic in _largest(done, TOPICS_MAX)}
        behind = {group: ring.sum for group, ring in self._groups.items()}
        self._groups = {group: self._groups[group] for group in _largest(behind, GROUPS_MAX)}

    def of_node(self) -> dict[str, Any]:
        """The document of the node's own numbers."""
        return self._document(self._node.items())

    def of_topic(self, topic: str) -> dict[str, Any]:
        """The document of a topic; without series if the topic is not kept."""
        rings = self._topics.get(topic, ())
        return self._document(zip(TOPIC_SERIES, rings, strict=False))

    def latest_of_topic(self, topic: str) -> dict[str, float]:
        """The topic's rates per second at the last sample, by series."""
        rings, place = self._topics.get(topic), (self._count - 1) % SAMPLES_MAX
        return {
            name: 0.0 if rings is None else round(rings[position].values[place], 3)
            for position, name in enumerate(TOPIC_SERIES)
        }

    def of_group(self, group: str) -> dict[str, Any]:
        """The document of a group: its lag in records."""
        ring = self._groups.get(group)
        return self._document(() if ring is None else (("lag", ring),))

    def _document(self, series: Iterable[tuple[str, Ring]]) -> dict[str, Any]:
        count = min(self._count, SAMPLES_MAX)
        return {
            "times_ms": [self._times_ms[index % SAMPLES_MAX] for index in range(self._count - count, self._count)],
            "series": {name: ring.in_order(self._count, count) for name, ring in series},
        }


def _largest(sizes: Mapping[str, float], count: int) -> list[str]:
    """The names of the `count` largest sizes above NOTHING, sorted. Sums of rates below NOTHING are rounding errors of
    additions and subtractions."""
    kept = sorted((name for name, size in sizes.items() if size > NOTHING), key=lambda name: (-sizes[name], name))[
        :count
    ]
    return sorted(kept)


def merged(documents: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Several nodes' documents of the same series, summed by time. All nodes take their samples at the same times."""
    sums: dict[str, dict[int, float]] = {}
    moments: set[int] = set()
    for document in documents:
        steps = [time_ms // (1000 * STEP_SECONDS) for time_ms in document["times_ms"]]
        moments.update(steps)
        for name, values in document["series"].items():
            found = sums.setdefault(name, {})
            for step, value in zip(steps, values, strict=True):
                found[step] = found.get(step, 0.0) + value
    ordered = sorted(moments)[-SAMPLES_MAX:]
    return {
        "times_ms": [step * 1000 * STEP_SECONDS for step in ordered],
        "series": {name: [round(values.get(step, 0.0), 3) for step in ordered] for name, values in sums.items()},
    }
