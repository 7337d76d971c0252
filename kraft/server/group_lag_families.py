"""Series of the lags of consumer groups: by partition, or summed by group and topic for those that are furthest
behind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from kraft.common.ids import TopicPartition
from kraft.common.metrics import Family, LabelValues
from kraft.server.cluster_facts import SLICE_PARTITIONS
from kraft.server.end_history import EndHistory
from kraft.world.turns import Turn

if TYPE_CHECKING:
    from kraft.coordinator.group.shard_state import OffsetAndMetadata

TOPICS_MAX: Final = 1000
"""So many pairs of a group and a topic are shown where they are summed, half of them for their lag in seconds."""
COMMITS_A_TURN: Final = 1000
"""About two milliseconds."""
GROUP_LABELS: Final = ("consumergroup", "topic")
OFFSET, LAG, LAG_SUM = "kafka_consumergroup_current_offset", "kafka_consumergroup_lag", "kafka_consumergroup_lag_sum"
LAG_MAX, LAG_SECONDS = "kafka_consumergroup_lag_max", "kafka_consumergroup_lag_seconds"
LEFT_OUT, LEFT_OUT_LAG = "kraft_consumergroup_topics_left_out", "kraft_consumergroup_left_out_lag"
BY_TOPIC: Final = (LAG, OFFSET, LAG_SECONDS, LAG_SUM, LAG_MAX)
HELP: Final = {
    OFFSET: "What a group has committed.",
    LAG: "How many records a group is behind.",
    LAG_SUM: "The same over a topic's partitions. Left out while the end of one of them is unknown.",
    LAG_MAX: "The same in the one of a topic's partitions in which it is furthest behind.",
    LAG_SECONDS: (
        "Since the partition ended where the group stands, from the ends that earlier scrapes saw; at least so long "
        "where it stood there before the first of them."
    ),
    LEFT_OUT: (
        f"Pairs of a group and a topic without series of lags, since {TOPICS_MAX} others are further behind. "
        "/metrics?by=partition has them."
    ),
    LEFT_OUT_LAG: "How many records those without series are behind, together.",
}

Commits = Mapping[str, Mapping[TopicPartition, "OffsetAndMetadata"]]
Series = list[tuple[LabelValues, float]]
K = TypeVar("K", str, tuple[str, str])


class Largest(Generic[K]):
    """The `count` largest of many numbers, in memory for twice as many; of equal ones those that sort first."""

    __slots__ = ("_count", "_kept")

    def __init__(self, count: int) -> None:
        self._count = count
        self._kept: list[tuple[float, K]] = []

    def __len__(self) -> int:
        """How many are in memory."""
        return len(self._kept)

    def offer(self, key: K, number: float) -> None:
        self._kept.append((-number, key))
        if len(self._kept) >= 2 * self._count:
            self._cut()

    def keys(self) -> list[K]:
        """The largest first."""
        self._cut()
        return [key for _, key in self._kept]

    def _cut(self) -> None:
        self._kept.sort()
        del self._kept[self._count :]


class TopicLag:
    """How far one group is behind in one topic, over the partitions whose ends are known."""

    __slots__ = ("is_whole", "lag", "lag_max", "offset", "seconds")

    def __init__(self) -> None:
        self.offset = 0
        self.lag = 0
        self.lag_max = 0
        self.seconds: float | None = None
        """None where the history tells of no partition."""
        self.is_whole = True
        """Whether all ends are known but those of partitions that are gone."""

    def number(self, name: str) -> float | None:
        """Of the series of that name; None for none. A lag is left out while an end is unknown: one that is too small
        looks like a group that keeps up."""
        if name == OFFSET:
            return self.offset
        if name == LAG_SECONDS:
            return None if self.seconds is None else round(self.seconds, 3)
        if not self.is_whole:
            return None
        return self.lag_max if name == LAG_MAX else self.lag


class GroupEnds:
    """Where partitions end that groups have committed offsets of, at one moment."""

    __slots__ = ("ends", "gone", "history", "now")

    def __init__(self, history: EndHistory) -> None:
        self.ends: dict[TopicPartition, int] = {}
        self.gone: dict[TopicPartition, None] = {}
        """Partitions that there are no more."""
        self.history = history
        self.now = 0.0

    async def topic_lags(self, places: Mapping[TopicPartition, OffsetAndMetadata], turn: Turn) -> dict[str, TopicLag]:
        """Of one group, by topic. Others are served meanwhile."""
        topics: dict[str, TopicLag] = {}
        for place, commit in places.items():
            if turn.is_over():
                await turn.next()
            found = topics.get(place.topic)
            if found is None:
                found = topics[place.topic] = TopicLag()
            found.offset += commit.offset
            end = self.ends.get(place)
            if end is None:
                found.is_whole = found.is_whole and place in self.gone
                continue
            if (lag := end - commit.offset) > 0:
                found.lag += lag
                found.lag_max = max(found.lag_max, lag)
                seconds = self.history.seconds_behind(place, commit.offset, self.now)
            else:
                seconds = 0.0
            if seconds is not None and (found.seconds is None or seconds > found.seconds):
                found.seconds = seconds
        return topics


async def families_by_partition(commits: Commits, known: GroupEnds) -> list[Family]:
    """Each commit and its lag, and sums by topic. Partitions that are gone have no lag and keep no sum back."""
    offsets: Series = []
    lags: Series = []
    seconds: Series = []
    topics: dict[tuple[str, str], TopicLag] = {}
    turn = Turn(SLICE_PARTITIONS)
    for group_id, places in commits.items():
        for topic, found in (await known.topic_lags(places, turn)).items():
            topics[group_id, topic] = found
        for place, commit in places.items():
            if turn.is_over():
                await turn.next()
            labels = (group_id, place.topic, str(place.partition))
            offsets.append((labels, commit.offset))
            if (end := known.ends.get(place)) is None:
                continue
            lags.append((labels, max(0, end - commit.offset)))
            behind = known.history.seconds_behind(place, commit.offset, known.now)
            if behind is not None:
                seconds.append((labels, round(behind, 3)))
    each = (*GROUP_LABELS, "partition")
    return [
        *[_family(name, each, series) for name, series in ((LAG, lags), (OFFSET, offsets), (LAG_SECONDS, seconds))],
        *[_family(name, GROUP_LABELS, await _series(name, topics, turn)) for name in (LAG_SUM, LAG_MAX)],
        *_left_out(0, 0),
    ]


async def families_by_topic(commits: Commits, known: GroupEnds) -> tuple[list[Family], list[str]]:
    """Summed by group and topic, of the TOPICS_MAX pairs that are furthest behind in seconds or in records, with what
    is left out; and the groups of these pairs, in order."""
    late: Largest[tuple[str, str]] = Largest(TOPICS_MAX // 2)
    behind: Largest[tuple[str, str]] = Largest(TOPICS_MAX)
    pairs = records = 0
    turn = Turn(COMMITS_A_TURN)
    for group_id, places in commits.items():
        for topic, found in (await known.topic_lags(places, turn)).items():
            pairs += 1
            records += found.lag
            behind.offer((group_id, topic), found.lag)
            if found.seconds:
                late.offer((group_id, topic), found.seconds)
    chosen = sorted(list(dict.fromkeys([*late.keys(), *behind.keys()]))[:TOPICS_MAX])
    groups = list(dict.fromkeys(group_id for group_id, _ in chosen))
    lags = {group_id: await known.topic_lags(commits[group_id], turn) for group_id in groups}
    topics = {(group_id, topic): lags[group_id][topic] for group_id, topic in chosen}
    families = [_family(name, GROUP_LABELS, await _series(name, topics, turn)) for name in BY_TOPIC]
    shown = sum(found.lag for found in topics.values())  # unordered: summed
    return [*families, *_left_out(pairs - len(topics), records - shown)], groups


async def _series(name: str, topics: Mapping[tuple[str, str], TopicLag], turn: Turn) -> Series:
    """In the order of the topics."""
    series: Series = []
    for labels, found in topics.items():
        if turn.is_over():
            await turn.next()
        number = found.number(name)
        if number is not None:
            series.append((labels, number))
    return series


def _left_out(pairs: int, records: int) -> list[Family]:
    return [_family(LEFT_OUT, (), [((), pairs)]), _family(LEFT_OUT_LAG, (), [((), records)])]


def _family(name: str, labels: tuple[str, ...], series: Series) -> Family:
    family = Family(name, "gauge", HELP[name], labels)
    family.read = series.__iter__
    return family
