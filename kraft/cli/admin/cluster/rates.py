"""Rates between two samples of a cluster: records per second, lags, and changes of lag. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kraft.common.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Look:
    """A sample at one moment (clock seconds): the end and the leader of each partition, and the committed offsets of
    groups. Share groups have no committed offsets: `waiting` are their records that are not finished."""

    moment: float
    ends: Mapping[TopicPartition, int]
    leaders: Mapping[TopicPartition, int]
    commits: Mapping[str, Mapping[TopicPartition, int]] = field(default_factory=dict)
    waiting: Mapping[str, Mapping[TopicPartition, int]] = field(default_factory=dict)

    def positions(self) -> dict[str, dict[TopicPartition, int]]:
        """The position of each group: its committed offsets; for a share group the ends less the records that are not
        finished."""
        shares = {
            group: {place: self.ends[place] - count for place, count in places.items() if place in self.ends}
            for group, places in self.waiting.items()
        }
        return {group: dict(places) for group, places in self.commits.items()} | shares


@dataclass(frozen=True, slots=True)
class Rate:
    """Records per second of a topic, a partition, or all partitions that a broker leads."""

    name: str
    records_per_second: float
    partitions: int = 1
    leader: int = -1


@dataclass(frozen=True, slots=True)
class GroupRate:
    """A group in one topic. `lag_change` is in records per second: negative while it catches up. For a share group,
    finished records count as read."""

    group: str
    topic: str
    lag: int
    read_per_second: float
    lag_change: float
    is_share: bool = False

    @property
    def caught_up_in(self) -> float | None:
        """The seconds until the lag is 0 at this rate; None if the lag does not shrink."""
        return 0.0 if not self.lag else -self.lag / self.lag_change if self.lag_change < 0 else None


def partition_rates(before: Look, after: Look) -> list[Rate]:
    """The rates of partitions, the busiest first. A partition that is new or was recreated has no rate yet."""
    seconds = max(after.moment - before.moment, 1e-9)
    rates = [
        Rate(
            f"{place.topic}-{place.partition}",
            max(0, end - before.ends.get(place, end)) / seconds,
            leader=after.leaders[place],
        )
        for place, end in after.ends.items()
    ]
    return sorted(rates, key=lambda rate: (-rate.records_per_second, rate.name))


def topic_rates(before: Look, after: Look) -> list[Rate]:
    """The rates of topics, the busiest first."""
    return _summed(before, after, [place.topic for place in after.ends])


def broker_rates(before: Look, after: Look) -> list[Rate]:
    """The rates of each broker over the partitions that it leads, in order of broker id."""
    found = _summed(before, after, [str(after.leaders[place]) for place in after.ends])
    return sorted(found, key=lambda rate: int(rate.name))


def _summed(before: Look, after: Look, names: list[str]) -> list[Rate]:
    seconds = max(after.moment - before.moment, 1e-9)
    records: dict[str, int] = {}
    counts: dict[str, int] = {}
    for name, (place, end) in zip(names, after.ends.items(), strict=True):
        records[name] = records.get(name, 0) + max(0, end - before.ends.get(place, end))
        counts[name] = counts.get(name, 0) + 1
    rates = [Rate(name, count / seconds, counts[name]) for name, count in records.items()]
    return sorted(rates, key=lambda rate: (-rate.records_per_second, rate.name))


def group_rates(before: Look, after: Look) -> list[GroupRate]:
    """The rates of groups, the largest lag first. Only partitions whose end is known count."""
    seconds = max(after.moment - before.moment, 1e-9)
    rates = []
    former = before.positions()
    for group, places in after.positions().items():
        earlier = former.get(group, {})
        for topic in dict.fromkeys(place.topic for place in places):
            lag = change = read = 0
            for place, offset in places.items():
                if place.topic != topic or place not in after.ends:
                    continue
                now = max(0, after.ends[place] - offset)
                lag += now
                if place in earlier and place in before.ends:
                    change += now - max(0, before.ends[place] - earlier[place])
                    read += max(0, offset - earlier[place])
            rates.append(GroupRate(group, topic, lag, read / seconds, change / seconds, group in after.waiting))
    return sorted(rates, key=lambda rate: (-rate.lag, rate.group, rate.topic))
