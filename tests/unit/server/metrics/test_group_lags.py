"""Lags of consumer groups in the metrics of their coordinator, which need not host the partitions."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from kraft.common.ids import TopicPartition
from kraft.protocol.messages.list_offsets_request import ListOffsetsRequest
from kraft.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kraft.server.history.end_history import EndHistory
from kraft.server.metrics.group_lag_families import (
    BY_TOPIC,
    COMMITS_A_TURN,
    LEFT_OUT,
    LEFT_OUT_LAG,
    TOPICS_MAX,
    Largest,
)
from kraft.server.metrics.group_lags import ASKING_SECONDS_MAX, EACH_MAX, GroupLags
from kraft.server.metrics.partition_metrics import PARTITION, TOPIC
from kraft.world.turns import Turn

COMMITTED = 100
ENDS = {0: 110, 1: 120, 2: 130}
HOSTED = 0
LEADERS = {0: 1, 1: 2, 2: 3}
NODE = 9


class Clock:
    """Trio's own, which the tests run on a clock that jumps."""

    def now(self) -> float:
        return trio.current_time()

    def move_on_after(self, seconds: float) -> trio.CancelScope:
        assert seconds == ASKING_SECONDS_MAX
        return trio.move_on_after(seconds)


class Remote:
    """Leaders of the partitions that the node does not host. `failures`: what happens to who asks one of them."""

    def __init__(self, **failures: Exception | None) -> None:
        self.failures = {int(name[1:]): failure for name, failure in failures.items()}
        self.asked: list[int | None] = []

    async def call(self, version: int, request: ListOffsetsRequest, node_id: int | None) -> Any:
        await trio.lowlevel.checkpoint()
        self.asked.append(node_id)
        if node_id in self.failures:
            failure = self.failures[node_id]
            if failure is None:
                await trio.sleep_forever()
            else:
                raise failure
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(
                            partition_index=each.partition_index, offset=ENDS[each.partition_index]
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )


def node(
    commits: dict[str, dict[TopicPartition, Any]],
    ends: Callable[[str, int], int | None],
    topics: Any,
    isr: tuple[int, ...] = (NODE,),
) -> Any:
    """One that coordinates the groups of `commits`, and follows the partitions that have an end."""

    async def committed_offsets() -> Any:
        await trio.lowlevel.checkpoint()
        return commits

    def find(name: str, index: int) -> Any:
        end = ends(name, index)
        if end is None:
            return None
        return SimpleNamespace(log=SimpleNamespace(high_watermark=end), is_leader=False, node_id=NODE, isr=isr)

    return SimpleNamespace(
        broker=SimpleNamespace(
            groups=SimpleNamespace(committed_offsets=committed_offsets), replicas=SimpleNamespace(find=find)
        ),
        shared=SimpleNamespace(loader=SimpleNamespace(image=SimpleNamespace(topics=topics))),
        world=SimpleNamespace(clock=Clock()),
    )


def series_of(lags: GroupLags, by: str | None = None) -> tuple[dict[str, dict[tuple[str, ...], float]], Any]:
    """By family, and the groups that are shown."""
    families, shown = trio.run(lags.families, by, clock=MockClock(autojump_threshold=0))
    return {family.name: dict(family.read()) for family in families if family.read is not None}, shown


def scrape(
    remote: Remote, *, partitions: tuple[int, ...] = (0, 1, 2), by: str | None = None
) -> dict[str, dict[tuple[str, ...], float]]:
    """The series by family, for a group that has committed on three partitions of a topic that has `partitions`."""
    commits = {"g": {TopicPartition("t", index): SimpleNamespace(offset=COMMITTED) for index in ENDS}}
    topic = SimpleNamespace(partitions={index: SimpleNamespace(leader=LEADERS[index]) for index in partitions})
    topics = SimpleNamespace(by_name=lambda name: topic if name == "t" else None)
    port: Any = remote
    made = node(commits, lambda name, index: ENDS[index] if index == HOSTED else None, topics)
    return series_of(GroupLags(made, port), by)[0]


def test_the_lag_sum_includes_partitions_hosted_on_other_nodes() -> None:
    remote = Remote()
    series = scrape(remote)
    assert sorted(remote.asked, key=str) == [2, 3]
    assert series["kafka_consumergroup_lag"] == {("g", "t", "0"): 10, ("g", "t", "1"): 20, ("g", "t", "2"): 30}
    assert series["kafka_consumergroup_lag_sum"] == {("g", "t"): 60}
    assert series["kafka_consumergroup_lag_max"] == {("g", "t"): 30}


def test_a_replica_outside_the_isr_does_not_provide_the_end_offset() -> None:
    """As one that a reassignment has just added: its leader is asked, and where there is none no lag is told."""
    commits = {"g": {TopicPartition("t", index): SimpleNamespace(offset=COMMITTED) for index in ENDS}}
    leaders = {**LEADERS, 2: -1}
    topic = SimpleNamespace(partitions={index: SimpleNamespace(leader=leader) for index, leader in leaders.items()})
    topics = SimpleNamespace(by_name=lambda name: topic)
    port: Any = Remote()
    behind = node(commits, lambda name, index: 3, topics, isr=(1, 2))
    series, _ = series_of(GroupLags(behind, port))
    assert series["kafka_consumergroup_lag"] == {("g", "t", "0"): 10, ("g", "t", "1"): 20}
    assert series["kafka_consumergroup_lag_sum"] == {}


def test_a_lag_sum_is_left_out_while_a_leader_is_unreachable() -> None:
    for failure in (ConnectionError("gone"), TimeoutError("late"), None):
        series = scrape(Remote(n3=failure))
        assert series["kafka_consumergroup_lag"] == {("g", "t", "0"): 10, ("g", "t", "1"): 20}
        assert series["kafka_consumergroup_lag_sum"] == {}
        assert len(series["kafka_consumergroup_current_offset"]) == 3


def test_one_missing_response_of_a_leader_does_not_reduce_a_groups_time_lag() -> None:
    """Of a group that stands still: the lag in seconds goes on from where it was."""
    remote = Remote()
    commits = {"g": {TopicPartition("t", 1): SimpleNamespace(offset=COMMITTED)}}
    topics = SimpleNamespace(by_name=lambda name: SimpleNamespace(partitions={1: SimpleNamespace(leader=LEADERS[1])}))
    port: Any = remote
    lags = GroupLags(node(commits, lambda name, index: None, topics), port)
    seen = []

    async def scrape_often() -> None:
        for failures in ({}, {2: ConnectionError("gone")}, {}):
            remote.failures = failures
            families, _ = await lags.families()
            (late,) = (family for family in families if family.name == "kafka_consumergroup_lag_seconds")
            assert late.read is not None
            seen.append([seconds for _, seconds in late.read()])
            await trio.sleep(30)

    trio.run(scrape_often, clock=MockClock(autojump_threshold=0))
    assert seen == [[0], [], [60]]


def test_commits_on_deleted_partitions_do_not_suppress_a_lag_sum() -> None:
    series = scrape(Remote(), partitions=(0, 1))
    assert series["kafka_consumergroup_lag_sum"] == {("g", "t"): 30}


def test_lag_sums_by_topic_equal_the_sums_of_their_partitions() -> None:
    series = scrape(Remote(), by=TOPIC)
    for name, number in (("current_offset", 3 * COMMITTED), ("lag", 60), ("lag_sum", 60), ("lag_max", 30)):
        assert series[f"kafka_consumergroup_{name}"] == {("g", "t"): number}
    assert series[LEFT_OUT] == {(): 0}


def test_no_lag_by_topic_is_summed_while_a_leader_is_unreachable() -> None:
    series = scrape(Remote(n3=TimeoutError("late")), by=TOPIC)
    assert series["kafka_consumergroup_current_offset"] == {("g", "t"): 3 * COMMITTED}
    for name in ("lag", "lag_sum", "lag_max"):
        assert series[f"kafka_consumergroup_{name}"] == {}


def crowd(count: int, partitions: int) -> GroupLags:
    """Lags of so many groups: each has committed on `partitions` of a topic, and is as far behind as its number."""
    commits = {
        f"g{number:05d}": {
            TopicPartition(f"t{number}", index): SimpleNamespace(offset=1000) for index in range(partitions)
        }
        for number in range(count)
    }
    nothing: Any = None
    return GroupLags(node(commits, lambda name, index: 1000 + int(name[1:]), nothing), nothing)


@pytest.mark.parametrize(
    ("count", "by", "shows_each"),
    [
        (EACH_MAX // 2, None, True),
        (EACH_MAX // 2 + 1, None, False),
        (TOPICS_MAX * 2, PARTITION, True),
        (1, TOPIC, False),
    ],
)
def test_lags_of_many_commits_are_summed_by_topic(count: int, by: str | None, shows_each: bool) -> None:
    series, shown = series_of(crowd(count, 2), by)
    assert len(series["kafka_consumergroup_lag"]) == (2 * count if shows_each else count)
    assert sum(series["kafka_consumergroup_lag_sum"].values()) == 2 * sum(range(count))
    assert (shown is None) == shows_each
    assert series[LEFT_OUT] == series[LEFT_OUT_LAG] == {(): 0}


def test_of_many_groups_those_with_the_largest_lag_are_shown_and_the_rest_counted() -> None:
    count = 2 * TOPICS_MAX + 10
    series, shown = series_of(crowd(count, 1))
    first = count - TOPICS_MAX
    assert shown == [f"g{number:05d}" for number in range(first, count)]
    for name in BY_TOPIC:
        assert [labels[0] for labels in series[name]] == shown
    assert series[LEFT_OUT] == {(): first}
    assert series[LEFT_OUT_LAG] == {(): sum(range(first))}


def test_a_group_with_a_large_time_lag_is_shown_whatever_its_record_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that has stood still for a day in a topic that has a record an hour."""

    def seconds_behind(self: EndHistory, place: TopicPartition, offset: int, now: float) -> float:
        return 86_400.0 if place.topic == "t1" else 1.0

    monkeypatch.setattr(EndHistory, "seconds_behind", seconds_behind)
    series, shown = series_of(crowd(2 * TOPICS_MAX, 1))
    assert len(shown) == TOPICS_MAX
    assert series["kafka_consumergroup_lag_seconds"]["g00001", "t1"] == 86_400


def test_lags_of_many_groups_are_collected_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are served after every thousand commits, those of one group too."""
    turns = 0

    async def next_turn(self: Turn) -> None:
        nonlocal turns
        turns += 1
        await begin(self)

    begin = Turn.next
    monkeypatch.setattr(Turn, "next", next_turn)
    series_of(crowd(1, 20_000))
    assert turns >= 2 * 20_000 // COMMITS_A_TURN


@pytest.mark.parametrize(("count", "walks"), [(EACH_MAX, 3), (EACH_MAX + 1, 1)])
def test_end_offsets_of_many_commits_are_looked_up_once_for_scrapes_and_the_sampler(count: int, walks: int) -> None:
    """Together: they would mix their samples into one history, too."""
    looked_up = 0

    def end_of(name: str, index: int) -> int:
        nonlocal looked_up
        looked_up += 1
        return 1000

    nothing: Any = None
    commits = {"g": {TopicPartition("t", index): SimpleNamespace(offset=1000) for index in range(count)}}
    lags = GroupLags(node(commits, end_of, nothing), nothing)

    async def ask_together() -> None:
        async with trio.open_nursery() as asking_nursery:
            for ask in (lags.families, lags.totals, lags.families):
                asking_nursery.start_soon(ask)

    trio.run(ask_together, clock=MockClock(autojump_threshold=0))
    assert looked_up == walks * count


def test_pairs_without_lag_are_shown_when_there_are_few() -> None:
    """The first in order. With the end of a partition unknown there is no lag, but an offset."""
    commits = {
        f"g{number:05d}": {TopicPartition(f"t{number}", index): SimpleNamespace(offset=1000) for index in range(2)}
        for number in range(TOPICS_MAX + 10)
    }
    topics = SimpleNamespace(by_name=lambda name: SimpleNamespace(partitions={0: SimpleNamespace(leader=-1)}))
    nothing: Any = None
    last = f"t{TOPICS_MAX + 9}"
    found = node(commits, lambda name, index: None if name == "t0" else 1001 if name == last else 1000, topics)
    series, shown = series_of(GroupLags(found, nothing))
    assert shown == [*[f"g{number:05d}" for number in range(TOPICS_MAX - 1)], f"g{TOPICS_MAX + 9:05d}"]
    assert ("g00000", "t0") not in series["kafka_consumergroup_lag"]
    assert series["kafka_consumergroup_current_offset"]["g00000", "t0"] == 2000
    assert series["kafka_consumergroup_lag"][shown[-1], last] == 2
    assert (series[LEFT_OUT], series[LEFT_OUT_LAG]) == ({(): 10}, {(): 0})


def test_twice_as_many_series_as_shown_are_kept_in_memory() -> None:
    largest: Largest[str] = Largest(10)
    for number in range(1000):
        largest.offer(f"k{number:03d}", number % 100)
        assert len(largest) <= 20
    assert largest.keys() == [f"k{number}99" for number in range(10)]


def test_lag_totals_are_by_group_and_by_topic() -> None:
    commits: dict[str, dict[TopicPartition, Any]] = {
        "g": {
            TopicPartition("t1", 0): SimpleNamespace(offset=1000),
            TopicPartition("t2", 0): SimpleNamespace(offset=999),
        },
        "h": {
            TopicPartition("t2", 0): SimpleNamespace(offset=1002),
            TopicPartition("t2", 1): SimpleNamespace(offset=0),
        },
    }
    nothing: Any = None
    made = node(commits, lambda name, index: 1000 + int(name[1:]), nothing)
    groups, topics = trio.run(GroupLags(made, nothing).totals, clock=MockClock(autojump_threshold=0))
    assert groups == {"g": 1 + 3, "h": 0 + 1002}
    assert topics == {"t1": (1, 1), "t2": (2, 3 + 1002)}
