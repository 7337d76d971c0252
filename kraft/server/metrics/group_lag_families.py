"""Series of the lags of consumer groups: by partition, or summed by group and topic for those with the largest lag."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from kraft.common.ids import TopicPartition
from kraft.common.metrics import Family, LabelValues
from kraft.server.facts.cluster_facts import SLICE_PARTITIONS
from kraft.server.history.end_history import EndHistory
from kraft.world.turns import Turn

if TYPE_CHECKING:
    from kraft.coordinator.group.shard_state import OffsetAndMetadata

TOPICS_MAX: Final = 1000
"""Limit of pairs of group and topic with summed lags. Half of them are selected by their lag in seconds."""
COMMITS_A_TURN: Final = 1000
"""Commits processed between two yields: about two milliseconds."""
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
Series = Iterator[tuple[LabelValues, float]]
K = TypeVar("K", str, tuple[str, str])


class Largest(Generic[K]):
    """Selects the `count` largest of many numbers, with memory for twice as many. Ties are broken by sort order."""

    __slots__ = ("_count", "_kept")

    def __init__(self, count: int) -> None:
        self._count = count
        self._kept: list[tuple[float, K]] = []

    def __len__(self) -> int:
        """The number of entries in memory."""
        return len(self._kept)

    def offer(self, key: K, number: float) -> None:
        self._kept.append((-number, key))
        if len(self._kept) >= 2 * self._count:
            self._keep_largest()

    def keys(self) -> list[K]:
        """The keys of the largest numbers, the largest first."""
        self._keep_largest()
        return [key for _, key in self._kept]

    def _keep_largest(self) -> None:
        self._kept.sort()
        del self._kept[self._count :]


class TopicLag:
    """The lag of one group in one topic, over the partitions whose ends are known."""

    __slots__ = ("is_whole", "lag", "lag_max", "offset", "seconds")

    def __init__(self) -> None:
        self.offset = 0
        self.lag = 0
        self.lag_max = 0
        self.seconds: float | None = None
        """The lag in seconds. None if the history of end offsets has none of the group's partitions."""
        self.is_whole = True
        """Whether the ends of all existing partitions are known."""

    def number(self, name: str) -> float | None:
        """The value of the series of that name; None for no value. A lag is left out while an end offset is unknown: a
        lag that is too small would look like a group that keeps up."""
        if name == OFFSET:
            return self.offset
        if name == LAG_SECONDS:
            return None if self.seconds is None else round(self.seconds, 3)
        if not self.is_whole:
            return None
        return self.lag_max if name == LAG_MAX else self.lag


class GroupEnds:
    """The end offsets, at one moment, of partitions for which groups have committed offsets."""

    __slots__ = ("ends", "gone", "history", "now")

    def __init__(self, history: EndHistory) -> None:
        self.ends: dict[TopicPartition, int] = {}
        self.gone: dict[TopicPartition, None] = {}
        """Partitions that no longer exist."""
        self.history = history
        self.now = 0.0

    async def topic_lags(self, places: Mapping[TopicPartition, OffsetAndMetadata], turn: Turn) -> dict[str, TopicLag]:
        """The lag of one group, by topic. Other tasks run meanwhile."""
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

    async def behind(
        self, places: Mapping[TopicPartition, OffsetAndMetadata], turn: Turn
    ) -> tuple[int, dict[str, tuple[int, float]]]:
        """The number of topics for which the group has committed offsets, and the lag (records, seconds) of each topic
        in which the group has a lag. It is faster than `topic_lags`, because most groups have no lag most of the time.
        Yields to other tasks."""
        count, last = 0, None
        found: dict[str, tuple[int, float]] = {}
        ends, history = self.ends, self.history
        for place, commit in places.items():
            if turn.is_over():
                await turn.next()
            topic = place.topic
            if topic != last:  # Commits are in order.
                count, last = count + 1, topic
            end = ends.get(place, 0)
            if end > commit.offset:
                lag, seconds = found.get(topic, (0, 0.0))
                late = history.seconds_behind(place, commit.offset, self.now) or 0.0
                found[topic] = lag + end - commit.offset, max(seconds, late)
        return count, found


async def families_by_partition(commits: Commits, known: GroupEnds) -> list[Family]:
    """Each committed offset and its lag, and sums by topic. Partitions that no longer exist have no lag and are not
    missing from the sums. Series are generated as they are written: all of them in memory would be a long step for the
    garbage collector."""
    late: list[float | None] = []
    topics: dict[tuple[str, str], TopicLag] = {}
    turn = Turn(SLICE_PARTITIONS)
    for group_id, places in commits.items():
        for topic, found in (await known.topic_lags(places, turn)).items():
            topics[group_id, topic] = found
        for place, commit in places.items():
            if turn.is_over():
                await turn.next()
            is_known = place in known.ends
            late.append(known.history.seconds_behind(place, commit.offset, known.now) if is_known else None)
    each = (*GROUP_LABELS, "partition")
    return [
        _family(LAG, each, partial(_lags, commits, known.ends)),
        _family(OFFSET, each, partial(_offsets, commits)),
        _family(LAG_SECONDS, each, partial(_seconds, commits, late)),
        *[_family(name, GROUP_LABELS, partial(_numbers, name, topics)) for name in (LAG_SUM, LAG_MAX)],
        *_left_out(0, 0),
    ]


def _offsets(commits: Commits) -> Series:
    for group_id, places in commits.items():
        for place, commit in places.items():
            yield (group_id, place.topic, str(place.partition)), commit.offset


def _lags(commits: Commits, ends: Mapping[TopicPartition, int]) -> Series:
    for group_id, places in commits.items():
        for place, commit in places.items():
            if (end := ends.get(place)) is not None:
                yield (group_id, place.topic, str(place.partition)), max(0, end - commit.offset)


def _seconds(commits: Commits, late: Sequence[float | None]) -> Series:
    """The lag in seconds of each committed offset. `late` has them in the same order."""
    for (labels, _), seconds in zip(_offsets(commits), late, strict=True):
        if seconds is not None:
            yield labels, round(seconds, 3)


async def families_by_topic(commits: Commits, known: GroupEnds) -> tuple[list[Family], list[str]]:
    """Return the families of lags summed by group and topic, for the TOPICS_MAX pairs with the largest lag in seconds
    or records, with families of what is left out. Also return the groups of these pairs, sorted."""
    late: Largest[tuple[str, str]] = Largest(TOPICS_MAX // 2)
    behind: Largest[tuple[str, str]] = Largest(TOPICS_MAX)
    pairs = records = 0
    turn = Turn(COMMITS_A_TURN)
    for group_id, places in commits.items():
        count, found = await known.behind(places, turn)
        pairs += count
        for topic, (lag, seconds) in found.items():
            records += lag
            behind.offer((group_id, topic), lag)
            if seconds:
                late.offer((group_id, topic), seconds)
    furthest = dict.fromkeys([*late.keys(), *behind.keys()])
    chosen = await _shown(commits, furthest, turn)
    groups = list(dict.fromkeys(group_id for group_id, _ in chosen))
    lags = {group_id: await known.topic_lags(commits[group_id], turn) for group_id in groups}
    topics = {(group_id, topic): lags[group_id][topic] for group_id, topic in chosen}
    families = [_family(name, GROUP_LABELS, partial(_numbers, name, topics)) for name in BY_TOPIC]
    shown = sum(found.lag for found in topics.values())  # unordered: summed
    return [*families, *_left_out(pairs - len(topics), records - shown)], groups


async def _shown(commits: Commits, furthest: Iterable[tuple[str, str]], turn: Turn) -> list[tuple[str, str]]:
    """The first TOPICS_MAX of the pairs with the largest lag, sorted; if there are fewer, filled up with pairs without
    lag."""
    shown = dict.fromkeys(islice(furthest, TOPICS_MAX))
    for group_id, places in commits.items():
        for place in places:
            if len(shown) == TOPICS_MAX:
                return sorted(shown)
            if turn.is_over():
                await turn.next()
            shown[group_id, place.topic] = None
    return sorted(shown)


def _numbers(name: str, topics: Mapping[tuple[str, str], TopicLag]) -> Series:
    """The values of one series, in the order of the topics."""
    for labels, found in topics.items():
        number = found.number(name)
        if number is not None:
            yield labels, number


def _left_out(pairs: int, records: int) -> list[Family]:
    return [_family(LEFT_OUT, (), [((), pairs)].__iter__), _family(LEFT_OUT_LAG, (), [((), records)].__iter__)]


def _family(name: str, labels: tuple[str, ...], read: Callable[[], Iterable[tuple[LabelValues, float]]]) -> Family:
    family = Family(name, "gauge", HELP[name], labels)
    family.read = read
    return family
